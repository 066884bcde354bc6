"""Registry of benchmarks by name, and benchmarks in folders made by `emend build`."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from emend.evals.case import Benchmark, Case
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData, BadSettings
from emend.memory.files import read_file
from emend.memory.registry import Registry

T = TypeVar("T")
# Class of a benchmark, called with the data folder (None for the default one) and the options.
BenchmarkFactory = Callable[[Path | None, dict[str, str]], Benchmark]
BENCHMARKS: Registry[BenchmarkFactory] = Registry(
    kind="benchmark",
    group="emend.benchmarks",
    interfaces=(("cases", "metrics"),),
    beside=__file__,
)
# File names of the card, and of the positions (from 0) of the cases chosen from another benchmark.
CARD, PLACES = "card.json", "cases.json"


class BenchmarkFiles(FrozenModel):
    """Files of a built benchmark, the benchmark that reads them, and its options."""

    benchmark: str
    options: dict[str, str] = {}
    files: tuple[str, ...]
    cases: int = 0
    """Number of cases from which some were chosen; 0 if the folder has its own files."""


class CardHead(BaseModel):
    """Part of a card that is needed to read its folder as a benchmark."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    kind: str
    recipe: str
    status: str
    content: BenchmarkFiles


class BuiltBenchmark:
    """Benchmark that reads the files of a folder, with the provenance from the folder's card.

    `places` are the positions of the cases chosen from another benchmark; None for all cases.
    """

    def __init__(
        self, inner: Benchmark, card: CardHead, folder: Path, places: Sequence[int] | None
    ) -> None:
        self._inner, self._card, self._folder, self._places = inner, card, folder, places

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def cases(self, setting: str, limit: int | None = None, seed: int = 0) -> Iterator[Case]:
        """Return the cases of the files, or the chosen cases of another benchmark; with a limit, a
        seeded sample of these.

        Raises:
            BadData: the setting has a different number of cases than when the cases were chosen.
        """
        if self._places is None:
            return self._inner.cases(setting, limit, seed)
        count = sum(1 for _ in self._inner.cases(setting))
        if count != self._card.content.cases:
            raise BadData(
                f"'{self._folder}' was made from {self._card.content.cases} cases, but setting "
                f"'{setting}' has {count}: use the setting or the data that it was made from."
            )
        places = set(
            random.Random(seed).sample(self._places, min(len(self._places), limit or count))
        )
        return (case for place, case in enumerate(self._inner.cases(setting)) if place in places)

    @property
    def provenance(self) -> dict[str, Any]:
        """Provenance of the files, with kind, recipe and status of the folder as the source."""
        card, inner = self._card, self._inner.provenance
        state = (
            f"{self._folder}: built by emend build {card.kind}, recipe {card.recipe}, "
            f"{card.status}; see its card.md"
        )
        return {**inner, "source": state, "choices": [*inner.get("choices", ()), state]}


def is_built_folder(name: str) -> bool:
    """Return True for a folder made by `emend build`."""
    return (Path(name).expanduser() / CARD).is_file()


def read_card(folder: Path) -> CardHead:
    """Read the part of a folder's card that is needed to read the folder.

    Raises:
        BadData: the card cannot be read, or names a benchmark that is not Emend's or a file outside
            the folder.
    """
    # lazily: a list of benchmarks reads no file
    from emend.evals.data.facts.fact_file import FactFile

    card = _read(folder / CARD, TypeAdapter(CardHead))
    if card.content.benchmark not in (*BENCHMARKS.builtin, FactFile.name):
        raise BadData(
            f"'{folder / CARD}' names the benchmark '{card.content.benchmark}', which is unknown."
        )
    if outside := [name for name in card.content.files if Path(name).name != name]:
        raise BadData(
            f"'{folder / CARD}' names the file '{outside[0]}', which is not in the folder itself."
        )
    return card


def open_built(name: str, options: Mapping[str, str], data: Path | None = None) -> Benchmark:
    """Open the benchmark of a folder made by `emend build`; the given options override those of its
    card.

    Args:
        name: path of the folder.
        options: options of the benchmark that reads the folder.
        data: data folder of the benchmark from which cases were chosen; None for the default.

    Raises:
        BadSettings: a data folder is given, but the built folder contains the files.
        BadData: see `read_card`; or the positions of the cases cannot be read.
    """
    # lazily: a list of benchmarks reads no file
    from emend.evals.data.facts.fact_file import FactFile

    folder = Path(name).expanduser()
    card = read_card(folder)
    content, options = card.content, {**card.content.options, **options}
    places = read_places(folder) if PLACES in content.files else None
    files = [file for file in content.files if file != PLACES]
    if files and data is not None:
        raise BadSettings(
            f"--data cannot be used with '{name}', which contains its files: leave --data out."
        )
    if content.benchmark == FactFile.name:
        inner: Benchmark = FactFile(str(folder / "".join(files[:1])), None, options)
    else:
        inner = BENCHMARKS.load(content.benchmark)(folder if files else data, options)
    return cast(Benchmark, BuiltBenchmark(inner, card, folder, places))


def read_places(folder: Path) -> list[int]:
    """Read the positions of the chosen cases, counted from 0.

    Raises:
        BadData: the file is missing or damaged.
    """
    return _read(folder / PLACES, TypeAdapter(list[int]))


def _read(path: Path, adapter: TypeAdapter[T]) -> T:
    try:
        return adapter.validate_json(read_file(path))
    except (OSError, ValidationError) as error:
        reason = " ".join(str(error).split())[:200]
        raise BadData(
            f"'{path}' cannot be read ({reason}): repeat the emend build that made it."
        ) from error
