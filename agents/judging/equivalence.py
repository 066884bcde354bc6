"""Is a free-form answer the gold answer or an alias of it? It stands beside exact match and never in its place."""

from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import Field

from emend.agents.judging.base import YES_NO, Asked, Found, Item, Role, Verdict, YesNo, binary

MATCHED = frozenset({"em", "strict", "right", "correct_flip"})
"""Scores that compare an answer with gold by its letters."""


class Same(Verdict):
    """Whether both answers are the same."""

    reason: str = Field(description="what either answer names")
    verdict: YesNo = Field(description="yes if both are the same answer to the question, else no")


class Equivalence(Role):
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
    outputs: ClassVar[tuple[str, ...]] = ("equivalent",)
    scale = "yes or no"
    voted = ("equivalent",)
    swaps = ("one", "other")
    stated = {"verdict": YES_NO}

    def pick(self, asked: Asked) -> Item | str | None:
        """Answers in words that were matched with gold."""
        if asked.local or not MATCHED & asked.outputs or asked.answer is None or not asked.gold:
            return None
        return Item.of(self.name, question=asked.question, one=asked.answer, other="\n".join(asked.gold))

    def read(self, reply: Any, items: Sequence[Item]) -> list[Found]:
        """`equivalent`."""
        return [binary("equivalent", reply.verdict, reply.reason)]
