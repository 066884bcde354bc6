"""Pool of demonstrations for `ike` from a benchmark or a file, and the embedding to select them."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from pydantic import Field, ValidationError

from emend.editors.base import Demonstration, EditorContext, MemoryLike
from emend.editors.hyperparameters import read_text
from emend.memory.embeddings.embed import Vectors
from emend.memory.errors import BadData, problem_of
from emend.memory.probe import Style
from emend.memory.retrieval.base import Corpus

FORM = '{"kind": "copy, update or retain", "fact": "...", "prompt": "...", "target": "..."}'


@runtime_checkable
class RowDemonstrations(Protocol):
    """A benchmark's demonstrations that can be extended with demonstrations made from its own rows.

    A run may test these rows, so an editor must never show a demonstration of an applied edit.
    """

    def rows(self, count: int) -> Sequence[Demonstration]:
        """Return demonstrations of `count` rows (0: all) whose subjects occur in no other row."""
        ...


class DemonstrationLine(Demonstration):
    """One line of the file that the setting `ike.pool` names."""

    kind: Literal["copy", "update", "retain"]
    fact: str = Field(pattern=r"\S")
    prompt: str = Field(pattern=r"\S")
    style: Style = "cloze"
    target: str = Field(pattern=r"\S")


def load_examples(context: EditorContext, file: str = "", rows: int = 100) -> list[Demonstration]:
    """Return the demonstrations of a file or, without a file, of the benchmark and its own rows.

    Args:
        context: the editor's context, which holds the benchmark's demonstrations.
        file: path of a JSON lines file; empty for the benchmark's demonstrations.
        rows: number of benchmark rows to make demonstrations from; 0 for all.

    Raises:
        MissingData: the file cannot be read.
        BadData: a line is not valid.
    """
    if file:
        return read_pool(Path(file))
    pool = context.demonstrations
    return [*pool, *(pool.rows(rows) if isinstance(pool, RowDemonstrations) else ())]


def read_pool(file: Path) -> list[Demonstration]:
    """Return the demonstrations in a file of JSON lines; blank lines are skipped.

    Raises:
        MissingData: the file cannot be read.
        BadData: a line is not valid (file and line are named), or the file has no lines.
    """
    lines = read_text(
        file, f"no examples in '{file}': name a file with lines of the form {FORM}"
    ).split("\n")
    examples = [
        _example(line, f"{file}, line {number}")
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]
    if not examples:
        raise BadData(f"'{file}' has no line: give one of the form {FORM} for each example.")
    return examples


def _example(line: str, location: str) -> Demonstration:
    try:
        return DemonstrationLine.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "the whole line"
        raise BadData(
            f"{location}, field {field}: {problem_of(first)}. A line has the form {FORM}."
        ) from error


class MemoryEmbedding:
    """The memory's own embedding, which also retrieves the edits; opened at first use.

    A memory embeds only queries, so demonstrations and probes are both embedded as queries.
    """

    identity = "the memory's"

    def __init__(self, memory: MemoryLike) -> None:
        self._memory = memory

    def documents(self, texts: Sequence[str]) -> Vectors:
        """Return embeddings, float32, shape (len(texts), dimensions)."""
        return np.asarray(self._corpus.embed(texts), dtype=np.float32)

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Return embeddings, float32, shape (len(texts), dimensions)."""
        return self.documents(texts)

    @cached_property
    def _corpus(self) -> Corpus:
        return self._memory.view([])
