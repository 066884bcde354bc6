"""MQuAKE's chains (section 3.1): a question along a chain of facts is worded anew three times.

The chain, its edits and its answers are composed beforehand; the author sees the composed question alone, and thus no
entity but that at which the chain begins.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Literal, NamedTuple

from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime

from emend.agents.roles.author import SHIPPED, decide, write_text
from emend.graphs.construction.akew import LANGUAGES
from emend.graphs.construction.filters.name_forms import leaves, names, names_exactly
from emend.graphs.construction.filters.questions import (
    find_command,
    find_foreign,
    find_markup,
    find_several,
    find_talk,
    find_yes_no,
)
from emend.graphs.construction.filters.texts import summary_of
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
from emend.graphs.execution import Graph
from emend.memory.errors import ModelReplyError
from emend.memory.probe import Usage
from emend.memory.retrieval.tokens import words

COUNT = 3
"""Questions about each chain."""
ENOUGH, SAME = "three_questions", "asks_same"
SHORTEST_NAME = 3
"""Letters of a name from which on it can leak: aliases such as `it` and `US` are words too."""
_MARK = re.compile(r"^\s*(?:[-*•]|\(?\d+[.):])\s*|^\s*[\"“]|[\"”]\s*$")
_QUESTION_MARK = ("?", "？")


class ChainsState(ConstructionState, total=False):
    """The item has a question as `text`, its `start` and the `hidden` names; `questions` passed so far."""

    replied: list[str]
    usable: list[str]
    questions: list[str]


class WordedQuestion(NamedTuple):
    """A question of the author, those that it must differ from, the name of its start, and names that it must lack."""

    question: str
    others: Sequence[str]
    start: str
    hidden: Sequence[str]
    language: str = "en"


def leaked_name(question: str, hidden: Sequence[str]) -> str:
    """The first of the names that a question has; empty without any."""
    return next((name for name in hidden if len(name) >= SHORTEST_NAME and names_exactly(question, name)), "")


def write_questions(state: ChainsState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Ask the author for three wordings of the question."""
    context = runtime.context
    language = LANGUAGES.get(context.language, context.language)
    problem = state.get("problem", "").partition(":")[0]
    prompt = context.prompt("chain_questions").fill(problem, question=state["item"]["text"], language=language)
    written = write_text(context.author, prompt)
    return {
        "replied": [] if written.is_refused else read_questions(written.text),
        "attempts": state.get("attempts", 0) + 1,
        "usage": written.usage,
    }


def read_questions(reply: str) -> list[str]:
    """The questions of a reply, one of each line, without numbers and quotation marks."""
    lines = (_MARK.sub("", _MARK.sub("", line)).strip() for line in reply.splitlines())
    return [line for line in lines if line.endswith(_QUESTION_MARK)]


