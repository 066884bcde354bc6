"""ReCoE (appendix A.2): a question that follows from several facts is worded by a model and tried by others.

The facts, their alterations and both answers are composed beforehand. The author words the question. `paper` verifies
the facts against retrieved paragraphs, asks the judge whether they support the answer and not the counterfactual one,
and lets a debate end on the counterfactual answer by the altered facts. `best` filters the wording first, and asks for
another one where it or the debate fails.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime

from emend.agents.roles.author import write_text
from emend.graphs.construction.debate import ANSWER, REVISE, DebateState, add_debate, vote_key
from emend.graphs.construction.filters.name_forms import names, names_exactly
from emend.graphs.construction.filters.questions import COMMON_FILTERS, YES_NO
from emend.graphs.construction.filters.texts import AuthoredDraft, find_cut, find_foreign_besides
from emend.graphs.construction.pipeline import (
    ConstructionContext,
    ConstructionState,
    FilterInfo,
    Pipeline,
    Recipe,
    accept,
    add_nodes,
    apply_filters,
    describe,
    reject,
)
from emend.graphs.construction.recoe_samples import sample
from emend.graphs.execution import Graph
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

    question: str
    item: Mapping[str, Any]
    language: str = "en"
    is_cut_off: bool = False


def verify_facts(state: RecoeState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Let the judge say of each fact with retrieved paragraphs whether they are consistent with it."""
    usage, context = Usage(), runtime.context
    for fact, paragraphs in state["item"].get("evidence", {}).items():
        lines, refusal = "\n".join(f"- {each}" for each in paragraphs), f"retrieved paragraphs contradict '{fact}'"
        reason, spent = context.ask_judge("consistent", refusal, fact=fact, paragraphs=lines)
        usage = usage.plus(spent)
        if reason:
            return {**reject(state, VERIFIED, reason), "usage": usage}
    return {**accept(VERIFIED), "usage": usage}


def support(state: RecoeState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Ask the judge whether the facts support the answer to the composed question, and not the counterfactual one."""
    item, usage, passed = state["item"], Usage(), list[str]()
    facts, answers = "\n".join(item["facts"]), (item["answer"], item["counterfactual_answer"])
    for name, answer, expected in zip((SUPPORTED, UNSUPPORTED), answers, (True, False), strict=True):
        refusal = f"the judge says {not expected} of the answer '{answer}'"
        reason, spent = runtime.context.ask_judge(
            "answer_follows", refusal, expected, facts=facts, question=item["text"], answer=answer
        )
        usage = usage.plus(spent)
        if reason:
            return {**reject(state, name, reason, *passed), "usage": usage}
        passed.append(name)
    return {**accept(*passed), "usage": usage}


def write_question(state: RecoeState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Let the author word the question; after a rejection, in another way."""
    prompt = runtime.context.fill("reasoned_question", state, question=state["item"]["text"])
    written = write_text(runtime.context.author, prompt, TOKENS)
    return {
        "wording": "" if written.is_refused else " ".join(written.text.split()),
        "is_cut_off": written.is_cut_off,
        "attempts": state.get("attempts", 0) + 1,
        "usage": written.usage,
    }


def check_question(state: RecoeState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Reject a wording that cannot be asked, lacks a name, or gives a value away."""
    draft = WordedRecord(state["wording"], state["item"], runtime.context.language, state["is_cut_off"])
    return apply_filters(state, draft, QUESTION_FILTERS, f": {draft.question[:80]}")


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


def build(recipe: Recipe = "best") -> Graph:
    """Verify facts -> support -> write a question -> check it -> debate -> finish; `paper` does not check it."""
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(RecoeState, context_schema=ConstructionContext)
    wording = (write_question, check_question) if recipe == "best" else (write_question,)
    checks = {verify_facts: None, support: None, check_question: write_question}  # another wording mends no fact
    add_nodes(graph, verify_facts, support, *wording, open_debate, checks=checks, end="answer_alone")
    add_debate(graph)
    graph.add_edge("vote", "check_verdict")
    add_nodes(graph, check_verdict, finish, checks={check_verdict: write_question})
    graph.add_edge(START, "verify_facts")
    return graph.compile(name="build_recoe")


def find_no_wording(draft: WordedRecord) -> str:
    """The wording is no question, nor a request to sort, name or count."""
    text, size = draft.question.rstrip(), len(words(draft.question))
    if draft.is_cut_off or size < 4 or size > LONGEST or find_cut(AuthoredDraft(text, "", "")):
        return "no question"
    return "" if text.endswith(("?", "？")) or _ORDER.search(text) else "no question"


def find_two_questions(draft: WordedRecord) -> str:
    """The text asks several questions, or has lettered answers."""
    return "several questions or lettered answers" if _TWO.search(draft.question) else ""


def find_same_question(draft: WordedRecord) -> str:
    """The wording is the composed question."""
    return "the question is the composed one" if words(draft.question) == words(draft.item["text"]) else ""


def find_missing_name(draft: WordedRecord) -> str:
    """The wording does not name all that the composed question names."""
    missing = next((name for name in draft.item["names"] if not names(draft.question, name)), "")
    return f"a question does not name '{missing}'" if missing else ""


def find_given_value(draft: WordedRecord) -> str:
    """The wording gives a value of a fact, or a number that is an answer."""
    composed = draft.item["text"]
    values = (value for value in draft.item["hidden"] if not names_exactly(composed, value))
    value = next((value for value in values if names_exactly(draft.question, value)), "")
    return f"a question gives the value '{value}'" if value else ""


def find_other_type(draft: WordedRecord) -> str:
    """The wording asks for another type of answer: yes or no, a number, or names."""
    is_yes_no = bool(YES_NO.search(draft.question)) and not _OPTION.search(draft.question)
    planned = draft.item["answer"].casefold() in ("yes", "no")
    is_open = draft.question.casefold().startswith(("which", "who", "what", "how"))
    wrong = is_open if planned else is_yes_no
    return "a question asks for another type of answer" if wrong else ""


def find_other_language(draft: WordedRecord) -> str:
    """The wording is in another language."""
    return find_foreign_besides(AuthoredDraft(draft.question, "", "", language=draft.language), draft.item["names"])


QUESTION_FILTERS: Mapping[str, Callable[[WordedRecord], str]] = {
    **COMMON_FILTERS,
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
    return {
        VERIFIED: verified, SUPPORTED: supported, UNSUPPORTED: unsupported,
        **(describe(QUESTION_FILTERS) if recipe == "best" else {}), DEBATED: debated,
    }  # fmt: skip


PIPELINE = Pipeline(
    name="recoe",
    build=build,
    filters=filters,
    prompts=lambda recipe: ("consistent", "answer_follows", "reasoned_question", ANSWER, REVISE),
    sample=sample,
)
