"""ReCoE's judge of coherent generation: whether the thoughts support the answer."""

from typing import ClassVar

from pydantic import Field

from emend.agents.judging.base import Item, JudgeInput, VerdictSchema, YesNo, YesNoRole, described
from emend.agents.roles.answer import thoughts_and_answer

NO_THOUGHTS = "the reply has no thoughts before the answer"
NO_ANSWER = "the thoughts come to no answer"


def thoughts_of(record: JudgeInput) -> str | None:
    """The text before the last `Answer:` of a chain of thought; None where none was asked for."""
    if record.reply is None or not {"pre_edit", "correct_flip"} & record.outputs:
        return None
    return thoughts_and_answer(record.reply)[0]


class Supported(VerdictSchema):
    """The verdict on an answer that may follow from thoughts."""

    model_config = described("Whether the answer follows.")

    reason: str = Field(description="one or two sentences: what the thoughts imply")
    verdict: YesNo = Field(description="yes if the thoughts support the answer, else no")


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
    schema = Supported
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
