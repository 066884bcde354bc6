"""MeLLo (Zhong et al. 2023): a question is taken in steps, and each step's answer checked against the memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from emend.agents.roles.continuing import has_room
from emend.agents.roles.decompose import DEMONSTRATIONS, prompt_id
from emend.agents.scoring import LimitedModel
from emend.editors.base import Materials
from emend.editors.memory_based.rag import RagSettings, Remembering
from emend.graphs.mello import HOPS, HOPS_LIMIT, Form, MelloContext
from emend.memory.edit import Edit
from emend.memory.errors import MissingData
from emend.memory.retrieval.base import Retriever


@dataclass(frozen=True)
class MelloSettings(RagSettings):
    """How a question is taken apart.

    `form` is `text` (as published), `lines` (line by line, for models too small to keep to a form) or `structured` (by
    schema); `auto` is `lines` for a local model whose window does not hold the solved examples, else `text`. `hops` is
    how many subquestions a question may take; one that tells its own number, in a tag, may always take those.
    `demonstrations` names a text file with solved examples in place of the shipped ones; only `text` shows any.
    """

    form: Literal["auto", "text", "lines", "structured"] = "auto"
    hops: Annotated[int, Field(ge=1, le=HOPS_LIMIT)] = HOPS
    demonstrations: str = ""


class Mello(Remembering):
    """Answers a question step by step, and believes the memory where it contradicts a step."""

    name: ClassVar[str] = "mello"
    schema: ClassVar[type[Any]] = MelloSettings
    graph: ClassVar[str] = "mello"

    def __init__(self, materials: Materials) -> None:
        super().__init__(materials)
        self.demonstrations = demonstrations_in(self.settings.demonstrations) or DEMONSTRATIONS
        self.form: Form = self._form()

    def _form(self) -> Form:
        if self.settings.form != "auto":
            return self.settings.form  # type: ignore[no-any-return]
        model = self.materials.model
        small = isinstance(model, LimitedModel) and not has_room(model, self.demonstrations)
        return "lines" if small else "text"

    @property
    def fingerprint(self) -> dict[str, Any]:
        """As for `Rag`, with the form that is used and the id of its prompts."""
        shown = self.demonstrations if self.form == "text" else ""
        return super().fingerprint | {"form": self.form, "prompts": prompt_id(self.form, shown)}

    def context(self, found: Retriever, edits: Sequence[Edit]) -> MelloContext:
        """With the form, the limit of hops and the solved examples."""
        return MelloContext(
            **self.shared(found),
            form=self.form,
            hops=self.settings.hops,
            demonstrations=self.demonstrations,
            empty=not edits,
        )


def demonstrations_in(file: str) -> str:
    """The text of a file with solved examples; "" where none is named.

    Raises:
        MissingData: it cannot be read.
    """
    if not file:
        return ""
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MissingData(f"no solved examples in '{file}': name a text file ({error}).") from error
