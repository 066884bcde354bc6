"""Judges with one verdict: equivalence, coherence and support, yes or no; agreement, 1 to 5."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import BaseModel, Field, create_model

from emend.agents.judging.base import MARKS, Item, JudgeInput, Mark, Role, Verdict, VerdictSchema, YesNo, YesNoRole
from emend.agents.roles.answer import thoughts_and_answer

MATCHED = frozenset({"em", "strict", "right", "correct_flip"})
"""Scores that compare an answer with gold by its letters."""
TEXT_FORMS = frozenset({"document", "event"})
FULL = 5
NO_BEFORE = "what the unedited model said is not there"
NO_THOUGHTS = "the reply has no thoughts before the answer"
NO_ANSWER = "the thoughts come to no answer"


def yes_no(name: str, about: str, reason: str, verdict: str) -> type[BaseModel]:
    """Return the schema of a reply with a reason and a verdict, which the judge sees with these descriptions."""
    fields: dict[str, Any] = {
        "reason": (str, Field(description=reason)),
        "verdict": (YesNo, Field(description=verdict)),
    }
    return create_model(name, __base__=VerdictSchema, __doc__=about, **fields)


class Equivalence(YesNoRole):
    """Equality of meaning of a free-form answer and gold or its aliases, beside exact match; asked both ways."""

    name: ClassVar[str] = "equivalence"
    task: ClassVar[str] = (
        "You are given a question and two answers to it. Decide whether they are the same answer: do both name the "
        "same person, place, thing, number or value? Spelling, another name or language for the same, and words "
        "around it do not matter. Where an answer has several lines, each is another name of one and the same. An "
        "answer that names several different things, that does not commit itself, or that declines to answer is not "
        "the same as one that names a single thing. It does not matter which answer is right. Give your reason "
        "first, then the verdict."
    )
    schema = yes_no(
        "Same",
        "Whether both answers are the same.",
        reason="what either answer names",
        verdict="yes if both are the same answer to the question, else no",
    )
    output: ClassVar[str] = "equivalent"
    swaps = ("one", "other")

    def pick(self, record: JudgeInput) -> Item | str | None:
        """Pick answers in words that were matched with gold."""
        if record.local or not MATCHED & record.outputs or record.answer is None or not record.gold:
            return None
        return Item.of(self.name, question=record.question, one=record.answer, other="\n".join(record.gold))


class Supports(YesNoRole):
    """Verification that a text states the fact that is to be learnt from it (AKEW, appendix E)."""

    name: ClassVar[str] = "supports"
    task: ClassVar[str] = (
        "You are given a paragraph and a sentence. Decide whether the paragraph conveys the sentence: could somebody "
        "who knows nothing else conclude from the paragraph alone that the sentence is true? Other words for the "
        "same are enough. It is not enough that the paragraph is about the same thing, or that the sentence is true "
        "in the world that you know; a paragraph that also says the opposite does not convey it. Give your reason "
        "first, then the verdict."
    )
    schema = yes_no(
        "Conveys",
        "Whether the paragraph says so.",
        reason="the words of the paragraph that decide, or what is missing",
        verdict="yes if the paragraph conveys the sentence, else no",
    )
    output: ClassVar[str] = "conveyed"

    def pick(self, record: JudgeInput) -> Item | str | None:
        """Pick probes of an edit itself where the editor was given a text in place of the fact."""
        if record.local or "efficacy" not in record.kind or not record.edits or not TEXT_FORMS.issuperset(record.forms):
            return None
        paragraph = "\n".join(dict.fromkeys(record.edits))  # all texts of the case: each may state facts of the others
        return Item.of(self.name, paragraph=paragraph, sentence=f"{record.question} {record.gold[0]}")


class Coherence(YesNoRole):
    """Coherence of a chain of thought with its answer ("Propagation and Pitfalls", 2024, section 5.3, Table 5)."""

    name: ClassVar[str] = "coherence"
    task: ClassVar[str] = (
        "You are given a question, the thoughts that somebody had about it, and the answer that they then gave. Decide "
        "whether the thoughts support the answer: does it follow from what they say? Take every statement in the "
        "thoughts as true, also where you know better, and add nothing of your own. It does not matter whether the "
        "answer is right, only whether these thoughts lead to it. Thoughts that lead to another answer, to none, or "
        "that say nothing about the question do not support it. Give your reason first, then the verdict."
    )
    schema = yes_no(
        "Supported",
        "Whether the answer follows.",
        reason="one or two sentences: what the thoughts imply",
        verdict="yes if the thoughts support the answer, else no",
    )
    output: ClassVar[str] = "supported"

    def pick(self, record: JudgeInput) -> Item | str | None:
        """Pick chains of thought."""
        thoughts = thoughts_of(record)
        if thoughts is None:
            return None
        if not thoughts:
            return NO_THOUGHTS
        if record.answer is None or not record.answer.strip():
            return NO_ANSWER
        return Item.of(self.name, question=record.question, thoughts=thoughts, answer=record.answer)


def thoughts_of(record: JudgeInput) -> str | None:
    """The text before the last `Answer:` of a chain of thought; None where none was asked for."""
    if record.reply is None or not {"pre_edit", "correct_flip"} & record.outputs:
        return None
    return thoughts_and_answer(record.reply)[0]


class Consistency(VerdictSchema):
    """How far two answers agree."""

    reason: str = Field(description="the tendency that either answer claims, and whether they are the same")
    consistency: Mark = Field(description="1 to 5")


class Agreement(Role):
    """Consistency of two free answers, 1 to 5 ("Event-level Knowledge Editing", 2024, Tendency-G); asked both ways."""

    name: ClassVar[str] = "agreement"
    task: ClassVar[str] = (
        "You are given a question and two answers to it. Rate how far the answers agree, as a whole number from 1 to "
        "5. What counts above all is the tendency that each answer claims: what it expects to rise, fall, improve, "
        "worsen or stay as it is. 5: the same tendency, nothing of weight differs. 4: the same tendency, with "
        "another stress. 3: partly the same. 2: mostly different. 1: opposite tendencies, or one answer claims a "
        "tendency and the other none. Style and length do not matter, nor which answer is right. Give your reason "
        "first, then the mark."
    )
    schema = Consistency
    output: ClassVar[str] = "consistency"
    outputs: ClassVar[tuple[str, ...]] = ("consistency", "judged")
    scale = "1 to 5"
    voted = ("judged",)
    swaps = ("one", "other")
    stated = {"consistency": MARKS}

    def pick(self, record: JudgeInput) -> Item | str | None:
        """Pick free answers out of scope, with the unedited model's."""
        if "judged" not in record.outputs or not record.local or record.answer is None:
            return None
        if record.before is None:
            return NO_BEFORE
        return Item.of(self.name, question=record.question, one=record.answer, other=record.before)

    def read(self, reply: Any, items: Sequence[Item]) -> list[Verdict]:
        """Return `consistency`."""
        return [Verdict(values={"consistency": float(reply.consistency)}, reason=reply.reason)]

    def derive(self, values: Mapping[str, float]) -> dict[str, float]:
        """Add `judged`: 1.0 for full marks, as in the paper; in both orders where both were asked."""
        return {**values, "judged": float(values["consistency"] == FULL)}
