"""Chain of thought under new facts (Wei et al. 2022; as a baseline of editing in MQuAKE, DocTER and ReCoE)."""

from dataclasses import dataclass
from typing import Literal, cast

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from emend.agents.roles.answer import find_wording, probe_prompt, repeat_probe
from emend.agents.roles.chain import ANSWER, DEMONSTRATIONS, LEAD, think_aloud, think_in_steps
from emend.agents.roles.conversation import Prompt
from emend.agents.roles.decompose import FINAL, cloze_of, stepwise_question
from emend.graphs.execution import Graph
from emend.graphs.rag import RagContext, RagState, compose, retrieve
from emend.graphs.respond import prompt_state, respond
from emend.memory.probe import Reading

Form = Literal["thoughts", "steps"]
HOPS = 4


class CotState(RagState, total=False):
    """The state of rag; the prompt ends with the chain of thought, `final` is the answer if the model has given it.

    If the probe itself asks for a chain of thought, `final` has it before the answer, for judges of the chain.
    """


@dataclass(frozen=True)
class CotContext(RagContext):
    """The context of rag, with the form, and the demonstrations that only `thoughts` shows."""

    form: Form = "thoughts"
    demonstrations: str = DEMONSTRATIONS


def after_retrieve(state: CotState) -> Literal["think", "compose"]:
    """Think, unless there are no new facts or no targets to score; the probe is then unchanged."""
    return "think" if state["hits"] and state.get("targets") != [] else "compose"


def think(state: CotState, runtime: Runtime[CotContext]) -> CotState:
    """Generate a chain of thought under the facts; a probe that asks for one keeps its own form and examples.

    Raises:
        ModelReplyError: the reply is not in the form, or has no answer.
    """
    context, probe = runtime.context, state["probe"]
    facts = [hit["text"] for hit in state["hits"]]
    context_lines = "\n".join(find_wording("new_fact").fact.format(fact=fact.strip()) for fact in facts) + "\n"
    if probe.reading == "thoughts":
        thought = think_aloud(context.model, probe_prompt(probe, facts, (), context.wording))
        thought = thought._replace(final=f"{thought.thoughts}\n{ANSWER} {thought.final}".strip())
    elif context.form == "steps":
        hops = min(int(probe.tags.get("hops", 1)), HOPS)
        thought = think_in_steps(context.model, context_lines, stepwise_question(probe), bool(cloze_of(probe)), hops)
        if probe.choices:  # the last line of the steps would be a name
            thought = thought._replace(prompt=repeat_probe(thought.prompt, probe, facts, context.wording))
        else:
            thought = thought._replace(prompt=thought.prompt.plus(FINAL))
    else:
        head = f"{context.demonstrations.strip()}\n\n" if context.demonstrations.strip() else ""
        question, _, label = LEAD.format(question=stepwise_question(probe)).rpartition("\n")
        lines = context_lines + question
        thought = think_aloud(context.model, Prompt().plus(head).asked(f"{lines}\n", lines).plus(label))
    reading: Reading = "thoughts" if probe.reading == "thoughts" else "line"
    fields: CotState = {"reading": reading, "usage": thought.usage}
    update = cast(CotState, {**prompt_state(context.model, thought.prompt), **fields})
    if thought.final is not None:
        update |= {"final": thought.final, "cut_tokens": thought.cut_tokens}
    if thought.fallback:
        update["fallback"] = thought.fallback
    return update


def build() -> Graph:
    """Retrieve -> think (or compose, without hits) -> respond."""
    graph = StateGraph(CotState, context_schema=CotContext)
    graph.add_node("retrieve", retrieve)
    graph.add_node("think", think)
    graph.add_node("compose", compose)
    graph.add_node("respond", respond)
    graph.add_edge("compose", "respond")
    graph.add_edge(START, "retrieve")
    graph.add_conditional_edges("retrieve", after_retrieve)
    graph.add_edge("think", "respond")
    graph.add_edge("respond", END)
    return graph.compile(name="cot")
