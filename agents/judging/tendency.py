"""How good is a free answer about what an event makes likely? ELKEN's judge of Tendency-G."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import BaseModel, Field

from emend.agents.judging.base import Asked, Found, Item, Mark, Role, Verdict
from emend.agents.judging.replies import last_line, own_words
from emend.memory.errors import ModelReplyError

SCALES = ("correctness", "coherence", "comprehensiveness", "overall")
FULL, BOUND = 5, 3
"""Where correctness is not above the bound, overall must not be either."""
BATCH = 5
"""Items in one call, as published."""


class Marks(Verdict):
    """The marks of one answer."""

    reason: str = Field(description="which tendency the answer claims, and how well it explains it")
    correctness: Mark = Field(description="1 to 5")
    coherence: Mark = Field(description="1 to 5")
    comprehensiveness: Mark = Field(description="1 to 5")
    overall: Mark = Field(description="1 to 5, at most 3 if correctness is at most 3")


class Numbered(Marks):
    """The marks of the answer of that number."""

    number: int = Field(strict=True, ge=1)


class Batch(Verdict):
    """The marks of all answers."""

    marks: list[Numbered]


class Tendency(Role):
    """Marks on four scales ("Event-level Knowledge Editing", 2024, section 3.3 and Table 14), with our own wording."""

    name: ClassVar[str] = "tendency"
    task: ClassVar[str] = (
        "You are given an event, a question about what it makes likely, an answer, and a label: the tendency that "
        "people agreed on. Take the event as having happened. Rate the answer with whole numbers from 1 to 5, 5 "
        "being best. Correctness: does the tendency that the answer claims match the label? It is 5 when they match, "
        "1 when the answer claims another one, declines, or is empty, 3 when it stays undecided. Coherence: are its "
        "reasons sound and free of contradiction? Comprehensiveness: does it give more than one reason or aspect? "
        "Overall: the answer as a whole; if correctness is 3 or less, overall is 3 or less. Rate what is there and "
        "complete nothing. Give your reason first, then the marks."
    )
    schema: ClassVar[type[BaseModel]] = Marks
    output: ClassVar[str] = "overall_mark"
    outputs: ClassVar[tuple[str, ...]] = (
        *(f"{scale}_mark" for scale in SCALES),
        *(f"{scale}_full" for scale in SCALES),
        "rule_broken",
        "judged",
        "overall",
    )
    scale = "1 to 5"
    voted = (*(f"{scale}_full" for scale in SCALES), "judged", "overall")
    stated = {"overall": ("1", "2", "3", "4", "5")}
    batch: ClassVar[int] = BATCH

    def pick(self, asked: Asked) -> Item | str | None:
        """Free answers in scope."""
        if "judged" not in asked.outputs or asked.local or asked.answer is None:
            return None
        event = "\n".join(asked.edits)
        return Item.of(self.name, event=event, question=asked.question, answer=asked.answer, label=asked.gold[0])

    def schema_of(self, count: int) -> type[BaseModel]:
        """One answer's marks, or a list of them."""
        return Marks if count == 1 else Batch

    def several(self, count: int) -> str:
        """How the items are told apart."""
        return (
            f"There are {count} such items; a mark ends with the number of its item. Rate each of them by itself, in "
            f"their order, and give exactly {count} entries, each with its number."
        )

    def read(self, reply: Any, items: Sequence[Item]) -> list[Found]:
        """The marks; an item that a batch leaves out, or rates twice, has a problem."""
        if isinstance(reply, Marks):  # of one answer
            return [_found(reply)]
        counts = Counter(told.number for told in reply.marks)
        by_number = {told.number: told for told in reply.marks}
        if strange := sorted(set(counts) - set(range(1, len(items) + 1))):
            return [Found(problem=f"of {len(items)} items, the reply rates number {strange[0]}.")] * len(items)
        return [
            _found(by_number[number])
            if counts[number] == 1
            else Found(problem=f"item {number} is rated {counts[number]} times.")
            for number in range(1, len(items) + 1)
        ]

    def read_words(self, reply: str, items: Sequence[Item]) -> list[Found]:
        """One line with the four marks in the paper's form, or one per item that begins with its number.

        Raises:
            ModelReplyError: one item, and no such line; in a batch an item without its line has a problem.
        """
        names = ("(?:correctness|accuracy)", "coherence", "comprehensive(?:ness)?", "overall")
        line = r"\s*[;,]\s*".join(rf"{name}\s*[:=]\s*([1-5])" for name in names)
        if len(items) == 1:
            hit = last_line(reply, re.compile(rf"(?:I\.\s*)?{line}\.?", re.IGNORECASE), items[0].texts)
            return [_found(_marks(hit, reply))]
        return [_numbered(reply, line, number, item) for number, item in enumerate(items, 1)]

    def derive(self, values: Mapping[str, float]) -> dict[str, float]:
        """Full marks per scale; `judged` and `overall` are those of the overall mark, as the paper counts."""
        full = {f"{scale}_full": float(values[f"{scale}_mark"] == FULL) for scale in SCALES}
        return {**values, **full, "judged": full["overall_full"], "overall": full["overall_full"]}


_NUMERALS = ("I", "II", "III", "IV", "V")


def _numbered(reply: str, line: str, number: int, item: Item) -> Found:
    """The marks in the line that begins with the item's number; other lines are other items' own."""
    own = re.compile(rf"(?:{_NUMERALS[number - 1]}|{number})\.\s*{line}\.?", re.IGNORECASE)
    try:
        kept = "\n".join(told for told in own_words(reply).splitlines() if own.fullmatch(told.strip()))
        return _found(_marks(last_line(kept, own, item.texts), ""))
    except ModelReplyError as error:
        return Found(problem=f"item {number}: {error}")


def _marks(hit: re.Match[str], reply: str) -> Marks:
    return Marks(reason=reply.strip(), **dict(zip(SCALES, map(int, hit.groups()), strict=True)))


def _found(told: Marks) -> Found:
    """The marks with the published rule enforced, and whether it had to be."""
    marks = {scale: int(getattr(told, scale)) for scale in SCALES}
    broken = marks["correctness"] <= BOUND < marks["overall"]
    if broken:
        marks["overall"] = BOUND
    values = {f"{scale}_mark": float(mark) for scale, mark in marks.items()}
    return Found(values=values | {"rule_broken": float(broken)}, reason=told.reason)
