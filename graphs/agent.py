"""Tool-calling agent over the memory: the model decides what to look up, and when to answer."""

from dataclasses import dataclass
from functools import cache
from typing import Annotated, Literal, cast

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langchain_core.tools import BaseTool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.runtime import Runtime

from emend.agents.parsing.messages import read_usage
from emend.agents.parsing.reply_marks import strip_marks
from emend.agents.roles.answer import probe_prompt
from emend.agents.roles.conversation import as_text as turns_text
from emend.agents.roles.decompose import stepwise_question
from emend.agents.roles.tools import SYSTEM, Toolbox, as_text, call_with_tools
from emend.graphs.agent_tools import TOOLS, run_calls
from emend.graphs.execution import Graph
from emend.graphs.rag import RagContext, RagState, as_hits
from emend.graphs.respond import prompt_state, respond
from emend.memory.errors import ModelReplyError, ReplyRefused
from emend.memory.probe import Probe

ROUNDS = 6
ROUNDS_LIMIT = 20
# Two nodes per round, plus the nodes before and after the rounds.
RECURSION_LIMIT = 4 + 2 * ROUNDS_LIMIT


class AgentState(RagState, total=False):
    """State of `rag`; `messages` is the conversation, `final` the model's answer."""

    messages: Annotated[list[AnyMessage], add_messages]
    rounds: int


@dataclass(frozen=True)
class AgentContext(RagContext):
    """Context of `rag`, with the tools and the maximum number of rounds; `empty` means that no edit
    is applied.

    `tools` are offered in addition to the tools over the edits, which need a `toolbox`.
    """

    toolbox: Toolbox | None = None
    rounds: int = ROUNDS
    empty: bool = False
    tools: tuple[BaseTool, ...] = ()

    @property
    def all_tools(self) -> tuple[BaseTool, ...]:
        """All tools that are offered to the model."""
        return self.tools if self.toolbox is None else (*TOOLS, *self.tools)


def begin(state: AgentState, runtime: Runtime[AgentContext]) -> Literal["plan", "compose"]:
    """Route to the plan; with nothing to look up, or with an empty list of targets, directly to the
    prompt.
    """
    nothing = runtime.context.empty and not runtime.context.tools
    return "compose" if nothing or state.get("targets") == [] else "plan"


def plan(state: AgentState, runtime: Runtime[AgentContext]) -> AgentState:
    """Let the model call tools or answer; if it does neither, or exceeds the limit of rounds, set
    the reason in `fallback`.

    Raises:
        ReplyRefused: the model declined.
    """
    context, messages = runtime.context, state["messages"]
    opening = [] if messages else _opening(state["probe"])
    try:
        message = call_with_tools(context.model, [*opening, *messages], context.all_tools)
    except ReplyRefused:
        raise
    except ModelReplyError as error:
        return {"fallback": str(error), "usage": error.usage}
    if any(message.id == earlier.id for earlier in messages):
        # `add_messages` would replace the earlier message with the same id
        message = message.model_copy(update={"id": None})
    conversation: AgentState = {"messages": [*opening, message], "usage": read_usage(message)}
    text = strip_marks(str(message.text)).strip()
    calls = bool(message.tool_calls or message.invalid_tool_calls)
    if calls and state.get("rounds", 0) >= context.rounds:
        return {
            "fallback": f"no answer after {context.rounds} rounds of tools",
            "usage": read_usage(message),
        }
    if calls:
        return conversation
    if not text:
        return {
            "fallback": "the model neither calls a tool nor answers",
            "usage": read_usage(message),
        }
    return {**conversation, "final": text}


def _opening(probe: Probe) -> list[AnyMessage]:
    # the model answers at once, see `SYSTEM`
    plain = bool(probe.prompt.strip()) and probe.reading != "thoughts"
    question = turns_text(probe_prompt(probe).turns) if plain else stepwise_question(probe)
    return [SystemMessage(SYSTEM), HumanMessage(question)]


def after_plan(state: AgentState) -> Literal["use_tools", "compose"]:
    """Route to the tools if the model called some, else to the prompt."""
    return "compose" if "final" in state or "fallback" in state else "use_tools"


def use_tools(state: AgentState, runtime: Runtime[AgentContext]) -> AgentState:
    """Run the tool calls of the last message; the result of a failed call is the reason."""
    last = state["messages"][-1]
    assert isinstance(last, AIMessage)
    messages, hits = run_calls(last, runtime.context.all_tools)
    return {
        "messages": messages,
        "hits": [*state.get("hits", ()), *as_hits(hits, len(hits))],
        "rounds": state.get("rounds", 0) + 1,
    }


def compose(state: AgentState, runtime: Runtime[AgentContext]) -> AgentState:
    """Build the prompt from the conversation as text, up to the answer.

    Without an answer, for example after a reply that was cut off, the prompt has the facts that the
    tools found and the probe, as in `rag`; without facts it is the probe alone.
    """
    if "final" not in state:
        context, facts = (
            runtime.context,
            dict.fromkeys(hit["text"] for hit in state.get("hits", ())),
        )
        prompt = probe_prompt(state["probe"], tuple(facts), (), context.wording)
        return cast(AgentState, prompt_state(context.model, prompt))
    update: AgentState = {"prompt": as_text(state["messages"][:-1]) + "\nai:"}
    return {**update, "reading": "line"} if state.get("reading") == "thoughts" else update


def build() -> Graph:
    """Plan -> use tools, repeated -> compose -> respond."""
    graph = StateGraph(AgentState, context_schema=AgentContext)
    graph.add_node("plan", plan)
    graph.add_node("use_tools", use_tools)
    graph.add_edge("use_tools", "plan")
    graph.add_node("compose", compose)
    graph.add_node("respond", respond)
    graph.add_edge("compose", "respond")
    graph.add_conditional_edges(START, begin)
    graph.add_conditional_edges("plan", after_plan)
    graph.add_edge("respond", END)
    return graph.compile(name="agent").with_config(recursion_limit=RECURSION_LIMIT)


@cache
def build_reading() -> Graph:
    """Plan -> use tools, repeated, to process the messages of the state without answering a
    question.
    """
    graph = StateGraph(AgentState, context_schema=AgentContext)
    graph.add_node("plan", plan)
    graph.add_node("use_tools", use_tools)
    graph.add_edge(START, "plan")
    graph.add_edge("use_tools", "plan")
    graph.add_conditional_edges("plan", after_plan, {"use_tools": "use_tools", "compose": END})
    return graph.compile(name="agent_reading").with_config(recursion_limit=RECURSION_LIMIT)
