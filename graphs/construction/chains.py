"""MQuAKE pipeline (section 3.1): write three paraphrases of a question along a chain of facts.

The chain, its edits and its answers are composed beforehand. The author sees only the composed
question, which names no entity but the first of the chain.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from langgraph.runtime import Runtime

from emend.agents.roles.author import SHIPPED, write_text
from emend.graphs.construction.filters.name_forms import leaves, names, names_exactly
from emend.graphs.construction.filters.questions import (
    COMMON_FILTERS,
    find_foreign,
    find_several,
    find_yes_no,
    of_question,
)
from emend.graphs.construction.filters.texts import first_fault
from emend.graphs.construction.pipeline import (
    ConstructionContext,
    ConstructionState,
    FilterInfo,
    Pipeline,
    Recipe,
    accept,
    checking_graph,
    describe,
    failures,
    rejection,
)
from emend.graphs.execution import Graph
from emend.memory.probe import Usage
from emend.memory.retrieval.tokens import words

# Number of questions per chain.
COUNT = 3
ENOUGH, SAME = "three_questions", "asks_same"
# Minimum length of a name to count as leaked, since aliases such as `it` and `US` are also words.
SHORTEST_NAME = 3
_MARK = re.compile(r"^\s*(?:[-*•]|\(?\d+[.):])\s*|^\s*[\"“]|[\"”]\s*$")
_QUESTION_MARK = ("?", "？")


class ChainsState(ConstructionState, total=False):
    """State of the chains graph; the item has a question as `text`, its `start` and `hidden` names.

    `questions` are those that passed so far.
    """

    replied: list[str]
    usable: list[str]
    questions: list[str]


class WordedQuestion(NamedTuple):
    """Question by the author, the questions from which it must differ, the name of the first
    entity, and names that it must not contain.
    """

    question: str
    others: Sequence[str]
    start: str
    hidden: Sequence[str]
    language: str = "en"


def leaked_name(question: str, hidden: Sequence[str]) -> str:
    """Return the first of the hidden names that occurs in a question; empty if none does."""
    return next(
        (name for name in hidden if len(name) >= SHORTEST_NAME and names_exactly(question, name)),
        "",
    )


def write_questions(state: ChainsState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Ask the author for three wordings of the question."""
    context = runtime.context
    written = write_text(
        context.author, context.fill("chain_questions", state, question=state["item"]["text"])
    )
    return {
        "replied": [] if written.is_refused else read_questions(written.text),
        "attempts": state.get("attempts", 0) + 1,
        "usage": written.usage,
    }


def read_questions(reply: str) -> list[str]:
    """Return the questions of a reply, one per line, without numbering and quotation marks."""
    lines = (_MARK.sub("", _MARK.sub("", line)).strip() for line in reply.splitlines())
    return [line for line in lines if line.endswith(_QUESTION_MARK)]


