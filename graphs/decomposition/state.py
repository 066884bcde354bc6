"""State and context of the graph `mello`, shared by its forms."""

from dataclasses import dataclass
from typing import Literal

from typing_extensions import TypedDict

from emend.agents.roles.conversation import Prompt
from emend.agents.roles.decompose import DEMONSTRATIONS, opened, opening, stepwise_question
from emend.agents.roles.line_steps import StepLimit
from emend.graphs.rag import RagContext, RagState
from emend.memory.errors import ModelReplyError
from emend.memory.probe import Probe, Usage

Form = Literal["text", "lines", "structured", "facts"]
HopSource = Literal["model", "data"]
HOPS = 4
HOPS_LIMIT = 12


class HopState(TypedDict, total=False):
    """Hop as JSON; the retrieval adds `fact`, and the check adds `contradicts` and `answer`."""

    subquestion: str
    tentative: str
    fact: str
    contradicts: bool
    answer: str


class MelloState(RagState, total=False):
    """State of `rag`; `transcript` has the steps as text, `final` the final answer once the model
    gave it.

    `form` is set for a chat model, and changes to the next form with the reason in `fallback`.
    `end` is the reason why a chain of the form `lines` ended.
    """

    form: Form
    transcript: str
    hops: list[HopState]
    end: str


@dataclass(frozen=True)
class MelloContext(RagContext):
    """Context of `rag`, with the form, the maximum number of subquestions and the demonstrations.

    The `demonstrations` are shown in the forms `text` and `lines`; they are empty if the context
    window has no room for them. `hops_from` says whether the number of subquestions is decided by
    the model or by the probe's tag `hops`. `fallbacks` are the forms to try, in this order, after a
    reply that does not follow the format; without fallbacks such a probe has no answer, as
    published. `empty` means that no edit is applied: nothing has to be checked, and the probe is
    asked unchanged.
    """

    form: Form = "text"
    fallbacks: tuple[Form, ...] = ()
    hops: int = HOPS
    hops_from: HopSource = "model"
    demonstrations: str = DEMONSTRATIONS
    empty: bool = False


def limit_of(probe: Probe, most: int, hops_from: HopSource) -> StepLimit:
    """Return the maximum number of steps of a probe, or their exact number from its tag `hops` if
    the data set decides.
    """
    if hops_from == "data" and "hops" in probe.tags:
        return StepLimit(min(int(probe.tags["hops"]), HOPS_LIMIT), exactly=True)
    return StepLimit(most)


def check_limit(
    probe: Probe, context: MelloContext, hops: list[HopState], reply: str, usage: Usage
) -> None:
    """Refuse a further subquestion at the limit; a number of hops from the data set may raise the
    limit, but never lowers it.

    Raises:
        ModelReplyError: the limit is reached; the error has the reply and its usage.
    """
    limit = max(context.hops, limit_of(probe, context.hops, context.hops_from).steps)
    if len(hops) >= limit:
        message = f"no final answer after {limit} subquestions; the last reply is {reply!r}."
        raise ModelReplyError(message, reply, usage)


def first_lines(probe: Probe, context: MelloContext, form: Form) -> str:
    """Return the beginning of a form's transcript: its demonstrations and the question."""
    return opening(stepwise_question(probe), _demonstrations(context, form))


def prompt_of(probe: Probe, context: MelloContext, form: Form, transcript: str) -> Prompt:
    """Return the transcript as a prompt, which has both a text and the turns of a conversation."""
    steps = transcript.removeprefix(first_lines(probe, context, form))
    return opened(stepwise_question(probe), _demonstrations(context, form), steps)


def _demonstrations(context: MelloContext, form: Form) -> str:
    return context.demonstrations if form in ("text", "lines") else ""
