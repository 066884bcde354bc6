"""Arguments bound to a LangChain model, and results of structured output."""

from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableBinding, RunnableParallel, RunnableSequence
from pydantic import BaseModel

from emend.agents.parsing.messages import parse_any
from emend.memory.errors import ModelReplyError


def bound_arguments(runnable: object) -> dict[str, Any]:
    """Return the arguments that a runnable passes to its model in every call."""
    if isinstance(runnable, RunnableBinding):
        return dict(runnable.kwargs)
    parts: list[Any] = []
    if isinstance(runnable, RunnableSequence):
        parts = list(runnable.steps)
    elif isinstance(runnable, RunnableParallel):
        parts = list(runnable.steps__.values())
    return next((arguments for part in parts if (arguments := bound_arguments(part))), {})


def structured_result(
    message: AIMessage, schema: dict[str, Any] | type[BaseModel], include_raw: bool
) -> Any:
    """Return the result of `with_structured_output`: the value, or with `include_raw` reply, value
    and parsing error.

    Raises:
        ModelReplyError: the reply cannot be parsed, and `include_raw` is False.
    """
    parsed: Any = None
    problem: ModelReplyError | None = None
    try:
        parsed = parse_any(message, None if isinstance(schema, dict) else schema)
    except ModelReplyError as error:
        if not include_raw:
            raise
        problem = error
    return {"raw": message, "parsed": parsed, "parsing_error": problem} if include_raw else parsed
