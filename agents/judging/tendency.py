"""ELKEN's judge for Tendency-G: marks for free answers about the likely consequences of an
event.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import BaseModel, Field

from emend.agents.judging.base import PROMPTS, Item, JudgeInput, Mark, Role, Verdict, VerdictSchema
from emend.agents.judging.replies import last_line, own_words
from emend.memory.errors import ModelReplyError

SCALES = ("correctness", "coherence", "comprehensiveness", "overall")
# If correctness is at most this bound, the overall mark must be too.
FULL, BOUND = 5, 3
# Minimum correctness of an answer that the paper also counts as correct (section 4.3).
CORRECT = 4
# Number of items per call, as published.
BATCH = 5


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
    """Marks on four scales ("Event-level Knowledge Editing", 2024, section 3.3 and Table 14), with
    our own wording.
    """

    name: ClassVar[str] = "tendency"
    task: ClassVar[str] = PROMPTS["tendency"]["task"]
    schema: ClassVar[type[BaseModel]] = Marks
    output: ClassVar[str] = "overall_mark"
    outputs: ClassVar[tuple[str, ...]] = (
        *(f"{scale}_mark" for scale in SCALES),
        *(f"{scale}_full" for scale in SCALES),
        "correct",
        "rule_broken",
        "judged",
        "overall",
    )
    scale = "1 to 5"
    voted = (*(f"{scale}_full" for scale in SCALES), "correct", "judged", "overall")
    stated = {"overall": ("1", "2", "3", "4", "5")}
    batch: ClassVar[int] = BATCH
    placeholders = ("event", "question", "answer", "label")

    def pick(self, record: JudgeInput) -> Item | str | None:
        """Pick free answers in scope."""
        if "judged" not in record.outputs or record.local or record.answer is None:
            return None
        event = "\n".join(record.edits)
        return Item.of(
            self.name,
            event=event,
            question=record.question,
            answer=record.answer,
            label=record.gold[0],
        )

    def schema_of(self, count: int) -> type[BaseModel]:
        """Return the schema of one answer's marks, or of a list of them."""
        return Marks if count == 1 else Batch

    def several(self, count: int) -> str:
        """Return the instruction that numbers the items."""
        return (
            f"There are {count} such items; a mark ends with the number of its item. Rate each of "
            f"them by itself, in their order, and give exactly {count} entries, each with its "
            "number."
        )

    def read(self, reply: Any, items: Sequence[Item]) -> list[Verdict]:
        """Return the marks; an item that a batch omits or rates twice gets a problem instead."""
        if isinstance(reply, Marks):  # of one answer
            return [_verdict(reply)]
        counts = Counter(marks.number for marks in reply.marks)
        by_number = {marks.number: marks for marks in reply.marks}
        if strange := sorted(set(counts) - set(range(1, len(items) + 1))):
            return [
                Verdict(problem=f"of {len(items)} items, the reply rates number {strange[0]}.")
            ] * len(items)
        return [
            _verdict(by_number[number])
            if counts[number] == 1
            else Verdict(problem=f"item {number} is rated {counts[number]} times.")
            for number in range(1, len(items) + 1)
        ]

    def read_words(self, reply: str, items: Sequence[Item]) -> list[Verdict]:
        """Return the marks in lines of the paper's form: a single line, or one line per item that
        begins with its number.

        Raises:
            ModelReplyError: there is one item and no such line; in a batch an item without a line
                gets a problem instead.
        """
        if len(items) == 1 and self.own_prompt and self.own_prompt.reply_form:
            return super().read_words(reply, items)
        names = ("(?:correctness|accuracy)", "coherence", "comprehensive(?:ness)?", "overall")
        line = r"\s*[;,]\s*".join(rf"{name}\s*[:=]\s*([1-5])" for name in names)
        if len(items) == 1:
            hit = last_line(
                reply, re.compile(rf"(?:I\.\s*)?{line}\.?", re.IGNORECASE), items[0].texts
            )
            return [_verdict(_marks(hit, reply))]
        return [_numbered(reply, line, number, item) for number, item in enumerate(items, 1)]

    def derive(self, values: Mapping[str, float]) -> dict[str, float]:
        """Add full marks per scale, and `correct` for 4 or more (section 4.3); `judged` and
        `overall` are those of the overall mark, as in the paper.
        """
        full = {f"{scale}_full": float(values[f"{scale}_mark"] == FULL) for scale in SCALES}
        right = {"correct": float(values["correctness_mark"] >= CORRECT)}
        return {
            **values,
            **full,
            **right,
            "judged": full["overall_full"],
            "overall": full["overall_full"],
        }


_NUMERALS = ("I", "II", "III", "IV", "V")


def _numbered(reply: str, line: str, number: int, item: Item) -> Verdict:
    """Return the marks in the line that begins with the item's number."""
    numbered = re.compile(rf"(?:{_NUMERALS[number - 1]}|{number})\.\s*{line}\.?", re.IGNORECASE)
    try:
        lines = "\n".join(
            row for row in own_words(reply).splitlines() if numbered.fullmatch(row.strip())
        )
        return _verdict(_marks(last_line(lines, numbered, item.texts), ""))
    except ModelReplyError as error:
        return Verdict(problem=f"item {number}: {error}")


def _marks(hit: re.Match[str], reply: str) -> Marks:
    return Marks(reason=reply.strip(), **dict(zip(SCALES, map(int, hit.groups()), strict=True)))


def _verdict(reply: Marks) -> Verdict:
    """Return the marks with the published rule enforced, and whether it changed them."""
    marks = {scale: int(getattr(reply, scale)) for scale in SCALES}
    broken = marks["correctness"] <= BOUND < marks["overall"]
    if broken:
        marks["overall"] = BOUND
    values = {f"{scale}_mark": float(mark) for scale, mark in marks.items()}
    return Verdict(values=values | {"rule_broken": float(broken)}, reason=reply.reason)
