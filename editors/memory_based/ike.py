"""What `ike` chooses its examples from: a benchmark's or a file of the user's, and what makes two texts similar."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from pydantic import Field, ValidationError

from emend.editors.base import Demonstration, Materials, MemoryLike
from emend.memory.edit import FrozenModel
from emend.memory.embeddings.embed import Vectors
from emend.memory.errors import BadData, MissingData
from emend.memory.probe import Style
from emend.memory.retrieval.base import Corpus

FORM = '{"kind": "copy, update or retain", "fact": "...", "prompt": "...", "target": "..."}'


@runtime_checkable
class WithRows(Protocol):
    """Demonstrations that have more behind them, made of the data's own rows.

    Such a row may be one that a run tests, so that only an editor may ask for them which shows none of an edit that
    stands.
    """

    def rows(self) -> Sequence[Demonstration]:
        """Those of rows that share no subject with any other row."""
        ...


class PoolLine(FrozenModel):
    """A line of the file that `ike.pool` names."""

    kind: Literal["copy", "update", "retain"]
    fact: str = Field(pattern=r"\S")
    prompt: str = Field(pattern=r"\S")
    style: Style = "cloze"
    target: str = Field(pattern=r"\S")


def examples_of(materials: Materials, file: str = "") -> list[Demonstration]:
    """Those of the file where one is named, else the benchmark's, with those of its own rows.

    Raises:
        MissingData: the file cannot be read.
        BadData: a line of it is not as it must be.
    """
    if file:
        return read_pool(Path(file).expanduser())
    given = materials.demonstrations
    return [*given, *(given.rows() if isinstance(given, WithRows) else ())]


def read_pool(file: Path) -> list[Demonstration]:
    """The examples of a file of JSON lines; blank lines are passed over.

    Raises:
        MissingData: it cannot be read.
        BadData: a line is no example, or there is none; names file and line.
    """
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise MissingData(f"no examples in '{file}': name a file with lines of the form {FORM} ({error}).") from error
    found = [_example(line, f"{file}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise BadData(f"'{file}' has no line: give one of the form {FORM} for each example.")
    return found


def _example(line: str, where: str) -> Demonstration:
    try:
        told = PoolLine.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "the whole line"
        raise BadData(f"{where}, field {field}: {first['msg']}. A line has the form {FORM}.") from error
    return Demonstration(**told.model_dump())


class OfMemory:
    """The embedding that the edits are searched with, which is the run's; the memory is first asked when it is used.

    A memory embeds queries alone, so that examples and probe are both embedded as such.
    """

    identity = "the memory's"

    def __init__(self, memory: MemoryLike) -> None:
        self._memory = memory

    def documents(self, texts: Sequence[str]) -> Vectors:
        """Shape (len(texts), dimensions), float32."""
        return np.asarray(self._corpus.embed(texts), dtype=np.float32)

    def queries(self, texts: Sequence[str]) -> Vectors:
        """As `documents`."""
        return self.documents(texts)

    @cached_property
    def _corpus(self) -> Corpus:
        return self._memory.view([])
