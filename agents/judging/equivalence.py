"""The judge of equivalence: whether a free-form answer is the gold answer or an alias; reported beside exact match."""

from typing import ClassVar

from pydantic import Field

from emend.agents.judging.base import Item, JudgeInput, VerdictSchema, YesNo, YesNoRole, described

MATCHED = frozenset({"em", "strict", "right", "correct_flip"})
"""Scores that compare an answer with gold by its letters."""


class Same(VerdictSchema):
    """The verdict on two answers."""

    model_config = described("Whether both answers are the same.")

    reason: str = Field(description="what either answer names")
    verdict: YesNo = Field(description="yes if both are the same answer to the question, else no")


class Equivalence(YesNoRole):
    """Equality of meaning of two answers, each of which may be a sentence or have several names; asked both ways."""

    name: ClassVar[str] = "equivalence"
    task: ClassVar[str] = (
        "You are given a question and two answers to it. Decide whether they are the same answer: do both name the "
        "same person, place, thing, number or value? Spelling, another name or language for the same, and words "
        "around it do not matter. Where an answer has several lines, each is another name of one and the same. An "
        "answer that names several different things, that does not commit itself, or that declines to answer is not "
        "the same as one that names a single thing. It does not matter which answer is right. Give your reason "
        "first, then the verdict."
    )
    schema = Same
    output: ClassVar[str] = "equivalent"
    swaps = ("one", "other")

    def pick(self, record: JudgeInput) -> Item | str | None:
        """Pick answers in words that were matched with gold."""
        if record.local or not MATCHED & record.outputs or record.answer is None or not record.gold:
            return None
        return Item.of(self.name, question=record.question, one=record.answer, other="\n".join(record.gold))
