"""The benchmarks by name (add one by a module and a line here, or by an entry point), and those that are folders."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from emend.evals.case import Benchmark, Case
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData, BadSettings
from emend.memory.files import open_file
from emend.memory.registry import Registry

T = TypeVar("T")
BenchmarkFactory = Callable[[Path | None, dict[str, str]], Benchmark]
"""Class of a benchmark, built from the data folder (None for the default one) and its options."""

_CLASSES = (
    ("TinyWorld", "counterfactual edits to the invented world of the embedded model; no data needed"),
    ("DocTER", "2,000 counterfactual documents: edit success, locality, reasoning, cross-lingual"),
    ("Akew", "new facts as sentence, paragraph or extracted triplets: editing and multi-hop accuracy"),
    ("ELKEN", "events: what they make true or unknown (facts) and what they make likelier (tendencies)"),
    ("ReCoE", "reasoning questions whose supporting facts are edited: six schemes, correct_flip"),
    ("MQuAKE", "multi-hop questions about chains of edited facts: edit-wise, instance-wise and multi-hop accuracy"),
    ("CounterFact", "counterfactual facts with paraphrases and neighbours: success and difference by likelihood"),
)

BENCHMARKS: Registry[BenchmarkFactory] = Registry(
    kind="benchmark",
    group="emend.benchmarks",
    interfaces=(("cases", "metrics"),),
    builtin={
        name.lower(): (f"emend.evals.data.benchmarks.{name.lower()}:{name}", summary) for name, summary in _CLASSES
    },
    unlisted={
        "stream": "emend.evals.stream.benchmark:Stream",
        "items": "emend.evals.build.items:Items",
        "knowledge": "emend.evals.build.items:Knowledge",
    },
)
CARD, PLACES = "card.json", "cases.json"
"""The card, and the places of the cases that were kept of another benchmark, from 0."""


class BenchmarkFiles(FrozenModel):
    """A benchmark by its files: which of Emend's benchmarks reads them, and with which options."""

    benchmark: str
    options: dict[str, str] = {}
    files: tuple[str, ...]
    cases: int = 0
    """Number of the cases of which some were chosen; 0 where none was."""


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
        """The cases of the files; of those that were chosen a seeded sample, where there is a limit.

        Raises:
            BadData: the setting has another number of cases than those among which they were chosen.
        """
        if self._places is None:
            return self._inner.cases(setting, limit, seed)
        count = sum(1 for _ in self._inner.cases(setting))
        if count != self._card.content.cases:
            raise BadData(
                f"'{self._folder}' was made of {self._card.content.cases} cases, and setting '{setting}' has {count}: "
                "take the setting or the data that it was made of."
            )
        places = set(random.Random(seed).sample(self._places, min(len(self._places), limit or count)))
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


def read_card(folder: Path) -> CardHead:
    """The part of a folder's card by which it is read.

    Raises:
        BadData: the card cannot be read, names no benchmark of Emend's, or a file that is not in the folder itself.
    """
    from emend.evals.data.benchmarks.fact_file import FactFile  # lazily: a list of benchmarks reads no file

    card = _read(folder / CARD, TypeAdapter(CardHead))
    if card.content.benchmark not in (*BENCHMARKS.builtin, FactFile.name):
        raise BadData(f"'{folder / CARD}' names the benchmark '{card.content.benchmark}', which is none of Emend's.")
    if outside := [name for name in card.content.files if Path(name).name != name]:
        raise BadData(f"'{folder / CARD}' names the file '{outside[0]}', which is not in the folder itself.")
    return card


def open_built(name: str, options: Mapping[str, str], data: Path | None = None) -> Benchmark:
    """The benchmark of a folder that `emend build` made; options given here come before those of its card.

    Args:
        name: the folder.
        options: of the benchmark that reads it.
        data: folder of the files of a benchmark of which cases were chosen; None for its usual one.

    Raises:
        BadSettings: a data folder, where the folder itself has the files.
        BadData: see `read_card`; or its places cannot be read.
    """
    from emend.evals.data.benchmarks.fact_file import FactFile  # lazily: a list of benchmarks reads no file

    folder = Path(name).expanduser()
    card = read_card(folder)
    content, options = card.content, {**card.content.options, **options}
    places = read_places(folder) if PLACES in content.files else None
    files = [file for file in content.files if file != PLACES]
    if files and data is not None:
        raise BadSettings(f"--data with '{name}', which has its files: leave --data out.")
    if content.benchmark == FactFile.name:
        inner: Benchmark = FactFile(str(folder / "".join(files[:1])), None, options)
    else:
        inner = BENCHMARKS.load(content.benchmark)(folder if files else data, options)
    return cast(Benchmark, BuiltBenchmark(inner, card, folder, places))


def read_places(folder: Path) -> list[int]:
    """Places of the chosen cases, from 0.

    Raises:
        BadData: the file is missing or damaged.
    """
    return _read(folder / PLACES, TypeAdapter(list[int]))


def _read(path: Path, adapter: TypeAdapter[T]) -> T:
    try:
        with open_file(path) as file:
            return adapter.validate_json(file.read())
    except (OSError, ValidationError) as error:
        reason = " ".join(str(error).split())[:200]
        raise BadData(f"'{path}' cannot be read ({reason}): repeat the emend build that made it.") from error
