"""ReCoE (appendix A.2): a question that follows from several facts is worded by a model and tried by others.

The facts, their alterations and both answers are composed beforehand. The author words the question. `paper` verifies
the facts against retrieved paragraphs, asks the judge whether they support the answer and not the counterfactual one,
and lets a debate end on the counterfactual answer by the altered facts. `best` filters the wording first, and asks for
another one where it or the debate fails.
"""

import re
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Literal, NamedTuple

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from emend.agents.roles.author import decide, write_text
from emend.agents.roles.conversation import Prompt
from emend.graphs.construction.akew import LANGUAGES
from emend.graphs.construction.debate import ANSWER, REVISE, DebateState, add_debate, vote_key
from emend.graphs.construction.filters.name_forms import names, names_exactly
from emend.graphs.construction.filters.questions import YES_NO, find_command, find_markup, find_talk
from emend.graphs.construction.filters.texts import AuthoredDraft, find_cut, find_foreign_besides, summary_of
from emend.graphs.construction.pipeline import (
    ConstructionContext,
    ConstructionState,
    FilterInfo,
    Pipeline,
    Recipe,
    accept,
    may_retry,
    reject,
)
from emend.graphs.construction.recoe_samples import sample
from emend.graphs.execution import Graph
from emend.memory.errors import ModelReplyError
from emend.memory.probe import Usage
from emend.memory.retrieval.tokens import words

TOKENS = 128
"""Limit of new tokens of a local author's question."""
LONGEST = 80
"""Words of a question."""
VERIFIED, SUPPORTED, UNSUPPORTED, DEBATED = "verified", "supported", "counterfactual_unsupported", "debate"
_TWO = re.compile(r"[?？].*[?？]|\b[A-D]\)\s*\w.*\b[A-D]\)\s*\w", re.DOTALL)
_ORDER = re.compile(
    r"(?:\A|[,:] )(?:sort|rank|order|arrange|put|name|give|list|say|count|add|take|find|work out)\b", re.IGNORECASE
)
_OPTION = re.compile(r"\bor\b|\boder\b|\bou\b|或|还是", re.IGNORECASE)


class RecoeState(ConstructionState, DebateState, total=False):
    """The item has question, answers and facts before and after the alteration; the author's `wording` is added."""

    wording: str
    is_cut_off: bool


class WordedRecord(NamedTuple):
    """A wording of a composed question, the names that it needs, and the values that it must not give."""

    wording: str
    item: Mapping[str, Any]
    language: str = "en"
    is_cut_off: bool = False


