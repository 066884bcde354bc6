"""AKEW's verification of unstructured facts: whether a paragraph conveys a sentence."""

from typing import ClassVar

from pydantic import Field

from emend.agents.judging.base import Item, JudgeInput, VerdictSchema, YesNo, YesNoRole, described

FORMS = ("document", "event")


class Conveys(VerdictSchema):
    """The verdict on a paragraph."""

    model_config = described("Whether the paragraph says so.")

    reason: str = Field(description="the words of the paragraph that decide, or what is missing")
    verdict: YesNo = Field(description="yes if the paragraph conveys the sentence, else no")


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
    schema = Conveys
    output: ClassVar[str] = "conveyed"

    def pick(self, record: JudgeInput) -> Item | str | None:
        """Pick probes of an edit itself where the editor was given a text in place of the fact."""
        if record.local or "efficacy" not in record.kind or not record.edits or not set(record.forms) <= set(FORMS):
            return None
        paragraph = "\n".join(dict.fromkeys(record.edits))  # all texts of the case: each may state facts of the others
        return Item.of(self.name, paragraph=paragraph, sentence=f"{record.question} {record.gold[0]}")
