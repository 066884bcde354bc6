"""What becomes of a call that meets a fault."""

from typing import NamedTuple

from emend.memory.errors import (
    ContextOverflow,
    KeyRefused,
    ModelError,
    ModelReplyError,
    ModelUnreachable,
    QuotaExhausted,
    RateLimited,
    ReplyCutOff,
    ReplyRefused,
    RequestRefused,
)


class Outcome(NamedTuple):
    """What is raised when a fault does not pass, and whether it may pass, so that the call is tried again."""

    error: type[ModelError]
    passing: bool = False


OUTCOMES: dict[str, Outcome] = {
    "429": Outcome(RateLimited, passing=True),
    "429-after": Outcome(RateLimited, passing=True),
    "quota": Outcome(QuotaExhausted),
    "401": Outcome(KeyRefused),
    "404": Outcome(RequestRefused),
    "400": Outcome(RequestRefused),
    "no-schema": Outcome(RequestRefused),
    "overflow": Outcome(ContextOverflow),
    "500": Outcome(ModelUnreachable, passing=True),
    "503": Outcome(ModelUnreachable, passing=True),
    "200": Outcome(ModelUnreachable, passing=True),
    "page": Outcome(ModelUnreachable, passing=True),
    "echo": Outcome(ModelUnreachable, passing=True),
    "length": Outcome(ReplyCutOff),
    "refusal": Outcome(ReplyRefused),
    "empty": Outcome(ModelReplyError),
    "hang": Outcome(ModelUnreachable, passing=True),
    "reset": Outcome(ModelUnreachable, passing=True),
    "truncated": Outcome(ModelUnreachable, passing=True),
}
"""Of every fault but `wrong_schema`, which only a caller who wants a schema can see."""