def verify_facts(state: RecoeState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Let the judge say of each fact with retrieved paragraphs whether they are consistent with it."""
    usage, context = Usage(), runtime.context
    for fact, paragraphs in state["item"].get("evidence", {}).items():
        prompt = context.prompt("consistent").fill(fact=fact, paragraphs="\n".join(f"- {each}" for each in paragraphs))
        holds, reason, spent = _decided(context, prompt)
        usage = usage.plus(spent)
        if not holds:
            return {**reject(state, VERIFIED, reason or f"retrieved paragraphs contradict '{fact}'"), "usage": usage}
    return {**accept(VERIFIED), "usage": usage}


def support(state: RecoeState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Ask the judge whether the facts support the answer to the composed question, and not the counterfactual one."""
    item, context, usage = state["item"], runtime.context, Usage()
    for name, answer, expected in (
        (SUPPORTED, item["answer"], True),
        (UNSUPPORTED, item["counterfactual_answer"], False),
    ):
        prompt = context.prompt("answer_follows").fill(
            facts="\n".join(item["facts"]), question=item["text"], answer=answer
        )
        holds, reason, spent = _decided(context, prompt)
        usage = usage.plus(spent)
        if reason or holds != expected:
            why = reason or f"the judge says {holds} of the answer '{answer}'"
            passed = [SUPPORTED] if name == UNSUPPORTED else []
            return {**reject(state, name, why, *passed), "usage": usage}
    return {**accept(SUPPORTED, UNSUPPORTED), "usage": usage}


def _decided(context: ConstructionContext, prompt: Prompt) -> tuple[bool, str, Usage]:
    """The judge's decision, or the reason why there is none, and the cost."""
    try:
        decision = decide(context.judge, prompt)
    except ModelReplyError as error:
        return False, str(error), error.usage
    return decision.holds, "", decision.usage


def write_question(state: RecoeState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Let the author word the question; after a rejection, in another way."""
    context = runtime.context
    problem = state.get("problem", "").partition(":")[0]
    language = LANGUAGES.get(context.language, context.language)
    prompt = context.prompt("reasoned_question").fill(problem, question=state["item"]["text"], language=language)
    written = write_text(context.author, prompt, TOKENS)
    return {
        "wording": "" if written.is_refused else " ".join(written.text.split()),
        "is_cut_off": written.is_cut_off,
        "attempts": state.get("attempts", 0) + 1,
        "usage": written.usage,
    }


def check_question(state: RecoeState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Reject a wording that cannot be asked, lacks a name, or gives a value away."""
    draft = WordedRecord(state["wording"], state["item"], runtime.context.language, state["is_cut_off"])
    filter_names = list(QUESTION_FILTERS)
    for name, find in QUESTION_FILTERS.items():
        if reason := find(draft):
            return reject(state, name, f"{reason}: {draft.wording[:80]}", *filter_names[: filter_names.index(name)])
    return accept(*QUESTION_FILTERS)


def open_debate(state: RecoeState) -> dict[str, Any]:
    """Put the question and the altered facts before the agents."""
    return {"question": state["wording"], "facts": state["item"]["counterfactual_facts"]}


def check_verdict(state: RecoeState) -> dict[str, Any]:
    """Accept a question if the debate ends on its counterfactual answer."""
    item, verdict = state["item"], state["verdict"]
    planned = [item["counterfactual_answer"], *item["row"]["counterfactual_answer_alias"]]
    if vote_key(verdict) in {vote_key(answer) for answer in planned}:
        return accept(DEBATED)
    votes = ", ".join(f"{answer} {count}" for answer, count in state["votes"].items()) or "no answer"
    return reject(state, DEBATED, f"the debate does not end on '{planned[0]}' ({votes}): {state['wording'][:80]}")


def finish(state: RecoeState) -> dict[str, Any]:
    """Take the wording."""
    return {"result": {"question": state["wording"]}}


def after_facts(state: RecoeState) -> Literal["go_on", "__end__"]:
    """Go on with facts that pass; another wording would not mend them."""
    return "__end__" if state["problem"] else "go_on"


def after_check(
    state: RecoeState, runtime: Runtime[ConstructionContext]
) -> Literal["go_on", "write_question", "__end__"]:
    """Go on with a wording that passes; ask for another one while attempts are left."""
    if not state["problem"]:
        return "go_on"
    return "write_question" if may_retry(state, runtime.context) else "__end__"


def build(recipe: Recipe = "best") -> Graph:
    """Verify facts -> support -> write a question -> check it -> debate -> finish; `paper` does not check it."""
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(RecoeState, context_schema=ConstructionContext)
    for node in (verify_facts, support, write_question, open_debate, check_verdict, finish):
        graph.add_node(node.__name__, node)
    add_debate(graph)
    ends: dict[Hashable, str] = {END: END}
    again = ends | {"write_question": "write_question"}
    graph.add_edge(START, "verify_facts")
    graph.add_conditional_edges("verify_facts", after_facts, ends | {"go_on": "support"})
    graph.add_conditional_edges("support", after_facts, ends | {"go_on": "write_question"})
    if recipe == "paper":
        graph.add_edge("write_question", "open_debate")
    else:
        graph.add_node("check_question", check_question)
        graph.add_edge("write_question", "check_question")
        graph.add_conditional_edges("check_question", after_check, again | {"go_on": "open_debate"})
    graph.add_edge("open_debate", "answer_alone")
    graph.add_edge("vote", "check_verdict")
    graph.add_conditional_edges("check_verdict", after_check, again | {"go_on": "finish"})
    graph.set_finish_point("finish")
    return graph.compile(name="build_recoe")


def find_no_wording(draft: WordedRecord) -> str:
    """The wording is no question, nor a request to sort, name or count."""
    text, size = draft.wording.rstrip(), len(words(draft.wording))
    if draft.is_cut_off or size < 4 or size > LONGEST or find_cut(AuthoredDraft(text, "", "")):
        return "no question"
    return "" if text.endswith(("?", "？")) or _ORDER.search(text) else "no question"


def find_two_questions(draft: WordedRecord) -> str:
    """The text asks several questions, or has lettered answers."""
    return "several questions or lettered answers" if _TWO.search(draft.wording) else ""


def find_same_question(draft: WordedRecord) -> str:
    """The wording is the composed question."""
    return "the question is the composed one" if words(draft.wording) == words(draft.item["text"]) else ""


def find_missing_name(draft: WordedRecord) -> str:
    """The wording does not name all that the composed question names."""
    missing = next((name for name in draft.item["names"] if not names(draft.wording, name)), "")
    return f"a question does not name '{missing}'" if missing else ""


def find_given_value(draft: WordedRecord) -> str:
    """The wording gives a value of a fact, or a number that is an answer."""
    composed = draft.item["text"]
    values = (value for value in draft.item["hidden"] if not names_exactly(composed, value))
    value = next((value for value in values if names_exactly(draft.wording, value)), "")
    return f"a question gives the value '{value}'" if value else ""


def find_other_type(draft: WordedRecord) -> str:
    """The wording asks for another type of answer: yes or no, a number, or names."""
    is_yes_no = bool(YES_NO.search(draft.wording)) and not _OPTION.search(draft.wording)
    planned = draft.item["answer"].casefold() in ("yes", "no")
    is_open = draft.wording.casefold().startswith(("which", "who", "what", "how"))
    wrong = is_open if planned else is_yes_no
    return "a question asks for another type of answer" if wrong else ""


def find_other_language(draft: WordedRecord) -> str:
    """The wording is in another language."""
    return find_foreign_besides(AuthoredDraft(draft.wording, "", "", language=draft.language), draft.item["names"])


def _of_text(find: Callable[[str], str]) -> Callable[[WordedRecord], str]:
    def find_in(draft: WordedRecord) -> str:
        return find(draft.wording)

    find_in.__doc__ = find.__doc__
    return find_in


QUESTION_FILTERS: Mapping[str, Callable[[WordedRecord], str]] = {
    "talk": _of_text(find_talk),
    "instruction": _of_text(find_command),
    "markup": _of_text(find_markup),
    "question": find_no_wording,
    "one_question": find_two_questions,
    "different": find_same_question,
    "named": find_missing_name,
    "value": find_given_value,
    "answer_type": find_other_type,
    "language": find_other_language,
}


def filters(recipe: Recipe) -> Mapping[str, FilterInfo]:
    """The filters in order; the paper verified, asked for support, and debated."""
    verified = FilterInfo(rejects="Retrieved paragraphs contradict a fact, by the judge.")
    supported = FilterInfo(rejects="The facts do not support the answer, by the judge.")
    unsupported = FilterInfo(rejects="The facts support the counterfactual answer too, by the judge.")
    debated = FilterInfo(
        rejects="The debate over the altered facts does not end on the counterfactual answer.",
        published="not published; 92.7 to 99.3% right by people in the end (appendix A.2)",
    )
    wordings = {name: FilterInfo(rejects=summary_of(find)) for name, find in QUESTION_FILTERS.items()}
    return {
        VERIFIED: verified, SUPPORTED: supported, UNSUPPORTED: unsupported,
        **(wordings if recipe == "best" else {}), DEBATED: debated,
    }  # fmt: skip


PIPELINE = Pipeline(
    name="recoe",
    build=build,
    filters=filters,
    prompts=lambda recipe: ("consistent", "answer_follows", "reasoned_question", ANSWER, REVISE),
    sample=sample,
)
