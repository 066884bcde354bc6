"""Base classes of judges: their input from a record, the judged item, and the verdict."""

import tomllib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from emend.agents.judging.evidence import Compared
from emend.agents.judging.fence import fenced
from emend.agents.judging.prompt_file import NUMBERING, JudgePrompt
from emend.agents.judging.reply_form import ReplyForm, read_forms
from emend.memory.edit import FrozenModel, content_id, prompt_id
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

PROMPTS: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("prompts.toml").read_text(encoding="utf-8")
)
Scale = Literal["yes or no", "1 to 5", "share"]
# Tag of a stream's question: its kind in the original benchmark.
CATEGORY = "category"


def folded(value: Any) -> Any:
    """Return a text stripped and in lower case, or any other value unchanged."""
    return value.strip().casefold() if isinstance(value, str) else value


# An integer; "5", 5.0 and true (which would parse as 1) are rejected.
Mark = Annotated[int, Field(strict=True, ge=1, le=5)]
YesNo = Annotated[Literal["yes", "no"], BeforeValidator(folded)]


class VerdictSchema(BaseModel):
    """Base of the schemas of replies. Unknown fields are refused: one may be a second verdict."""

    model_config = ConfigDict(extra="forbid")


class JudgeInput(FrozenModel):
    """The part of a record that a judge may see: the question, the answer, and the edits.

    `outputs` are the names of the record's scores, including unscored ones; `before` is the
    unedited model's answer to the same probe; `local` means out of the edit's scope.
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
    rubric: tuple[str, ...] = ()
    """Statements that a right answer has, or events in their order."""
    criterion: str = ""
    """Name of the criterion by which the answer is compared with gold."""


class Item(FrozenModel):
    """The subject of one judgement: texts by name; the id is derived from the content."""

    kind: str
    """Name of the judge."""
    parts: dict[str, tuple[str, ...]]

    @classmethod
    def of(cls, kind: str, **parts: str | tuple[str, ...]) -> Self:
        """Make an item of these texts."""
        return cls(
            kind=kind,
            parts={
                name: (text,) if isinstance(text, str) else text for name, text in parts.items()
            },
        )

    @property
    def id(self) -> str:
        """A hash of the texts, so that records with the same texts share an item."""
        return content_id("item", self.kind, self.parts)

    def text_of(self, name: str) -> str:
        """Return the only text of a part."""
        return self.parts[name][0]

    @property
    def texts(self) -> list[str]:
        """Texts of all parts."""
        return [text for texts in self.parts.values() for text in texts]


class Verdict(FrozenModel):
    """A judge's numbers for one item, by output, with the reason; or the problem why there are
    none.
    """

    values: dict[str, float] = {}
    reason: str = ""
    quote: str = ""
    """Words of the judged reply on which the verdict rests."""
    problem: str = ""


class Role(ABC):
    """A judge: its prompt, its reply schema, and the conversion of replies to numbers."""

    name: ClassVar[str]
    task: ClassVar[str]
    """Instruction before the fenced texts; for Emend's judges from `prompts.toml`."""
    instructions: ClassVar[str] = ""
    """Task description for human annotators; if empty, `task` is used."""
    schema: ClassVar[type[BaseModel]]
    output: ClassVar[str]
    """Name of the number that is compared with human labels."""
    outputs: ClassVar[tuple[str, ...]]
    """Names of all numbers of a verdict."""
    scale: ClassVar[Scale]
    voted: ClassVar[tuple[str, ...]] = ()
    """Names of yes-or-no numbers, which several judges decide by majority."""
    missing: ClassVar[str] = "the judge gave no such number"
    """Reason why a readable verdict may lack a number."""
    swaps: tuple[str, str] | None = None
    """Two parts whose order can be swapped; both orders are then asked."""
    batch: ClassVar[int] = 1
    """Maximum number of items judged in one call."""
    stated: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Allowed words of a verdict, by field of the schema."""
    forms: ClassVar[tuple[ReplyForm, ...]] = ()
    """The papers' formats of a verdict in words, which are also accepted."""
    placeholders: ClassVar[tuple[str, ...]] = ()
    """Names that a user's prompt may fill in; not checked if empty."""
    own_prompt: JudgePrompt | None = None
    """User's prompt that replaces `task` and schema; replies are then read as plain words."""

    @abstractmethod
    def pick(self, record: JudgeInput) -> Item | str | None:
        """Return the item of a record, or the reason why it has none, or None if the judge does not
        apply to the record.
        """

    def compared(self, item: Item) -> Compared | None:
        """Return the reply and the gold answers that an item compares; None for a judge that
        compares nothing.

        A verdict of equivalence is disputed if the words of the reply do not support it.
        """
        return None

    @abstractmethod
    def read(self, reply: Any, items: Sequence[Item]) -> list[Verdict]:
        """Return the verdict on each item, from an instance of the schema."""

    def read_words(self, reply: str, items: Sequence[Item]) -> list[Verdict]:
        """Return the verdict on each item, from a reply in plain words.

        Raises:
            ModelReplyError: it has no verdict, or the verdict may be quoted from the judged text.
        """
        forms = [ReplyForm(line=f"{field}: {{{field}}}") for field in self.stated]
        if self.own_prompt and self.own_prompt.reply_form:
            forms.append(self.own_prompt.reply_form)
        values = read_forms(reply, [*forms, *self.forms], items[0].texts, self.stated)
        reason = reply.strip().rpartition("\n")[0].strip()
        return self.read(self.schema.model_validate({"reason": reason, **values}), items)

    def with_prompt(self, prompt: JudgePrompt) -> Self:
        """Return a copy of the role with the user's prompt, which reads replies in words.

        Raises:
            BadSettings: the prompt has an unknown name in braces, or its form lacks a field.
        """
        allowed = [*self.placeholders, *NUMBERING]
        if unknown := self.placeholders and sorted(prompt.names - {*allowed}):
            raise BadSettings(
                f"prompt of judge '{self.name}', {{{unknown[0]}}}: {nearest(unknown[0], allowed)}"
            )
        fields = {name for name, field in self.schema.model_fields.items() if field.is_required()}
        form = prompt.reply_form
        if form and (lacking := fields - {"reason", *form.fields}):
            raise BadSettings(f"prompt of judge '{self.name}': its form lacks {{{min(lacking)}}}.")
        role = copy(self)
        role.own_prompt = prompt
        return role

    def messages(self, items: Sequence[Item], swapped: bool = False) -> list["BaseMessage"]:
        """Return the messages sent for these items."""
        from langchain_core.messages import HumanMessage

        if self.own_prompt is None:
            return [HumanMessage(self.prompt(items, swapped))]
        return self.own_prompt.messages([self.shown(item, swapped) for item in items])

    def prompt(self, items: Sequence[Item], swapped: bool = False) -> str:
        """Return the exact prompt as one text.

        Args:
            items: one item, or up to `batch` items.
            swapped: whether to exchange the parts of `swaps`.
        """
        if len(items) == 1:
            return f"{self.task}\n\n{fenced(self.shown(items[0], swapped))}"
        parts: dict[str, Sequence[str]] = {}
        for number, item in enumerate(items, 1):
            parts |= {
                f"{name}-{number}": texts for name, texts in self.shown(item, swapped).items()
            }
        return f"{self.task}\n\n{self.several(len(items))}\n\n{fenced(parts)}"

    def shown(self, item: Item, swapped: bool) -> dict[str, tuple[str, ...]]:
        """Return the parts in the order in which the judge sees them."""
        if not swapped or self.swaps is None:
            return item.parts
        first, second = self.swaps
        return item.parts | {first: item.parts[second], second: item.parts[first]}

    def schema_of(self, count: int) -> type[BaseModel]:
        """Return the schema of a reply for this number of items."""
        return self.schema

    def several(self, count: int) -> str:
        """Return the additional instruction for several items in one call."""
        raise NotImplementedError(f"{self.name} judges one item at a time")

    def derive(self, values: Mapping[str, float]) -> dict[str, float]:
        """Add derived numbers, after averaging both orders."""
        return dict(values)

    @property
    def batch_size(self) -> int:
        """Maximum number of items per call; 1 if the user's prompt does not number them."""
        return 1 if self.own_prompt and not self.own_prompt.numbered else self.batch

    @property
    def prompt_id(self) -> str:
        """Hash of the prompt, 8 hex digits."""
        if self.own_prompt:
            return self.own_prompt.id
        return prompt_id(self.task, self.schema.model_json_schema(), self.batch)


YES_NO = ("yes", "no")


class YesNoRole(Role):
    """A judge whose only number is yes or no, the field `verdict` of its schema."""

    scale = "yes or no"
    stated = {"verdict": YES_NO}

    def __init_subclass__(cls) -> None:
        cls.outputs = cls.voted = (cls.output,)

    def read(self, reply: Any, items: Sequence[Item]) -> list[Verdict]:
        """Return the verdict as the role's only number."""
        value = float(reply.verdict == "yes")
        return [
            Verdict(
                values={self.output: value}, reason=reply.reason, quote=getattr(reply, "quote", "")
            )
        ]
