"""Do the thoughts support the answer? ReCoE's coherent generation."""

from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import Field

from emend.agents.judging.base import YES_NO, Asked, Found, Item, Role, Verdict, YesNo, binary
from emend.agents.roles.answer import thoughts_and_answer

NO_THOUGHTS = "the reply has no thoughts before the answer"
NO_ANSWER = "the thoughts come to no answer"


def thoughts_of(asked: Asked) -> str | None:
    """What stands before the last `Answer:` of a chain of thought; None where none was asked for."""
    if asked.reply is None or not {"pre_edit", "correct_flip"} & asked.outputs:
        return None
    return thoughts_and_answer(asked.reply)[0]


class Supported(Verdict):
    """Whether the answer follows."""

    reason: str = Field(description="one or two sentences: what the thoughts imply")
    verdict: YesNo = Field(description="yes if the thoughts support the answer, else no")


class Coherence(Role):
    """Coherence of a chain of thought with its answer ("Propagation and Pitfalls", 2024, section 5.3, Table 5)."""

    name: ClassVar[str] = "coherence"
    task: ClassVar[str] = (
        "You are given a question, the thoughts that somebody had about it, and the answer that they then gave. Decide "
        "whether the thoughts support the answer: does it follow from what they say? Take every statement in the "
        "thoughts as true, also where you know better, and add nothing of your own. It does not matter whether the "
        "answer is right, only whether these thoughts lead to it. Thoughts that lead to another answer, to none, or "
        "that say nothing about the question do not support it. Give your reason first, then the verdict."
    )
    schema = Supported
    output: ClassVar[str] = "supported"
    outputs: ClassVar[tuple[str, ...]] = ("supported",)
    scale = "yes or no"
    voted = ("supported",)
    stated = {"verdict": YES_NO}

    def pick(self, asked: Asked) -> Item | str | None:
        """Chains of thought."""
        thoughts = thoughts_of(asked)
        if thoughts is None:
            return None
        if not thoughts:
            return NO_THOUGHTS
        if asked.answer is None or not asked.answer.strip():
            return NO_ANSWER
        return Item.of(self.name, question=asked.question, thoughts=thoughts, answer=asked.answer)

    def read(self, reply: Any, items: Sequence[Item]) -> list[Found]:
        """`supported`."""
        return [binary("supported", reply.verdict, reply.reason)]
