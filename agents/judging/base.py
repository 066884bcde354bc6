"""The base of all judges: the input they see of a record, the item they judge, and their verdict."""

import re
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from emend.agents.judging.fence import fenced
from emend.agents.judging.replies import last_line
from emend.memory.edit import FrozenModel, content_id, prompt_id

PROMPTS: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_name("prompts.toml").read_text(encoding="utf-8"))
Scale = Literal["yes or no", "1 to 5", "share"]


def folded(value: Any) -> Any:
    """A text in lower case without white space around it; any other value unchanged."""
    return value.strip().casefold() if isinstance(value, str) else value


Mark = Annotated[int, Field(strict=True, ge=1, le=5)]
"""A whole number; "5", 5.0 and true (which would parse as 1) are refused."""
YesNo = Annotated[Literal["yes", "no"], BeforeValidator(folded)]


class VerdictSchema(BaseModel):
    """Base of the schemas of replies. Unknown fields are refused: one may be a second verdict."""

    model_config = ConfigDict(extra="forbid")


class JudgeInput(FrozenModel):
    """The part of a record that a judge may see: the question, the answer, and the edits.

    `outputs` are the names of the record's scores, with those that are missing; `before` is the unedited model's answer
    to the same probe; `local` means out of the edit's scope.
    """

    kind: str
    question: str
    local: bool = False
    gold: tuple[str, ...] = ()
    answer: str | None = None
    reply: str | None = None
    before: str | None = None
    edits: tuple[str, ...] = ()
    """Texts of the edits."""
    forms: tuple[str, ...] = ()
    """Forms of the edits, see `Edit.form`."""
    outputs: frozenset[str] = frozenset()


class Item(FrozenModel):
    """The subject of one judgement: texts by name; the id is derived from the content."""

    kind: str
    """Name of the judge."""
    parts: dict[str, tuple[str, ...]]

    @classmethod
    def of(cls, kind: str, **parts: str | tuple[str, ...]) -> Self:
        """Make an item of these texts."""
        return cls(kind=kind, parts={name: (text,) if isinstance(text, str) else text for name, text in parts.items()})

    @property
    def id(self) -> str:
        """A hash of the texts, so that records with the same texts share an item."""
        return content_id("item", self.kind, self.parts)

    def text_of(self, name: str) -> str:
        """The only text of a part."""
        return self.parts[name][0]

    @property
    def texts(self) -> list[str]:
        """The texts of all parts."""
        return [text for texts in self.parts.values() for text in texts]


class Verdict(FrozenModel):
    """A judge's numbers for one item, by output, with the reason; or the problem that there are none."""

    values: dict[str, float] = {}
    reason: str = ""
    problem: str = ""


class Role(ABC):
    """A judge's prompt, its schema, and how its reply becomes numbers."""

    name: ClassVar[str]
    task: ClassVar[str]
    """The instruction before the fenced texts; of Emend's own judges it is in `prompts.toml`."""
    schema: ClassVar[type[BaseModel]]
    output: ClassVar[str]
    """The number that human labels are compared with."""
    outputs: ClassVar[tuple[str, ...]]
    """The names of all numbers of a verdict."""
    scale: ClassVar[Scale]
    voted: ClassVar[tuple[str, ...]] = ()
    """Numbers that are yes or no, decided by majority where there are several judges."""
    missing: ClassVar[str] = "the judge gave no such number"
    """The reason why a readable verdict may lack a number."""
    swaps: ClassVar[tuple[str, str] | None] = None
    """Two parts that can change places; both orders are then asked."""
    batch: ClassVar[int] = 1
    """Maximum number of items judged in one call."""
    stated: ClassVar[Mapping[str, Sequence[str]]] = {}
    """By field of the schema, the words that a verdict may consist of."""

    @abstractmethod
    def pick(self, record: JudgeInput) -> Item | str | None:
        """The item of a record; the reason why it has none; None if the judge is not meant for such records."""

    @abstractmethod
    def read(self, reply: Any, items: Sequence[Item]) -> list[Verdict]:
        """The verdict on each item, from an instance of the schema."""

    def read_words(self, reply: str, items: Sequence[Item]) -> list[Verdict]:
        """The verdict on each item, from a reply in plain words.

        Raises:
            ModelReplyError: it has no verdict, or none that is certainly the judge's own.
        """
        (field,) = self.stated
        words = "|".join(map(re.escape, self.stated[field]))
        pattern = re.compile(rf"<?\s*(?:{field}\s*[:=]\s*)({words})\s*>?\.?", re.IGNORECASE)
        hit = last_line(reply, pattern, items[0].texts)
        value: Any = int(hit[1]) if hit[1].isdigit() else hit[1]
        reason = reply.strip().rpartition("\n")[0].strip()
        return self.read(self.schema.model_validate({"reason": reason, field: value}), items)

    def prompt(self, items: Sequence[Item], swapped: bool = False) -> str:
        """The exact prompt.

        Args:
            items: one, or as many as the role's `batch`.
            swapped: whether the parts of `swaps` change places.
        """
        if len(items) == 1:
            return f"{self.task}\n\n{fenced(self.shown(items[0], swapped))}"
        parts: dict[str, Sequence[str]] = {}
        for number, item in enumerate(items, 1):
            parts |= {f"{name}-{number}": texts for name, texts in self.shown(item, swapped).items()}
        return f"{self.task}\n\n{self.several(len(items))}\n\n{fenced(parts)}"

    def shown(self, item: Item, swapped: bool) -> dict[str, tuple[str, ...]]:
        """The parts in the order in which the judge sees them."""
        if not swapped or self.swaps is None:
            return item.parts
        first, second = self.swaps
        return item.parts | {first: item.parts[second], second: item.parts[first]}

    def schema_of(self, count: int) -> type[BaseModel]:
        """The schema of a reply about this number of items."""
        return self.schema

    def several(self, count: int) -> str:
        """The instruction that is added when several items are judged together."""
        raise NotImplementedError(f"{self.name} judges one item at a time")

    def derive(self, values: Mapping[str, float]) -> dict[str, float]:
        """Add the numbers that follow from these, after both orders have been averaged."""
        return dict(values)

    @property
    def prompt_id(self) -> str:
        """Eight hex digits that change with the prompt."""
        return prompt_id(self.task, self.schema.model_json_schema(), self.batch)


YES_NO = ("yes", "no")
MARKS = ("1", "2", "3", "4", "5")


class YesNoRole(Role):
    """A judge whose only number is yes or no, the field `verdict` of its schema."""

    scale = "yes or no"
    stated = {"verdict": YES_NO}

    def __init_subclass__(cls) -> None:
        cls.outputs = cls.voted = (cls.output,)

    def read(self, reply: Any, items: Sequence[Item]) -> list[Verdict]:
        """Return the verdict as the role's only number."""
        return [Verdict(values={self.output: float(reply.verdict == "yes")}, reason=reply.reason)]
