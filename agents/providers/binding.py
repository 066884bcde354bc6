"""Arguments that LangChain binds to a model, and what comes of a reply in a schema."""

from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableBinding, RunnableParallel, RunnableSequence
from pydantic import BaseModel

from emend.agents.parsing.messages import read_raw
from emend.memory.errors import ModelReplyError


def bound(runnable: object) -> dict[str, Any]:
    """The arguments that a runnable gives its model at every call."""
    if isinstance(runnable, RunnableBinding):
        return dict(runnable.kwargs)
    parts: list[Any] = []
    if isinstance(runnable, RunnableSequence):
        parts = list(runnable.steps)
    elif isinstance(runnable, RunnableParallel):
        parts = list(runnable.steps__.values())
    for part in parts:
        if found := bound(part):
            return found
    return {}


def told(message: AIMessage, schema: dict[str, Any] | type[BaseModel], include_raw: bool) -> Any:
    """What `with_structured_output` gives for a reply: its value, or that beside the reply and what is wrong with it.

    Raises:
        ModelReplyError: the reply cannot be read, and nobody asked for it raw.
    """
    parsed: Any
    problem: ModelReplyError | None
    try:
        parsed, problem = read_raw(message, None if isinstance(schema, dict) else schema), None
    except ModelReplyError as error:
        if not include_raw:
            raise
        parsed, problem = None, error
    return {"raw": message, "parsed": parsed, "parsing_error": problem} if include_raw else parsed
