"""A tool-calling agent over the memory: the model itself decides what to look up, and when it knows enough."""

from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    messages_from_dict,
    messages_to_dict,
)
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from emend.agents.parsing.messages import usage_of
from emend.agents.parsing.reasoning_text import strip_reasoning
from emend.agents.roles.answer import build_prompt
from emend.agents.roles.decompose import walked
from emend.agents.roles.tools import SYSTEM, Toolbox, as_text, call_with_tools, results_of
from emend.graphs.rag import RagContext, RagState, as_hits
from emend.graphs.respond import RespondState, respond, spent
from emend.memory.errors import ModelReplyError
from emend.memory.probe import Probe

ROUNDS = 6
ROUNDS_LIMIT = 20
RECURSION_LIMIT = 4 + 2 * ROUNDS_LIMIT
"""Two nodes a round, and those before and after."""


class AgentState(RagState, total=False):
    """As for rag; `messages` is the conversation as LangChain writes messages, `final` the model's answer."""

    messages: list[dict[str, Any]]
    rounds: int
    final: str


@dataclass(frozen=True)
class AgentContext(RagContext):
    """As for rag, with the tools and how often the model may use some; `empty` says that no edit stands."""

    toolbox: Toolbox = field(kw_only=True)
    rounds: int = ROUNDS
    empty: bool = False


def begin(state: AgentState, runtime: Runtime[AgentContext]) -> Literal["plan", "compose"]:
    """To the model, unless there is nothing that it could find, or nothing that could be scored after it."""
    return "compose" if runtime.context.empty or state.get("targets") == [] else "plan"


def plan(state: AgentState, runtime: Runtime[AgentContext]) -> AgentState:
    """The model calls tools, or answers.

    Raises:
        ModelReplyError: it does neither, calls tools in a broken form, or once more than the limit allows.
    """
    context, messages = runtime.context, _messages(state)
    message = call_with_tools(context.model, messages)
    spoken = messages_to_dict([*messages, message])
    usage = spent(state, usage_of(message))
    raw = str(message.text)
    text = strip_reasoning(raw).strip()
    if message.invalid_tool_calls:
        raise ModelReplyError(f"a tool is called in a broken form: {message.invalid_tool_calls[0]}.", text)
    if message.tool_calls and state.get("rounds", 0) >= context.rounds:
        raise ModelReplyError(f"no answer after {context.rounds} rounds of tools; the last message is {text!r}.", text)
    if not message.tool_calls and not text:
        raise ModelReplyError("the model neither calls a tool nor answers.", raw)
    if message.tool_calls:
        return {"messages": spoken, "usage": usage}
    return {"messages": spoken, "usage": usage, "final": text}


def _messages(state: AgentState) -> list[BaseMessage]:
    if "messages" in state:
        return messages_from_dict(state["messages"])
    probe = Probe.model_validate(state["probe"])
    plain = bool(probe.prompt.strip()) and probe.reading != "thoughts"  # the model answers at once, see `SYSTEM`
    return [SystemMessage(SYSTEM), HumanMessage(build_prompt(probe) if plain else walked(probe))]


def after_plan(state: AgentState) -> Literal["use_tools", "compose"]:
    """Tools, as long as the model calls some."""
    return "compose" if "final" in state else "use_tools"


def use_tools(state: AgentState, runtime: Runtime[AgentContext]) -> AgentState:
    """Makes the calls of the last message; a call that cannot be made is answered with what is wrong about it."""
    messages = _messages(state)
    asked = messages[-1]
    assert isinstance(asked, AIMessage)
    told, hits = results_of(asked, runtime.context.toolbox)
    return {
        "messages": messages_to_dict([*messages, *told]),
        "hits": [*state.get("hits", ()), *as_hits(hits, len(hits))],
        "rounds": state.get("rounds", 0) + 1,
    }


def compose(state: AgentState, runtime: Runtime[AgentContext]) -> AgentState:
    """The conversation as text, up to the answer; where nothing stands, the probe alone."""
    if "messages" not in state:
        return {"prompt": build_prompt(Probe.model_validate(state["probe"]), (), (), runtime.context.wording)}
    told: AgentState = {"prompt": as_text(_messages(state)[:-1]) + "\nai:"}
    return {**told, "reading": "line"} if state.get("reading") == "thoughts" else told


def conclude(state: AgentState, runtime: Runtime[AgentContext]) -> RespondState:
    """The model's answer; else a reply, or scores, under the prompt."""
    if "final" in state and state.get("targets") is None:
        return {"reply": state["final"], "cut_tokens": 0}
    return respond(state, runtime)


def build() -> CompiledStateGraph[AgentState, AgentContext, AgentState, AgentState]:
    """Plan -> use tools, again and again -> compose -> respond."""
    graph = StateGraph(AgentState, context_schema=AgentContext)
    graph.add_node("plan", plan)
    graph.add_node("use_tools", use_tools)
    graph.add_node("compose", compose)
    graph.add_node("respond", conclude)
    graph.add_conditional_edges(START, begin)
    graph.add_conditional_edges("plan", after_plan)
    graph.add_edge("use_tools", "plan")
    graph.add_edge("compose", "respond")
    graph.add_edge("respond", END)
    return graph.compile(name="agent").with_config(recursion_limit=RECURSION_LIMIT)
