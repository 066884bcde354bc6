"""Benchmarks that `emend build` made: a folder with a card that names the benchmark which reads its files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from emend.evals.case import Benchmark
from emend.evals.data.benchmarks.registry import BENCHMARKS
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData
from emend.memory.files import open_file

CARD = "card.json"
DRAFT = "draft"


class BenchmarkFiles(FrozenModel):
    """A benchmark by its files: which of Emend's benchmarks reads them, and with which options."""

    benchmark: str
    options: dict[str, str] = {}
    files: tuple[str, ...]


class CardHead(BaseModel):
    """The part of a card by which its folder is read as a benchmark."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    kind: str
    recipe: str
    status: str
    content: BenchmarkFiles


class BuiltBenchmark:
    """The benchmark that reads the files of a folder, under the provenance of the folder's card."""

    def __init__(self, inner: Benchmark, card: CardHead, folder: Path) -> None:
        self._inner, self._card, self._folder = inner, card, folder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

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
    if card.content.benchmark not in BENCHMARKS.builtin:
        raise BadData(f"'{folder / CARD}' names the benchmark '{card.content.benchmark}', which is none of Emend's.")
    inner = BENCHMARKS.load(card.content.benchmark)(folder, {**card.content.options, **options})
    built: Any = BuiltBenchmark(inner, card, folder)
    return built  # type: ignore[no-any-return]
