"""ReCoE pipeline (appendix A.2): paraphrase a question that combines several facts, and test it by
a debate.

The facts, their alterations and both answers are composed beforehand. The author paraphrases the
question and writes aliases of both answers. Recipe `paper` corrects the facts by retrieved
paragraphs, asks the judge whether they support the answer and not the counterfactual one, and
requires that a debate over the facts ends on the answer. Recipe `best` drops questions whose facts
the paragraphs contradict, filters the paraphrase, requires that a debate over the altered facts
ends on the counterfactual answer, and retries with another paraphrase if the filters or the debate
reject it.
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
    Node,
    Pipeline,
    Recipe,
    accept,
    add_nodes,
    apply_filters,
    describe,
    reject,
)
from emend.graphs.construction.reasoning.aliases import ALIASES, add_aliases, name_aliases
from emend.graphs.construction.reasoning.facts import (
    CONSISTENT,
    CORRECT,
    VERIFIED,
    correct_facts,
    verify_facts,
)
from emend.graphs.construction.reasoning.samples import sample
from emend.graphs.execution import Graph
from emend.memory.probe import Usage
from emend.memory.retrieval.tokens import words

# Maximum number of new tokens of a local author's question.
TOKENS = 128
# Maximum number of words of a question.
LONGEST = 80
SUPPORTED, UNSUPPORTED, DEBATED = "supported", "counterfactual_unsupported", "debate"
_TWO = re.compile(r"[?？].*[?？]|\b[A-D]\)\s*\w.*\b[A-D]\)\s*\w", re.DOTALL)
_ORDER = re.compile(
    r"(?:\A|[,:] )(?:sort|rank|order|arrange|put|name|give|list|say|count|add|take|find|work "
    r"out)\b",
    re.IGNORECASE,
)
_OPTION = re.compile(r"\bor\b|\boder\b|\bou\b|或|还是", re.IGNORECASE)


class RecoeState(ConstructionState, DebateState, total=False):
    """State of the ReCoE graph; the item has question, answers, and facts before and after the
    alteration.

    `wording` is the author's paraphrase, `planned` the answer with its aliases on which the debate
    must end, `corrections` corrected facts by original fact, and `aliases` the aliases of both
    answers by field.
    """

    wording: str
    is_cut_off: bool
    planned: list[str]
    corrections: dict[str, str]
    aliases: dict[str, list[str]]


class WordedRecord(NamedTuple):
    """Paraphrase of a composed question; the item has the names that it must contain and the values
    that it must not.
    """

    question: str
    item: Mapping[str, Any]
    language: str = "en"
    is_cut_off: bool = False


def support(state: RecoeState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Ask the judge whether the facts support the answer to the composed question, but not the
    counterfactual answer.
    """
    item, usage, passed = state["item"], Usage(), list[str]()
    facts, answers = "\n".join(item["facts"]), (item["answer"], item["counterfactual_answer"])
    for name, answer, expected in zip(
        (SUPPORTED, UNSUPPORTED), answers, (True, False), strict=True
    ):
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
    """Ask the author to paraphrase the question, or to paraphrase it again after a rejection."""
    prompt = runtime.context.fill("reasoned_question", state, question=state["item"]["text"])
    written = write_text(runtime.context.author, prompt, TOKENS)
    return {
        "wording": "" if written.is_refused else " ".join(written.text.split()),
        "is_cut_off": written.is_cut_off,
        "attempts": state.get("attempts", 0) + 1,
        "usage": written.usage,
    }


