"""Judges with one verdict: equivalence, coherence and support, yes or no; agreement, 1 to 5."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import BaseModel, Field, create_model

from emend.agents.judging.base import (
    MARKS,
    PROMPTS,
    Item,
    JudgeInput,
    Mark,
    Role,
    Verdict,
    VerdictSchema,
    YesNo,
    YesNoRole,
)
from emend.agents.parsing.answers import thoughts_and_answer

MATCHED = frozenset({"em", "strict", "right", "correct_flip"})
"""Scores that compare an answer with gold by its letters."""
TEXT_FORMS = frozenset({"document", "event"})
FULL = 5
NO_BEFORE = "what the unedited model said is not there"
NO_THOUGHTS = "the reply has no thoughts before the answer"
NO_ANSWER = "the thoughts come to no answer"


def yes_no_schema(judge: str) -> type[BaseModel]:
    """Return the schema of a reply with a reason and a verdict, which the judge sees with its prompt's descriptions."""
    prompt = PROMPTS[judge]
    fields: dict[str, Any] = {
        "reason": (str, Field(description=prompt["reason"])),
        "verdict": (YesNo, Field(description=prompt["verdict"])),
    }
    return create_model(prompt["schema"], __base__=VerdictSchema, __doc__=prompt["about"], **fields)


class Equivalence(YesNoRole):
    """Equality of meaning of a free-form answer and gold or its aliases, beside exact match; asked both ways."""

    name: ClassVar[str] = "equivalence"
    task: ClassVar[str] = PROMPTS["equivalence"]["task"]
    schema = yes_no_schema("equivalence")
    output: ClassVar[str] = "equivalent"
    swaps = ("one", "other")

    def pick(self, record: JudgeInput) -> Item | str | None:
        """Pick answers in words that were matched with gold, and all that a run under the protocol `judge` asks for."""
        matched = self.output in record.outputs or (not record.local and MATCHED & record.outputs)
        if not matched or record.answer is None or not record.gold:
            return None
        return Item.of(self.name, question=record.question, one=record.answer, other="\n".join(record.gold))


class Supports(YesNoRole):
    """Verification that a text states the fact that is to be learnt from it (AKEW, appendix E)."""

    name: ClassVar[str] = "supports"
    task: ClassVar[str] = PROMPTS["supports"]["task"]
    schema = yes_no_schema("supports")
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
    task: ClassVar[str] = PROMPTS["coherence"]["task"]
    schema = yes_no_schema("coherence")
    output: ClassVar[str] = "supported"

    def pick(self, record: JudgeInput) -> Item | str | None:
        """Pick chains of thought."""
        thoughts = read_thoughts(record)
        if thoughts is None:
            return None
        if not thoughts:
            return NO_THOUGHTS
        if record.answer is None or not record.answer.strip():
            return NO_ANSWER
        return Item.of(self.name, question=record.question, thoughts=thoughts, answer=record.answer)


def read_thoughts(record: JudgeInput) -> str | None:
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
    task: ClassVar[str] = PROMPTS["agreement"]["task"]
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
