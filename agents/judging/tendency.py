"""ELKEN's judge of Tendency-G: marks for a free answer about what an event makes likely."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import BaseModel, Field

from emend.agents.judging.base import PROMPTS, Item, JudgeInput, Mark, Role, Verdict, VerdictSchema
from emend.agents.judging.replies import last_line, own_words
from emend.memory.errors import ModelReplyError

SCALES = ("correctness", "coherence", "comprehensiveness", "overall")
FULL, BOUND = 5, 3
"""If correctness is at most the bound, overall must be, too."""
BATCH = 5
"""Number of items in one call, as published."""


class Marks(VerdictSchema):
    """The marks of one answer."""

    reason: str = Field(description="which tendency the answer claims, and how well it explains it")
    correctness: Mark = Field(description="1 to 5")
    coherence: Mark = Field(description="1 to 5")
    comprehensiveness: Mark = Field(description="1 to 5")
    overall: Mark = Field(description="1 to 5, at most 3 if correctness is at most 3")


class Numbered(Marks):
    """The marks of the answer of that number."""

    number: int = Field(strict=True, ge=1)


class Batch(VerdictSchema):
    """The marks of all answers."""

    marks: list[Numbered]


class Tendency(Role):
    """Marks on four scales ("Event-level Knowledge Editing", 2024, section 3.3 and Table 14), with our own wording."""

    name: ClassVar[str] = "tendency"
    task: ClassVar[str] = PROMPTS["tendency"]["task"]
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

    def pick(self, record: JudgeInput) -> Item | str | None:
        """Pick free answers in scope."""
        if "judged" not in record.outputs or record.local or record.answer is None:
            return None
        event = "\n".join(record.edits)
        return Item.of(self.name, event=event, question=record.question, answer=record.answer, label=record.gold[0])

    def schema_of(self, count: int) -> type[BaseModel]:
        """The schema of one answer's marks, or of a list of them."""
        return Marks if count == 1 else Batch

    def several(self, count: int) -> str:
        """The instruction that numbers the items."""
        return (
            f"There are {count} such items; a mark ends with the number of its item. Rate each of them by itself, in "
            f"their order, and give exactly {count} entries, each with its number."
        )

    def read(self, reply: Any, items: Sequence[Item]) -> list[Verdict]:
        """Return the marks; an item that a batch leaves out, or rates twice, has a problem."""
        if isinstance(reply, Marks):  # of one answer
            return [_verdict(reply)]
        counts = Counter(marks.number for marks in reply.marks)
        by_number = {marks.number: marks for marks in reply.marks}
        if strange := sorted(set(counts) - set(range(1, len(items) + 1))):
            return [Verdict(problem=f"of {len(items)} items, the reply rates number {strange[0]}.")] * len(items)
        return [
            _verdict(by_number[number])
            if counts[number] == 1
            else Verdict(problem=f"item {number} is rated {counts[number]} times.")
            for number in range(1, len(items) + 1)
        ]

    def read_words(self, reply: str, items: Sequence[Item]) -> list[Verdict]:
        """Return the marks in lines of the paper's form: the only one, or one per item that begins with its number.

        Raises:
            ModelReplyError: there is one item and no such line; in a batch an item without its line has a problem.
        """
        names = ("(?:correctness|accuracy)", "coherence", "comprehensive(?:ness)?", "overall")
        line = r"\s*[;,]\s*".join(rf"{name}\s*[:=]\s*([1-5])" for name in names)
        if len(items) == 1:
            hit = last_line(reply, re.compile(rf"(?:I\.\s*)?{line}\.?", re.IGNORECASE), items[0].texts)
            return [_verdict(_marks(hit, reply))]
        return [_numbered(reply, line, number, item) for number, item in enumerate(items, 1)]

    def derive(self, values: Mapping[str, float]) -> dict[str, float]:
        """Add full marks per scale; `judged` and `overall` are those of the overall mark, as in the paper."""
        full = {f"{scale}_full": float(values[f"{scale}_mark"] == FULL) for scale in SCALES}
        return {**values, **full, "judged": full["overall_full"], "overall": full["overall_full"]}


_NUMERALS = ("I", "II", "III", "IV", "V")


def _numbered(reply: str, line: str, number: int, item: Item) -> Verdict:
    """The marks in the line that begins with the item's number; the other lines belong to other items."""
    numbered = re.compile(rf"(?:{_NUMERALS[number - 1]}|{number})\.\s*{line}\.?", re.IGNORECASE)
    try:
        lines = "\n".join(row for row in own_words(reply).splitlines() if numbered.fullmatch(row.strip()))
        return _verdict(_marks(last_line(lines, numbered, item.texts), ""))
    except ModelReplyError as error:
        return Verdict(problem=f"item {number}: {error}")


def _marks(hit: re.Match[str], reply: str) -> Marks:
    return Marks(reason=reply.strip(), **dict(zip(SCALES, map(int, hit.groups()), strict=True)))


def _verdict(reply: Marks) -> Verdict:
    """The marks with the published rule enforced, and whether it had to be."""
    marks = {scale: int(getattr(reply, scale)) for scale in SCALES}
    broken = marks["correctness"] <= BOUND < marks["overall"]
    if broken:
        marks["overall"] = BOUND
    values = {f"{scale}_mark": float(mark) for scale, mark in marks.items()}
    return Verdict(values=values | {"rule_broken": float(broken)}, reason=reply.reason)
