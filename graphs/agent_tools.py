"""LangChain tools of the agent, whose results are a text for the model and its hits as artifact."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    InvalidToolCall,
    ToolMessage,
)
from langchain_core.messages.tool import tool_call
from langchain_core.tools import BaseTool, tool
from langgraph.config import get_config
from langgraph.prebuilt import ToolNode, ToolRuntime
from langgraph.prebuilt.tool_node import ToolCallRequest, ToolInvocationError
from langgraph.types import Command
from pydantic import BeforeValidator, Field, StringConstraints

from emend.agents.roles.tools import NOTHING, SYSTEM, Toolbox, ToolResult
from emend.memory.edit import prompt_id
from emend.memory.facts.operations import as_text
from emend.memory.retrieval.base import Hit
from emend.memory.tools import fact_hits

# Maximum number of calls of one reply that are run.
CALLS_LIMIT = 20
TOO_MANY = f"Not run: at most {CALLS_LIMIT} calls of one reply are run. Call again if you need it."
# Maximum number of characters of a broken call that are shown to the model.
SHOWN = 200
# Text, or a number that becomes text; it is stripped before its length is checked, since a blank
# name would match everything.
NotBlank = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1), BeforeValidator(as_text)
]


@tool(response_format="content_and_artifact")
def search_memory(
    query: Annotated[NotBlank, Field(description="what is looked for, as a question or statement")],
    runtime: ToolRuntime[Any, Any],
) -> ToolResult:
    """Find the changes whose wording or meaning is nearest to a query."""
    return _toolbox(runtime).search(query)


@tool(response_format="content_and_artifact")
def lookup(
    subject: Annotated[NotBlank, Field(description="the full name of what the fact is about")],
    relation: Annotated[
        NotBlank, Field(description="the relation, in a few words, such as 'capital'")
    ],
    runtime: ToolRuntime[Any, Any],
) -> ToolResult:
    """The current object of one relation of one subject, if it has changed."""
    return _toolbox(runtime).lookup(subject, relation)


@tool(response_format="content_and_artifact")
def list_updates(
    entity: Annotated[NotBlank, Field(description="the full name")],
    runtime: ToolRuntime[Any, Any],
) -> ToolResult:
    """All changes that name an entity."""
    return _toolbox(runtime).list_updates(entity)


def _toolbox(runtime: ToolRuntime[Any, Any]) -> Toolbox:
    """Return the toolbox of the graph's context, without which these tools are not offered."""
    toolbox: Toolbox = runtime.context.toolbox
    return toolbox


TOOLS: tuple[BaseTool, ...] = (search_memory, lookup, list_updates)


def tools_prompt_id() -> str:
    """Return eight hex digits that change with the prompt and the schemas of the tools."""
    schemas: list[Any] = [each.tool_call_schema for each in TOOLS]
    return prompt_id(SYSTEM, NOTHING, [schema.model_json_schema() for schema in schemas])


def run_calls(message: AIMessage, tools: Sequence[BaseTool]) -> tuple[list[AnyMessage], list[Hit]]:
    """Run the calls of a message inside a graph node, and return the new messages and the hits.

    The messages are the given one and one result per call, in the order of the calls. A broken call
    is answered with its error. If it has a name and an id, it is kept as a call without arguments,
    since providers refuse a conversation in which a call has no result; otherwise the error is a
    user message.
    """
    broken = {
        str(call["id"]): call for call in message.invalid_tool_calls if call["name"] and call["id"]
    }
    named = [tool_call(name=str(call["name"]), args={}, id=id) for id, call in broken.items()]
    answerable = {"tool_calls": [*message.tool_calls, *named], "invalid_tool_calls": []}
    # ToolNode makes results only for calls with an id.
    calls = [{**call, "id": call["id"] or ""} for call in message.tool_calls]
    # One after the other, since a call may depend on the one before, and so that the numbers of a
    # memory are reproducible.
    request = {"messages": [AIMessage("", tool_calls=calls[:CALLS_LIMIT])]}
    answered = _make_node(tools).invoke(request, {**get_config(), "max_concurrency": 1})
    results: list[ToolMessage] = answered["messages"] if calls else []
    results += [
        _refusal(str(call["name"]), str(call["id"]), TOO_MANY) for call in calls[CALLS_LIMIT:]
    ]
    hits = [
        hit
        for result in results
        for hit in (fact_hits(result) if result.artifact is None else result.artifact)
    ]
    messages: list[AnyMessage] = [message.model_copy(update=answerable)]
    messages += [result.model_copy(update={"artifact": None}) for result in results]
    messages += [_refusal(call["name"] or "", id, _problem(call)) for id, call in broken.items()]
    if nameless := [call for call in message.invalid_tool_calls if str(call["id"]) not in broken]:
        messages.append(HumanMessage(_problem(nameless[0])))
    return messages, hits


def _problem(call: InvalidToolCall) -> str:
    name, arguments = call["name"] or "A tool", str(call["args"] or "")[:SHOWN]
    return f"{name} was called wrongly: the arguments are no JSON object: {arguments}"


def _refusal(name: str, id: str, problem: str) -> ToolMessage:
    return ToolMessage(problem, name=name, tool_call_id=id, status="error")


def _make_node(tools: Sequence[BaseTool]) -> ToolNode:
    """Return a node that runs calls of these tools.

    A call of an unknown tool or with wrong arguments is refused; any other error is raised.
    """
    names = ", ".join(each.name for each in tools)

    def answer(
        request: ToolCallRequest, execute: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        name, id = request.tool_call["name"], request.tool_call["id"] or ""
        if request.tool is None:
            return _refusal(name, id, f"There is no tool '{name}'; there are {names}.")
        try:
            return execute(request)
        except ToolInvocationError as error:
            wrong = (error.filtered_errors or error.source.errors())[0]
            return _refusal(
                name,
                id,
                f"{name} was called wrongly: {'.'.join(map(str, wrong['loc']))}: {wrong['msg']}.",
            )

    return ToolNode(tools, handle_tool_errors=False, wrap_tool_call=answer)
