"""Does a paragraph convey a sentence? AKEW's verification of its unstructured facts."""

from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import Field

from emend.agents.judging.base import YES_NO, Asked, Found, Item, Role, Verdict, YesNo, binary

FORMS = ("document", "event")


class Conveys(Verdict):
    """Whether the paragraph says so."""

    reason: str = Field(description="the words of the paragraph that decide, or what is missing")
    verdict: YesNo = Field(description="yes if the paragraph conveys the sentence, else no")


class Supports(Role):
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
    outputs: ClassVar[tuple[str, ...]] = ("conveyed",)
    scale = "yes or no"
    voted = ("conveyed",)
    stated = {"verdict": YES_NO}

    def pick(self, asked: Asked) -> Item | str | None:
        """What is asked about an edit itself, where the editor was given a text in place of the fact."""
        if asked.local or "efficacy" not in asked.kind or not asked.edits or not set(asked.forms) <= set(FORMS):
            return None
        paragraph = "\n".join(dict.fromkeys(asked.edits))  # a case's texts, which may tell of one another's facts
        return Item.of(self.name, paragraph=paragraph, sentence=f"{asked.question} {asked.gold[0]}")

    def read(self, reply: Any, items: Sequence[Item]) -> list[Found]:
        """`conveyed`."""
        return [binary("conveyed", reply.verdict, reply.reason)]