def check_question(state: RecoeState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Reject a wording that is unusable, lacks a name, or reveals a value."""
    draft = WordedRecord(
        state["wording"], state["item"], runtime.context.language, state["is_cut_off"]
    )
    return apply_filters(state, draft, QUESTION_FILTERS, f": {draft.question[:80]}")


def open_debate(state: RecoeState) -> dict[str, Any]:
    """Put the question and the facts before the agents."""
    return _debate(state, "facts", "answer")


def open_altered_debate(state: RecoeState) -> dict[str, Any]:
    """Give the question and the altered facts to the agents."""
    return _debate(state, "counterfactual_facts", "counterfactual_answer")


def _debate(state: RecoeState, facts: str, answer: str) -> dict[str, Any]:
    item = state["item"]
    planned = [item[answer], *item["row"].get(f"{answer}_alias", ())]
    return {"question": state["wording"], "facts": item[facts], "planned": planned}


def check_verdict(state: RecoeState) -> dict[str, Any]:
    """Accept a question if the verdict of the debate is its intended answer."""
    planned, verdict = state["planned"], state["verdict"]
    if vote_key(verdict) in {vote_key(answer) for answer in planned}:
        return accept(DEBATED)
    votes = ", ".join(f"{answer} {count}" for answer, count in state["votes"].items()) or (
        "no answer"
    )
    return reject(
        state,
        DEBATED,
        f"the debate does not end on '{planned[0]}' ({votes}): {state['wording'][:80]}",
    )


def finish(state: RecoeState) -> dict[str, Any]:
    """Return the wording, and the row with corrected facts and aliases."""
    result = {
        "question": state["wording"],
        "row": add_aliases(state["item"]["row"], state["aliases"]),
        "corrections": state.get("corrections", {}),
    }
    return {"result": result}


def build(recipe: Recipe = "best") -> Graph:
    """Build the graph verify_facts -> support -> write_question -> check_question -> debate ->
    name_aliases -> finish.

    Recipe `paper` has correct_facts instead of verify_facts, and no check_question.
    """
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(
        RecoeState, context_schema=ConstructionContext
    )
    verify: Node = verify_facts
    wording: tuple[Node, ...] = (write_question, check_question, open_altered_debate)
    if recipe == "paper":
        verify, wording = correct_facts, (write_question, open_debate)
    # another paraphrase cannot repair a fact, so that these two checks have no retry
    checks = {verify: None, support: None, check_question: write_question}
    add_nodes(graph, verify, support, *wording, checks=checks, end="answer_alone")
    add_debate(graph)
    graph.add_edge("vote", "check_verdict")
    end = (check_verdict, name_aliases, finish)
    add_nodes(graph, *end, checks={check_verdict: write_question})
    graph.add_edge(START, verify.__name__)
    return graph.compile(name="build_recoe")


def find_no_wording(draft: WordedRecord) -> str:
    """The wording is neither a question nor a request to sort, name or count."""
    text, size = draft.question.rstrip(), len(words(draft.question))
    if draft.is_cut_off or size < 4 or size > LONGEST or find_cut(AuthoredDraft(text, "", "")):
        return "no question"
    return "" if text.endswith(("?", "？")) or _ORDER.search(text) else "no question"


def find_two_questions(draft: WordedRecord) -> str:
    """The text asks several questions, or offers lettered answers."""
    return "several questions or lettered answers" if _TWO.search(draft.question) else ""


def find_same_question(draft: WordedRecord) -> str:
    """The wording repeats the composed question."""
    if words(draft.question) == words(draft.item["text"]):
        return "the question is the composed one"
    return ""


def find_missing_name(draft: WordedRecord) -> str:
    """The wording omits a name of the composed question."""
    missing = next((name for name in draft.item["names"] if not names(draft.question, name)), "")
    return f"a question does not name '{missing}'" if missing else ""


def find_given_value(draft: WordedRecord) -> str:
    """The wording contains a value of a fact, or a number that is an answer."""
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
    return find_foreign_besides(
        AuthoredDraft(draft.question, "", "", language=draft.language), draft.item["names"]
    )


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
    """Return the filters in order; recipe `paper` has fact correction, support and debate."""
    dropped = "According to the judge, a retrieved paragraph contradicts a fact."
    corrected = "The judge's correction of a fact from retrieved paragraphs is unusable."
    verified = FilterInfo(rejects=dropped if recipe == "best" else corrected)
    supported = FilterInfo(rejects="According to the judge, the facts do not support the answer.")
    unsupported = FilterInfo(
        rejects="According to the judge, the facts also support the counterfactual answer."
    )
    altered = "The debate over the altered facts has no majority for the counterfactual answer."
    debated = FilterInfo(
        rejects=altered if recipe == "best" else "The debate has no majority for the answer.",
        published="not published; people judged 92.7 to 99.3% of the final records correct "
        "(appendix A.2)",
    )
    return {
        VERIFIED: verified, SUPPORTED: supported, UNSUPPORTED: unsupported,
        **(describe(QUESTION_FILTERS) if recipe == "best" else {}), DEBATED: debated,
    }  # fmt: skip


PIPELINE = Pipeline(
    name="recoe",
    build=build,
    filters=filters,
    prompts=lambda recipe: (
        CONSISTENT,
        *((CORRECT,) if recipe == "paper" else ()),
        *("answer_follows", "reasoned_question", ANSWER, REVISE, ALIASES),
    ),
    sample=sample,
)
