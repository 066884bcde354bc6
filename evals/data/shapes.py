"""The files of each benchmark as its loader reads them: row model, key of a record, options."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from emend.evals.benchmarks.rows import BenchmarkRow

Key = Callable[[Any], tuple[str, object]]


class Shape(NamedTuple):
    """File of a benchmark: its possible names, in the order in which the loader looks for them, and how it is read."""

    names: tuple[str, ...]
    row: type[BenchmarkRow]
    key: Key | None
    """Returns the field of a row that must be unique, and its value."""
    options: Mapping[str, str]
    """The options with which the benchmark reads this file."""
    beside: tuple[str, ...] = ()
    """Other files that it reads with these options, each with a shape of its own."""

    def find(self, folder: Path) -> str | None:
        """Return the file's name in the folder, None if it is absent."""
        return next((name for name in self.names if (folder / name).is_file()), None)


def shapes_of(data: str) -> list[Shape]:
    """The files of a benchmark of `sources.SOURCES`."""
    return list(SHAPES[data]())


def _akew() -> Iterator[Shape]:
    from emend.evals.benchmarks.akew.benchmark import FILES

    for dataset, (row, names) in FILES.items():
        yield Shape(names, row, _case_id, {"dataset": dataset})


def _docter() -> Iterator[Shape]:
    from emend.evals.benchmarks.docter.benchmark import DIRECTIONS, ROWS

    for name, row in ROWS.items():
        crossed = next((block for block, (_, *files) in DIRECTIONS.items() if name in files), "")
        yield Shape((name,), row, lambda row: ("id", row.id), {"blocks": crossed} if crossed else {})


def _elken() -> Iterator[Shape]:
    from emend.evals.benchmarks.elken.benchmark import KNOWLEDGE, KNOWLEDGE_FILES
    from emend.evals.benchmarks.elken.cases import BLOCKS
    from emend.evals.benchmarks.elken.rows import EventRow, KnowledgeQuestion

    # The test split looks for its events in the other one, and the knowledge questions follow its cases.
    for split, beside in (("test", ("train.json",)), ("train", ())):
        options = {"split": split, "blocks": ",".join(BLOCKS)}
        yield Shape((f"{split}.json",), EventRow, lambda row: ("event", row.event), options, beside)
    splits = ("test.json", "train.json")
    yield Shape(KNOWLEDGE_FILES, KnowledgeQuestion, None, {"blocks": KNOWLEDGE}, splits)


def _recoe() -> Iterator[Shape]:
    from emend.evals.benchmarks.recoe.benchmark import AWSLABS
    from emend.evals.benchmarks.recoe.rows import ROWS

    for scheme, row in ROWS.items():
        yield Shape((f"{scheme}.json", AWSLABS.format(scheme=scheme)), row, None, {"schemes": scheme})


def _mquake() -> Iterator[Shape]:
    from emend.evals.benchmarks.mquake.benchmark import DATASETS
    from emend.evals.benchmarks.mquake.rows import ChainRow

    for dataset, names in DATASETS.items():
        yield Shape(names, ChainRow, _case_id, {"dataset": dataset})


def _counterfact() -> Iterator[Shape]:
    from emend.evals.benchmarks.counterfact.benchmark import DATASETS, ORIGINAL
    from emend.evals.benchmarks.counterfact.rows import FlatRow, OriginalRow

    for dataset, names in DATASETS.items():
        yield Shape(names, OriginalRow if dataset in ORIGINAL else FlatRow, _case_id, {"dataset": dataset})


def _case_id(row: Any) -> tuple[str, object]:
    return "case_id", row.id


SHAPES: dict[str, Callable[[], Iterator[Shape]]] = {
    "akew": _akew,
    "docter": _docter,
    "elken": _elken,
    "recoe": _recoe,
    "mquake": _mquake,
    "counterfact": _counterfact,
}
