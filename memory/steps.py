"""Steps of an answer that ended in an error, and the usage of model calls."""

from collections.abc import Sequence

from emend.memory.errors import ModelReplyError
from emend.memory.probe import ModelCall, Step, Usage


def keep_steps(error: Exception, steps: tuple[Step, ...]) -> None:
    """Attach the steps that led to an error, for the code that records the failure."""
    error.steps = steps  # type: ignore[attr-defined]


def steps_of(error: BaseException) -> tuple[Step, ...]:
    """Return the steps that led to an error raised by `run_graph`; empty for any other error."""
    return getattr(error, "steps", ())


def usage_of_calls(calls: Sequence[ModelCall]) -> Usage:
    """Return the total usage of model calls."""
    return Usage(
        input_tokens=sum(call.input_tokens for call in calls),
        output_tokens=sum(call.output_tokens for call in calls),
        calls=sum(not call.cached for call in calls),
        cached=sum(call.cached for call in calls),
        retries=sum(len(call.retries) for call in calls),
        untold=sum(not (call.cached or call.input_tokens or call.output_tokens) for call in calls),
    )


def usage_until(error: Exception) -> Usage:
    """Return the usage of an answer that ended in an error: all calls of its steps, including
    failed ones.

    The error's own usage may already include the calls of the steps, so it is only used if there
    are not steps.
    """
    reported = error.usage if isinstance(error, ModelReplyError) else Usage()
    calls = [call for step in steps_of(error) for call in step.calls]
    if not calls:
        return reported
    counted = [
        call for call in calls if call.error is None or call.input_tokens or call.output_tokens
    ]
    # the last call failed, and the provider counted no tokens
    refused = bool(reported.calls) and calls[-1] not in counted
    return usage_of_calls(counted).plus(Usage(calls=int(refused)))
