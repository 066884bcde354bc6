"""ELKEN's judge of locality: agreement of the answers before and after an edit."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import Field

from emend.agents.judging.base import MARKS, Item, JudgeInput, Mark, Role, Verdict, VerdictSchema

FULL = 5
NO_BEFORE = "what the unedited model said is not there"


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
