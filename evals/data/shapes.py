"""The files of each benchmark as its loader reads them: row model, conversion to cases, key of a record."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from emend.evals.benchmarks.rows import BenchmarkRow
from emend.evals.case import Case

Convert = Callable[[Any], object]
Key = Callable[[Any], tuple[str, object]]


class Shape(NamedTuple):
    """One file: its possible names, in the order in which the loader looks for them, and how it is read."""

    names: tuple[str, ...]
    row: type[BenchmarkRow]
    convert: Convert
    """Converts a row as the loader does, with the same errors."""
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
    from emend.evals.benchmarks.akew.benchmark import FILES, Akew
    from emend.evals.benchmarks.akew.cases import case_of, interference

    def convert(row: Any) -> list[Case]:
        return [case_of(row, setting, "cloze", interference([row])) for setting in Akew.settings]

    for dataset, (row, names) in FILES.items():
        yield Shape(names, row, convert, _case_id, {"dataset": dataset})


def _docter() -> Iterator[Shape]:
    from emend.evals.benchmarks.docter.benchmark import DIRECTIONS, ROWS

    for name, row in ROWS.items():
        crossed = next((block for block, (_, *files) in DIRECTIONS.items() if name in files), "")
        yield Shape((name,), row, _unchanged, lambda row: ("id", row.id), {"blocks": crossed} if crossed else {})


def _elken() -> Iterator[Shape]:
    from emend.evals.benchmarks.elken.benchmark import KNOWLEDGE, KNOWLEDGE_FILES
    from emend.evals.benchmarks.elken.cases import BLOCKS, event_case, knowledge_case
    from emend.evals.benchmarks.elken.rows import EventRow, KnowledgeQuestion

    # The test split looks for its events in the other one, and the knowledge questions follow its cases.
    for split, beside in (("test", ("train.json",)), ("train", ())):
        options = {"split": split, "blocks": ",".join(BLOCKS)}
        yield Shape((f"{split}.json",), EventRow, event_case, lambda row: ("event", row.event), options, beside)
    splits = ("test.json", "train.json")
    yield Shape(KNOWLEDGE_FILES, KnowledgeQuestion, knowledge_case, None, {"blocks": KNOWLEDGE}, splits)


def _recoe() -> Iterator[Shape]:
    from emend.evals.benchmarks.recoe.benchmark import AWSLABS, ReCoE
    from emend.evals.benchmarks.recoe.rows import ROWS, edits_of

    def convert(row: Any) -> object:
        return [edits_of(row, setting) for setting in ReCoE.settings]

    for scheme, row in ROWS.items():
        yield Shape((f"{scheme}.json", AWSLABS.format(scheme=scheme)), row, convert, None, {"schemes": scheme})


def _mquake() -> Iterator[Shape]:
    from emend.evals.benchmarks.mquake.benchmark import DATASETS
    from emend.evals.benchmarks.mquake.cases import chain_case
    from emend.evals.benchmarks.mquake.rows import ChainRow

    for dataset, names in DATASETS.items():
        yield Shape(names, ChainRow, chain_case, _case_id, {"dataset": dataset})


def _counterfact() -> Iterator[Shape]:
    from emend.evals.benchmarks.counterfact.benchmark import DATASETS, ORIGINAL
    from emend.evals.benchmarks.counterfact.cases import fact_case
    from emend.evals.benchmarks.counterfact.rows import FlatRow, OriginalRow

    def convert(row: Any) -> Case:
        return fact_case(row.fact, "triplet")

    for dataset, names in DATASETS.items():
        model = OriginalRow if dataset in ORIGINAL else FlatRow
        yield Shape(names, model, convert, _case_id, {"dataset": dataset})


def _case_id(row: Any) -> tuple[str, object]:
    return "case_id", row.id


def _unchanged(row: Any) -> object:
    return row


SHAPES: dict[str, Callable[[], Iterator[Shape]]] = {
    "akew": _akew,
    "docter": _docter,
    "elken": _elken,
    "recoe": _recoe,
    "mquake": _mquake,
    "counterfact": _counterfact,
}
