"""How far do the answers before and after an edit agree? ELKEN's judge of locality."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import Field

from emend.agents.judging.base import MARKS, Asked, Found, Item, Mark, Role, Verdict

FULL = 5
NO_BEFORE = "what the unedited model said is not there"


class Consistency(Verdict):
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

    def pick(self, asked: Asked) -> Item | str | None:
        """Free answers out of scope, beside the unedited model's."""
        if "judged" not in asked.outputs or not asked.local or asked.answer is None:
            return None
        if asked.before is None:
            return NO_BEFORE
        return Item.of(self.name, question=asked.question, one=asked.answer, other=asked.before)

    def read(self, reply: Any, items: Sequence[Item]) -> list[Found]:
        """`consistency`."""
        return [Found(values={"consistency": float(reply.consistency)}, reason=reply.reason)]

    def derive(self, values: Mapping[str, float]) -> dict[str, float]:
        """`judged` is 1.0 for full marks, as the paper counts; in both orders where both were asked."""
        return {**values, "judged": float(values["consistency"] == FULL)}