def check_questions(state: ChainsState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Take the wordings that name the start, give nothing away and are no repetitions."""
    item, earlier = state["item"], state.get("questions", [])
    usable, rejections, passed = list[str](), list[dict[str, Any]](), dict.fromkeys(QUESTION_FILTERS, True)
    for question in state["replied"]:
        others = (item["text"], *earlier, *usable)
        worded = WordedQuestion(question, others, item["start"], item["hidden"], runtime.context.language)
        name, reason = _first_fault(worded)
        if name:
            rejections += reject(state, name, reason)["rejections"]
            passed[name] = False
        else:
            usable.append(question)
    return {"usable": usable, "rejections": rejections, "passed": passed, "problem": _last_reason(rejections)}


def judge_questions(state: ChainsState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Take the wordings of which the judge says that they ask the same, until there are three."""
    questions, rejections, usage = list(state.get("questions", ())), list[dict[str, Any]](), Usage()
    passed = {SAME: True}
    for question in state["usable"][: COUNT - len(questions)]:
        prompt = runtime.context.prompt(SAME).fill(question=state["item"]["text"], worded=question)
        try:
            decision = decide(runtime.context.judge, prompt)
            holds, reason, usage = decision.holds, "a question asks something else", usage.plus(decision.usage)
        except ModelReplyError as error:
            holds, reason, usage = False, str(error), usage.plus(error.usage)
        if holds:
            questions.append(question)
        else:
            rejections += reject(state, SAME, f"{reason}: {question}")["rejections"]
            passed[SAME] = False
    if len(questions) == COUNT:
        return accept(*QUESTION_FILTERS, SAME, ENOUGH) | {
            "questions": questions,
            "rejections": rejections,
            "usage": usage,
        }
    if not rejections and not state["problem"]:
        few = f"{len(questions)} usable questions, and not {COUNT}, one in each line"
        rejections = reject(state, ENOUGH, few)["rejections"]
    return {
        "questions": questions, "rejections": rejections, "usage": usage, "passed": passed | {ENOUGH: False},
        "problem": _last_reason(rejections) or state["problem"],
    }  # fmt: skip


def _last_reason(rejections: Sequence[Mapping[str, Any]]) -> str:
    return str(rejections[-1]["reason"]) if rejections else ""


def _first_fault(worded: WordedQuestion) -> tuple[str, str]:
    return next(((name, reason) for name, find in QUESTION_FILTERS.items() if (reason := find(worded))), ("", ""))


def finish(state: ChainsState) -> dict[str, Any]:
    """Take the three questions."""
    return {"result": {"questions": state["questions"]}}


def find_equal_question(worded: WordedQuestion) -> str:
    """The question is another one of the chain, or that which was to be worded anew."""
    texts = {" ".join(words(each)) for each in worded.others}
    return "two questions are the same" if " ".join(words(worded.question)) in texts else ""


def find_other_start(worded: WordedQuestion) -> str:
    """The question does not name the entity at which the chain begins."""
    return "" if names(worded.question, worded.start) else f"a question does not name '{worded.start}'"


def find_leaked_entity(worded: WordedQuestion) -> str:
    """The question names another entity of the chain, or a part by which it is known."""
    others = (worded.start, *worded.others[:1])  # the composed question may have a word of a name
    parts = (name for name in worded.hidden if len(name) >= SHORTEST_NAME and leaves(worded.question, name, others))
    hidden = leaked_name(worded.question, worded.hidden) or next(parts, "")
    return f"a question gives part of the chain away: '{hidden}'" if hidden else ""


def of_text(find: Callable[[str], str]) -> Callable[[WordedQuestion], str]:
    """A filter of the question's text alone, with the same docstring."""

    @wraps(find)
    def find_in(worded: WordedQuestion) -> str:
        return find(worded.question)

    return find_in


def find_other_language(worded: WordedQuestion) -> str:
    """The question is in another language."""
    return find_foreign(worded.question, worded.language, worded.start)


QUESTION_FILTERS: Mapping[str, Callable[[WordedQuestion], str]] = {
    "talk": of_text(find_talk),
    "instruction": of_text(find_command),
    "markup": of_text(find_markup),
    "different": find_equal_question,
    "start": find_other_start,
    "leak": find_leaked_entity,
    "one_question": of_text(find_several),
    "open_question": of_text(find_yes_no),
    "language": find_other_language,
}


def after_judge(
    state: ChainsState, runtime: Runtime[ConstructionContext]
) -> Literal["finish", "write_questions", "__end__"]:
    """Finish with questions that pass; ask again while attempts are left."""
    if not state["problem"]:
        return "finish"
    return "write_questions" if may_retry(state, runtime.context) else "__end__"


def build(recipe: Recipe = "best") -> Graph:
    """Write questions -> check them -> judge them -> finish; both recipes have these steps, and `paper` one attempt."""
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(ChainsState, context_schema=ConstructionContext)
    for node in (write_questions, check_questions, judge_questions, finish):
        graph.add_node(node.__name__, node)
    graph.add_edge(START, "write_questions")
    graph.add_edge("write_questions", "check_questions")
    graph.add_edge("check_questions", "judge_questions")
    graph.add_conditional_edges("judge_questions", after_judge)
    graph.set_finish_point("finish")
    return graph.compile(name="build_chains")


def filters(recipe: Recipe) -> Mapping[str, FilterInfo]:
    """The filters of questions, and whether there are three; MQuAKE reports none."""
    questions = {name: FilterInfo(rejects=summary_of(find)) for name, find in QUESTION_FILTERS.items()}
    same = FilterInfo(rejects="The judge says that a question asks something else.")
    enough = FilterInfo(rejects="The author's replies have fewer than three usable questions.")
    return questions | {SAME: same, ENOUGH: enough}


def sample(prompt: str) -> str:
    """Three questions of the length of the one that is asked for, or the judge's True."""
    if SHIPPED[SAME].task[:40] in prompt:
        return "True"
    question = prompt.rpartition("Question: ")[2].partition("\n")[0].rstrip("?")
    return "\n".join(f"{opening} {question}?" for opening in ("Say, then:", "In short:", "Do you know:"))


PIPELINE = Pipeline(
    name="chains", build=build, filters=filters, prompts=lambda recipe: ("chain_questions", SAME), sample=sample
)
