"""What all judges have in common: what they are shown of a record, the item that they judge, and what they find."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from emend.agents.judging.fence import fenced
from emend.agents.judging.replies import last_line
from emend.memory.edit import FrozenModel, content_id

Scale = Literal["yes or no", "1 to 5", "share"]


def _folded(value: Any) -> Any:
    return value.strip().casefold() if isinstance(value, str) else value


Mark = Annotated[int, Field(strict=True, ge=1, le=5)]
"""Not "5", not 5.0 and not true, which would read as 1."""
YesNo = Annotated[Literal["yes", "no"], BeforeValidator(_folded)]


class Verdict(BaseModel):
    """Base of the replies: a field that nobody asked for may be a second verdict, and is refused."""

    model_config = ConfigDict(extra="forbid")


class Asked(FrozenModel):
    """What a judge may see of a record: what was asked, what was said, and under which edits.

    `outputs` are the names of the record's scores, with those that are missing; `before` is what the unedited model
    said to the same probe; `local` means out of the edit's scope.
    """

    kind: str
    question: str
    local: bool = False
    gold: tuple[str, ...] = ()
    answer: str | None = None
    reply: str | None = None
    before: str | None = None
    edits: tuple[str, ...] = ()
    """Their texts."""
    forms: tuple[str, ...] = ()
    """Their forms."""
    outputs: frozenset[str] = frozenset()


class Item(FrozenModel):
    """What one judgement is about: texts by name; the id is derived from the content."""

    kind: str
    """Name of the judge."""
    parts: dict[str, tuple[str, ...]]

    @classmethod
    def of(cls, kind: str, **parts: str | tuple[str, ...]) -> Self:
        """An item of these texts."""
        return cls(kind=kind, parts={name: (told,) if isinstance(told, str) else told for name, told in parts.items()})

    @property
    def id(self) -> str:
        """The same for the same texts, whatever record they come from."""
        return content_id("item", self.kind, self.parts)

    def one(self, name: str) -> str:
        """The text of a part that has one."""
        return self.parts[name][0]

    @property
    def texts(self) -> list[str]:
        """All of its texts."""
        return [text for texts in self.parts.values() for text in texts]


class Found(FrozenModel):
    """What a judge says of one item: numbers by output with its reason, or the problem that there are none."""

    values: dict[str, float] = {}
    reason: str = ""
    problem: str = ""


class Role(ABC):
    """A judge's prompt, its schema, and how its reply becomes numbers."""

    name: ClassVar[str]
    task: ClassVar[str]
    """What is asked, before the fenced texts."""
    schema: ClassVar[type[BaseModel]]
    output: ClassVar[str]
    """The one number that people's labels are compared with."""
    outputs: ClassVar[tuple[str, ...]]
    """All numbers of a verdict."""
    scale: ClassVar[Scale]
    voted: ClassVar[tuple[str, ...]] = ()
    """Numbers that are yes or no, decided by majority where several judge."""
    missing: ClassVar[str] = "the judge gave no such number"
    """Why a verdict that could be read may lack a number."""
    swaps: ClassVar[tuple[str, str] | None] = None
    """Two parts that can change places; then both orders are asked."""
    batch: ClassVar[int] = 1
    """So many items at most are judged in one call."""
    stated: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Words of the verdict by field of the schema."""

    @abstractmethod
    def pick(self, asked: Asked) -> Item | str | None:
        """The item of a record; why it has none though the judge is meant for it; None when it is not."""

    @abstractmethod
    def read(self, reply: Any, items: Sequence[Item]) -> list[Found]:
        """What an instance of the schema says of each item."""

    def read_words(self, reply: str, items: Sequence[Item]) -> list[Found]:
        """The same from a reply in plain words.

        Raises:
            ModelReplyError: it has no verdict, or none that is surely the judge's.
        """
        (field,) = self.stated
        words = "|".join(map(re.escape, self.stated[field]))
        pattern = re.compile(rf"<?\s*(?:{field}\s*[:=]\s*)({words})\s*>?\.?", re.IGNORECASE)
        hit = last_line(reply, pattern, items[0].texts)
        told: Any = int(hit[1]) if hit[1].isdigit() else hit[1]
        reason = reply.strip().rpartition("\n")[0].strip()
        return self.read(self.schema.model_validate({"reason": reason, field: told}), items)

    def prompt(self, items: Sequence[Item], swapped: bool = False) -> str:
        """The exact text that a judge is asked.

        Args:
            items: one, or as many as the role's `batch`.
            swapped: the parts of `swaps` have changed places.
        """
        if len(items) == 1:
            return f"{self.task}\n\n{fenced(self.shown(items[0], swapped))}"
        parts: dict[str, Sequence[str]] = {}
        for number, item in enumerate(items, 1):
            parts |= {f"{name}-{number}": texts for name, texts in self.shown(item, swapped).items()}
        return f"{self.task}\n\n{self.several(len(items))}\n\n{fenced(parts)}"

    def shown(self, item: Item, swapped: bool) -> dict[str, tuple[str, ...]]:
        """The parts as the judge sees them."""
        if not swapped or self.swaps is None:
            return item.parts
        one, other = self.swaps
        return item.parts | {one: item.parts[other], other: item.parts[one]}

    def schema_of(self, count: int) -> type[BaseModel]:
        """The form of the reply about so many items."""
        return self.schema

    def several(self, count: int) -> str:
        """What is said besides when items are judged together."""
        raise NotImplementedError(f"{self.name} judges one item at a time")

    def derive(self, values: Mapping[str, float]) -> dict[str, float]:
        """The numbers with those that follow from them, once both orders have been taken together."""
        return dict(values)

    @property
    def prompt_id(self) -> str:
        """Eight hex digits that change when what is asked does."""
        return content_id(self.task, self.schema.model_json_schema(), self.batch)[:8]


YES_NO = ("yes", "no")
MARKS = ("1", "2", "3", "4", "5")


def binary(output: str, verdict: str, reason: str) -> Found:
    """Yes is 1.0, no is 0.0."""
    return Found(values={output: float(verdict == "yes")}, reason=reason)
