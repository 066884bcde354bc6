"""MeLLo (Zhong et al. 2023): a question is decomposed, and each step's answer checked against the memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from emend.agents.roles.completion import has_room
from emend.agents.roles.decompose import DEMONSTRATIONS, step_prompt_id
from emend.agents.scoring import LimitedModel
from emend.editors.base import EditorContext
from emend.editors.memory_based.rag import MemoryEditor, RagSettings
from emend.graphs.mello import HOPS, HOPS_LIMIT, Form, MelloContext
from emend.memory.edit import Edit
from emend.memory.errors import MissingData
from emend.memory.retrieval.base import Retriever


@dataclass(frozen=True)
class MelloSettings(RagSettings):
    """Settings of MeLLo.

    Attributes:
        form: `text` (as published), `lines` (line by line, for models too small to keep to a form) or `structured` (by
            schema); `auto` is `lines` for a local model whose window does not hold the demonstrations, else `text`.
        hops: maximum number of subquestions; a question that names its own number, in a tag, may always take those.
        demonstrations: a text file with demonstrations in place of the shipped ones; only `text` shows any.
    """

    form: Literal["auto", "text", "lines", "structured"] = "auto"
    hops: Annotated[int, Field(ge=1, le=HOPS_LIMIT)] = HOPS
    demonstrations: str = ""


class Mello(MemoryEditor):
    """Answers a question step by step, and follows the memory where it contradicts a step."""

    name: ClassVar[str] = "mello"
    schema: ClassVar[type[Any]] = MelloSettings
    graph: ClassVar[str] = "mello"

    def __init__(self, context: EditorContext) -> None:
        super().__init__(context)
        self.demonstrations = read_demonstrations(self.settings.demonstrations) or DEMONSTRATIONS
        self.form: Form = self._form()

    def _form(self) -> Form:
        if self.settings.form != "auto":
            return self.settings.form  # type: ignore[no-any-return]
        model = self.context.model
        small = isinstance(model, LimitedModel) and not has_room(model, self.demonstrations)
        return "lines" if small else "text"

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The fingerprint of `Rag` with the form in use and the id of its prompts."""
        demonstrations = self.demonstrations if self.form == "text" else ""
        return super().fingerprint | {"form": self.form, "prompts": step_prompt_id(self.form, demonstrations)}

    def graph_context(self, retriever: Retriever, edits: Sequence[Edit]) -> MelloContext:
        """The context with the form, the limit of hops and the demonstrations."""
        return MelloContext(
            **self.common_fields(retriever),
            form=self.form,
            hops=self.settings.hops,
            demonstrations=self.demonstrations,
            empty=not edits,
        )


def read_demonstrations(file: str) -> str:
    """The text of a file with demonstrations; "" where none is named.

    Raises:
        MissingData: it cannot be read.
    """
    if not file:
        return ""
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MissingData(f"no demonstrations in '{file}': name a text file ({error}).") from error