def check_questions(state: ChainsState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Keep the wordings that pass the rule-based filters."""
    item, earlier = state["item"], state.get("questions", [])
    usable, rejections = list[str](), list[dict[str, Any]]()
    for question in state["replied"]:
        others = (item["text"], *earlier, *usable)
        worded = WordedQuestion(
            question, others, item["start"], item["hidden"], runtime.context.language
        )
        name, reason = first_fault(worded, QUESTION_FILTERS)
        if name:
            rejections.append(rejection(state, name, reason))
        else:
            usable.append(question)
    passed = dict.fromkeys(QUESTION_FILTERS, True) | failures(rejections)
    return {
        "usable": usable,
        "rejections": rejections,
        "passed": passed,
        "problem": _last_reason(rejections),
    }


def judge_questions(state: ChainsState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Keep wordings that ask the same according to the judge, until there are three."""
    questions, rejections, usage = list(state.get("questions", ())), list[dict[str, Any]](), Usage()
    for question in state["usable"][: COUNT - len(questions)]:
        reason, spent = runtime.context.ask_judge(
            SAME, "a question asks something else", question=state["item"]["text"], worded=question
        )
        usage = usage.plus(spent)
        if reason:
            rejections.append(rejection(state, SAME, f"{reason}: {question}"))
        else:
            questions.append(question)
    update = {"questions": questions, "rejections": rejections, "usage": usage}
    if len(questions) == COUNT:
        return accept(*QUESTION_FILTERS, SAME, ENOUGH) | update
    passed = {SAME: True} | failures(rejections) | {ENOUGH: False}
    if not rejections and not state["problem"]:
        few = f"{len(questions)} usable questions, and not {COUNT}, one in each line"
        rejections.append(rejection(state, ENOUGH, few))
    return update | {"passed": passed, "problem": _last_reason(rejections) or state["problem"]}


def _last_reason(rejections: Sequence[Mapping[str, Any]]) -> str:
    return str(rejections[-1]["reason"]) if rejections else ""


def finish(state: ChainsState) -> dict[str, Any]:
    """Return the three questions."""
    return {"result": {"questions": state["questions"]}}


def find_equal_question(worded: WordedQuestion) -> str:
    """The wording repeats the composed question or an earlier wording."""
    texts = {" ".join(words(each)) for each in worded.others}
    return "two questions are the same" if " ".join(words(worded.question)) in texts else ""


def find_other_start(worded: WordedQuestion) -> str:
    """The question does not name the first entity of the chain."""
    if names(worded.question, worded.start):
        return ""
    return f"a question does not name '{worded.start}'"


def find_leaked_entity(worded: WordedQuestion) -> str:
    """The question contains the name of another entity of the chain or a distinctive part of it."""
    others = (worded.start, *worded.others[:1])  # the composed question may share words with a name
    parts = (
        name
        for name in worded.hidden
        if len(name) >= SHORTEST_NAME and leaves(worded.question, name, others)
    )
    hidden = leaked_name(worded.question, worded.hidden) or next(parts, "")
    return f"a question gives part of the chain away: '{hidden}'" if hidden else ""


def find_other_language(worded: WordedQuestion) -> str:
    """The question is in another language."""
    return find_foreign(worded.question, worded.language, worded.start)


QUESTION_FILTERS: Mapping[str, Callable[[WordedQuestion], str]] = {
    **COMMON_FILTERS,
    "different": find_equal_question,
    "start": find_other_start,
    "leak": find_leaked_entity,
    "one_question": of_question(find_several),
    "open_question": of_question(find_yes_no),
    "language": find_other_language,
}


def build(recipe: Recipe = "best") -> Graph:
    """Build the graph write_questions -> check_questions -> judge_questions -> finish, which is the
    same for both recipes.
    """
    nodes = (write_questions, check_questions, judge_questions, finish)
    return checking_graph(
        "build_chains", ChainsState, *nodes, checks={judge_questions: write_questions}
    )


def filters(recipe: Recipe) -> Mapping[str, FilterInfo]:
    """Return the filters of questions, and the filter for their number; MQuAKE reports none."""
    same = FilterInfo(
        rejects="According to the judge, a question asks something else than the composed question."
    )
    enough = FilterInfo(rejects="The author's replies contain fewer than three usable questions.")
    return describe(QUESTION_FILTERS) | {SAME: same, ENOUGH: enough}


def sample(prompt: str) -> str:
    """Return three questions of the same length as the given one, or a judge's True."""
    if SHIPPED[SAME].task[:40] in prompt:
        return "True"
    question = prompt.rpartition("Question: ")[2].partition("\n")[0].rstrip("?")
    return "\n".join(
        f"{opening} {question}?" for opening in ("Say, then:", "In short:", "Do you know:")
    )


PIPELINE = Pipeline(
    name="chains",
    build=build,
    filters=filters,
    prompts=lambda recipe: ("chain_questions", SAME),
    sample=sample,
)
