"""Pool of demonstrations for `ike`, from a benchmark or a user's file, and the similarity of two texts."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from pydantic import Field, ValidationError

from emend.editors.base import Demonstration, EditorContext, MemoryLike
from emend.editors.hyperparameters import read_text
from emend.memory.embeddings.embed import Vectors
from emend.memory.errors import BadData
from emend.memory.probe import Style
from emend.memory.retrieval.base import Corpus

FORM = '{"kind": "copy, update or retain", "fact": "...", "prompt": "...", "target": "..."}'


@runtime_checkable
class RowDemonstrations(Protocol):
    """Demonstrations with further ones made from the data's own rows.

    A run may test such a row, so only an editor that shows none of an applied edit may use them.
    """

    def rows(self) -> Sequence[Demonstration]:
        """The demonstrations of rows that share no subject with any other row."""
        ...


class DemonstrationLine(Demonstration):
    """A line of the file in `ike.pool`."""

    kind: Literal["copy", "update", "retain"]
    fact: str = Field(pattern=r"\S")
    prompt: str = Field(pattern=r"\S")
    style: Style = "cloze"
    target: str = Field(pattern=r"\S")


def load_examples(context: EditorContext, file: str = "") -> list[Demonstration]:
    """The demonstrations of the file where one is named, else the benchmark's, with those of its own rows.

    Raises:
        MissingData: the file cannot be read.
        BadData: a line of it is not valid.
    """
    if file:
        return read_pool(Path(file))
    pool = context.demonstrations
    return [*pool, *(pool.rows() if isinstance(pool, RowDemonstrations) else ())]


def read_pool(file: Path) -> list[Demonstration]:
    """The demonstrations in a file of JSON lines; blank lines are skipped.

    Raises:
        MissingData: it cannot be read.
        BadData: a line is not valid, or there is none; names file and line.
    """
    lines = read_text(file, f"no examples in '{file}': name a file with lines of the form {FORM}").split("\n")
    examples = [_example(line, f"{file}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not examples:
        raise BadData(f"'{file}' has no line: give one of the form {FORM} for each example.")
    return examples


def _example(line: str, location: str) -> Demonstration:
    try:
        return DemonstrationLine.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "the whole line"
        raise BadData(f"{location}, field {field}: {first['msg']}. A line has the form {FORM}.") from error


class MemoryEmbedding:
    """The memory's own embedding, which the edits are retrieved with; opened at first use.

    A memory embeds queries alone, so demonstrations and probe are both embedded as such.
    """

    identity = "the memory's"

    def __init__(self, memory: MemoryLike) -> None:
        self._memory = memory

    def documents(self, texts: Sequence[str]) -> Vectors:
        """Shape (len(texts), dimensions), float32."""
        return np.asarray(self._corpus.embed(texts), dtype=np.float32)

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Shape (len(texts), dimensions), float32."""
        return self.documents(texts)

    @cached_property
    def _corpus(self) -> Corpus:
        return self._memory.view([])
