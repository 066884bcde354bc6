"""Chain of thought under new facts (Wei et al. 2022), an editing baseline of MQuAKE, DocTER and
ReCoE.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from emend.agents.roles.answer import find_wording, probe_prompt, repeat_probe
from emend.agents.roles.chain import ANSWER, DEMONSTRATIONS, LEAD, think_aloud, think_in_steps
from emend.agents.roles.conversation import Prompt
from emend.agents.roles.decompose import FINAL, cloze_of, stepwise_question
from emend.graphs.decomposition.state import HOPS, HopSource, limit_of
from emend.graphs.execution import Graph
from emend.graphs.rag import RagContext, RagState, compose, retrieve
from emend.graphs.respond import prompt_state, respond
from emend.memory.probe import Probe, Reading

Form = Literal["thoughts", "steps"]


class CotState(RagState, total=False):
    """State of `rag`; the prompt ends with the chain of thought, and `final` is the model's answer,
    if it gave one.

    If the probe itself asks for a chain of thought, `final` has the thoughts before the answer, for
    judges that read them. In the form `steps`, `steps` is the number of steps, and `end` is the
    reason why they ended.
    """

    steps: int
    end: str


@dataclass(frozen=True)
class CotContext(RagContext):
    """Context of `rag`, with the form of the thoughts and the demonstrations of each form.

    `steps` is the maximum number of steps in the form `steps`; `hops_from` says whether their
    number is decided by the model or by the probe's tag `hops`.
    """

    form: Form = "thoughts"
    steps: int = HOPS
    hops_from: HopSource = "model"
    demonstrations: str = DEMONSTRATIONS
    step_demonstrations: str = ""


def after_retrieve(state: CotState) -> Literal["think", "compose"]:
    """Route to the thoughts; without new facts, or with an empty list of targets, directly to the
    prompt.
    """
    return "think" if state["hits"] and state.get("targets") != [] else "compose"


def think(state: CotState, runtime: Runtime[CotContext]) -> CotState:
    """Generate a chain of thought from the facts and the probe.

    A probe that asks for a chain of thought keeps its own format and examples.

    Raises:
        ModelReplyError: the reply does not follow the format, or has no answer.
    """
    context, probe = runtime.context, state["probe"]
    facts = [hit["text"] for hit in state["hits"]]
    context_lines = (
        "\n".join(find_wording("new_fact").fact.format(fact=fact.strip()) for fact in facts) + "\n"
    )
    if probe.reading == "thoughts":
        thought = think_aloud(context.model, probe_prompt(probe, facts, (), context.wording))
        thought = thought._replace(final=f"{thought.thoughts}\n{ANSWER} {thought.final}".strip())
    elif context.form == "steps":
        return _step(context, probe, facts, context_lines)
    else:
        head = f"{context.demonstrations.strip()}\n\n" if context.demonstrations.strip() else ""
        question, _, label = LEAD.format(question=stepwise_question(probe)).rpartition("\n")
        lines = context_lines + question
        thought = think_aloud(
            context.model, Prompt().plus(head).asked(f"{lines}\n", lines).plus(label)
        )
    reading: Reading = "thoughts" if probe.reading == "thoughts" else "line"
    fields: CotState = {"reading": reading, "usage": thought.usage}
    update = cast(CotState, {**prompt_state(context.model, thought.prompt), **fields})
    if thought.final is not None:
        update |= {"final": thought.final, "cut_tokens": thought.cut_tokens}
    if thought.fallback:
        update["fallback"] = thought.fallback
    return update


def _step(context: CotContext, probe: Probe, facts: Sequence[str], context_lines: str) -> CotState:
    """Generate the thoughts step by step.

    A probe with choices is repeated after the steps, since their last line would have a name
    instead of a choice.
    """
    limit = limit_of(probe, context.steps, context.hops_from)
    thought = think_in_steps(
        context.model,
        context_lines,
        stepwise_question(probe),
        cloze_of(probe),
        limit,
        context.step_demonstrations,
    )
    if probe.choices:
        prompt = repeat_probe(thought.prompt, probe, facts, context.wording)
    else:
        prompt = thought.prompt.plus(FINAL)
    fields: CotState = {
        "reading": "line",
        "usage": thought.usage,
        "steps": thought.steps,
        "end": thought.end,
    }
    return cast(CotState, {**prompt_state(context.model, prompt), **fields})


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
