"""Benchmarks that `emend build` made: a folder with a card that names the benchmark which reads its files."""

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from emend.evals.case import Benchmark, Case
from emend.evals.data.benchmarks.fact_file.benchmark import FactFile
from emend.evals.data.benchmarks.fact_file.read import is_fact_file
from emend.evals.data.benchmarks.registry import BENCHMARKS
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData
from emend.memory.files import open_file

CARD, PLACES = "card.json", "cases.json"
"""The card, and the places of the cases that were kept of another benchmark, from 0."""


class BenchmarkFiles(FrozenModel):
    """A benchmark by its files: which of Emend's benchmarks reads them, and with which options."""

    benchmark: str
    options: dict[str, str] = {}
    files: tuple[str, ...]
    data: str | None = None
    """Folder of another benchmark's files, of which the cases are taken; None for its usual one."""


class CardHead(BaseModel):
    """The part of a card by which its folder is read as a benchmark."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    kind: str
    recipe: str
    status: str
    content: BenchmarkFiles


class BuiltBenchmark:
    """The benchmark that reads the files of a folder, under the provenance of the folder's card.

    `places` are those of the cases that it takes of another benchmark; None for all.
    """

    def __init__(self, inner: Benchmark, card: CardHead, folder: Path, places: Sequence[int] | None) -> None:
        self._inner, self._card, self._folder, self._places = inner, card, folder, places

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def cases(self, setting: str, limit: int | None = None, seed: int = 0) -> Iterator[Case]:
        """The cases of the files; of the chosen ones of another benchmark a seeded sample, where there is a limit."""
        if self._places is None:
            return self._inner.cases(setting, limit, seed)
        count = len(self._places)
        chosen = sorted(random.Random(seed).sample(range(count), min(count, limit or count)))
        places = {self._places[place] for place in chosen}
        return (case for place, case in enumerate(self._inner.cases(setting)) if place in places)

    @property
    def provenance(self) -> dict[str, Any]:
        """That of the files, with the kind, the recipe and the status of the folder in place of the source."""
        card, inner = self._card, self._inner.provenance
        state = (
            f"{self._folder}: built by emend build {card.kind}, recipe {card.recipe}, {card.status}; see its card.md"
        )
        return {**inner, "source": state, "choices": [*inner.get("choices", ()), state]}


def is_built_folder(name: str) -> bool:
    """True for a folder that `emend build` made."""
    return (Path(name).expanduser() / CARD).is_file()


def open_built(name: str, options: Mapping[str, str]) -> Benchmark:
    """The benchmark of a folder that `emend build` made; options given here come before those of its card.

    Raises:
        BadData: the card cannot be read, or names no benchmark of Emend's.
    """
    folder = Path(name).expanduser()
    try:
        with open_file(folder / CARD) as file:
            card = CardHead.model_validate_json(file.read())
    except (OSError, ValidationError) as error:
        reason = " ".join(str(error).split())[:200]
        raise BadData(
            f"'{folder / CARD}' cannot be read ({reason}): build the folder again with emend build."
        ) from error
    source, places = card.content.benchmark, None
    if card.content.files == (PLACES,):
        places = _read_places(folder)
    if source == FactFile.name:
        return _built(FactFile(str(folder / card.content.files[0]), None, options), card, folder, None)
    if is_fact_file(source) and places is not None:
        return _built(FactFile(source, None, options), card, folder, places)
    if source not in BENCHMARKS.builtin:
        raise BadData(f"'{folder / CARD}' names the benchmark '{card.content.benchmark}', which is none of Emend's.")
    elsewhere = Path(card.content.data) if card.content.data else None
    data = elsewhere if places is not None else folder
    inner = BENCHMARKS.load(source)(data, {**card.content.options, **options})
    return _built(inner, card, folder, places)


def _built(inner: Benchmark, card: CardHead, folder: Path, places: Sequence[int] | None) -> Benchmark:
    built: Any = BuiltBenchmark(inner, card, folder, places)
    return built  # type: ignore[no-any-return]


def _read_places(folder: Path) -> list[int]:
    try:
        with open_file(folder / PLACES) as file:
            return TypeAdapter(list[int]).validate_json(file.read())
    except (OSError, ValidationError) as error:
        reason = " ".join(str(error).split())[:200]
        raise BadData(f"'{folder / PLACES}' cannot be read ({reason}): repeat the emend build that made it.") from error
