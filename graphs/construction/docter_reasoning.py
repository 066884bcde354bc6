"""DocTER's reasoning questions (section 4.4.3): the object of a statement is replaced by background
knowledge about it.

A question with the answer yes is about the new object, one with the answer no about the old object,
as in most of the released questions. An item is kept even if it has no usable question.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from langgraph.runtime import Runtime

from emend.agents.roles.author import write_text
from emend.graphs.construction.filters.name_forms import leaves, names, names_exactly
from emend.graphs.construction.filters.patterns import REFUSAL, TALK
from emend.graphs.construction.filters.texts import (
    AuthoredDraft,
    find_instruction,
    first_fault,
)
from emend.graphs.construction.pipeline import (
    ConstructionContext,
    ConstructionState,
    FilterInfo,
    rejection,
)
from emend.graphs.construction.translation import language_of_translation
from emend.memory.probe import Usage
from emend.memory.registry import summary_of
from emend.memory.retrieval.tokens import words

# Maximum number of new tokens of a local author's sentence or question.
TOKENS = 64
# Maximum number of words of the sentence, and of the question.
LONGEST = 40
FOLLOWS = "follows"
_YES_NO = re.compile(
    r"(?:is|are|was|were|does|do|did|has|have|had|can|could|will|would|must|may|might|should)\b",
    re.IGNORECASE,
)


class ReasoningState(ConstructionState, total=False):
    """State with the reasoning question, None if there is none; the item has `label`, the planned
    answer.
    """

    reasoning: dict[str, str] | None


class ReasoningDraft(NamedTuple):
    """Reasoning question with the sentence on which it is based, and the names in the fact."""

    knowledge: str
    question: str
    subject: str
    about: str
    """Object that the knowledge sentence is about."""
    other: str


def ask_reasoning(state: ReasoningState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Ask the author for a fact about the new or the old object, and for a question that depends on
    it, in English.
    """
    item, context = state["item"], runtime.context
    if language_of_translation(context) != "en":
        return {"reasoning": None}
    about, other = (
        (item["object"], item["old"]) if item["label"] == "True" else (item["old"], item["object"])
    )
    known = write_text(
        context.author, context.prompt("object_knowledge").fill(object=about, other=other), TOKENS
    )
    knowledge = " ".join(known.text.split())
    fact = item["fact"] if item["label"] == "True" else item["old_fact"]
    prompt = context.prompt("reasoning_question").fill(fact=fact, knowledge=knowledge)
    written = write_text(context.author, prompt, TOKENS)
    draft = ReasoningDraft(knowledge, " ".join(written.text.split()), item["subject"], about, other)
    usage = known.usage.plus(written.usage)
    name, reason = first_fault(draft, REASONING_FILTERS)
    if name:
        return _without(state, name, f"{reason}: {draft.question[:80]}", usage)
    question = {"src": draft.question, "additional_info": knowledge, "label": item["label"]}
    return {"reasoning": question, "passed": dict.fromkeys(REASONING_FILTERS, True), "usage": usage}


def check_reasoning(state: ReasoningState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Drop a question if the judge, given the new fact and the sentence, does not choose the
    intended answer.
    """
    reasoning = state["reasoning"]
    if reasoning is None:
        return {}
    knowledge = reasoning["additional_info"]
    question = reasoning["src"]
    expected = reasoning["label"] == "True"
    refusal, fact = f"the judge answers {not expected}: {question[:80]}", state["item"]["fact"]
    reason, usage = runtime.context.ask_judge(
        FOLLOWS, refusal, expected, fact=fact, knowledge=knowledge, question=question
    )
    if reason:
        return _without(state, FOLLOWS, reason, usage)
    return {"passed": {FOLLOWS: True}, "usage": usage}


def _without(state: ReasoningState, name: str, reason: str, usage: Usage) -> dict[str, Any]:
    """Return the state update of an item whose question is dropped."""
    rejections = [rejection(state, name, reason)]
    return {"reasoning": None, "passed": {name: False}, "rejections": rejections, "usage": usage}


def find_no_knowledge(draft: ReasoningDraft) -> str:
    """The sentence does not state anything about the object, or is not a single sentence."""
    if not names(draft.knowledge, draft.about):
        return f"the sentence does not name '{draft.about}'"
    count = len(words(draft.knowledge))
    if count <= LONGEST and count > len(words(draft.about)) + 1:
        return ""
    return f"the sentence has {count} words"


def find_no_yes_no_question(draft: ReasoningDraft) -> str:
    """The text is not a yes-or-no question, or does not name the subject."""
    is_question = (
        _YES_NO.match(draft.question)
        and draft.question.endswith("?")
        and draft.question.count("?") == 1
    )
    if not is_question or len(words(draft.question)) > LONGEST:
        return "no question to be answered by yes or no"
    if names(draft.question, draft.subject):
        return ""
    return f"the question does not name '{draft.subject}'"


def find_named_object(draft: ReasoningDraft) -> str:
    """The question names the new or the old object, so that it can be answered without knowledge
    about it.
    """
    named = next((each for each in (draft.about, draft.other) if _has_object(draft, each)), "")
    return f"the question names '{named}'" if named else ""


def _has_object(draft: ReasoningDraft, name: str) -> bool:
    return names_exactly(draft.question, name) or leaves(draft.question, name, (draft.subject,))


def find_command(draft: ReasoningDraft) -> str:
    """The question or the sentence contains an instruction to a model, a URL, an e-mail address or
    active markup.
    """
    return find_instruction(AuthoredDraft(f"{draft.knowledge}\n{draft.question}", "", ""))


def find_spoken_author(draft: ReasoningDraft) -> str:
    """The author refuses, comments on its own text, or addresses the reader."""
    hits = (
        pattern.search(text)
        for pattern in (TALK, REFUSAL)
        for text in (draft.knowledge, draft.question)
    )
    hit = next(filter(None, hits), None)
    return f"the author speaks to its reader: '{hit[0].strip()[:40]}'" if hit else ""


REASONING_FILTERS: Mapping[str, Callable[[ReasoningDraft], str]] = {
    "author_speaks": find_spoken_author,
    "knowledge": find_no_knowledge,
    "yes_no_question": find_no_yes_no_question,
    "object_replaced": find_named_object,
    "safe_question": find_command,
}


def reasoning_filters() -> dict[str, FilterInfo]:
    """Return the filters of reasoning questions; a rejection drops the question, not the item."""
    return {name: FilterInfo(rejects=f"{summary_of(find)} Only the question is dropped.")
            for name, find in REASONING_FILTERS.items()}  # fmt: skip
