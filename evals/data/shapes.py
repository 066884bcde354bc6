"""The files of each benchmark as its loader reads them: row, conversion to cases, what identifies a record."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from emend.evals.benchmarks.files import Row
from emend.evals.case import Case

Convert = Callable[[Any], object]
Key = Callable[[Any], tuple[str, object]]


class Shape(NamedTuple):
    """One file: the names that it may have, in the order in which the loader looks, and how it is read."""

    names: tuple[str, ...]
    row: type[Row]
    convert: Convert
    """Of a row, to what the loader makes of it; raises what the loader raises."""
    key: Key | None
    """Of a row, the field that must be there once, and its value."""
    options: Mapping[str, str]
    """Those with which the benchmark reads this file."""
    beside: tuple[str, ...] = ()
    """Other files that it reads with these options, each of which has a shape of its own."""

    def find(self, folder: Path) -> str | None:
        """The file's name in the folder, None if it is not there."""
        return next((name for name in self.names if (folder / name).is_file()), None)


def shapes_of(data: str) -> list[Shape]:
    """The files of a benchmark of `sources.SOURCES`."""
    return list(SHAPES[data]())


def _akew() -> Iterator[Shape]:
    from emend.evals.benchmarks.akew import benchmark as akew
    from emend.evals.benchmarks.akew import cases as akew_cases

    def convert(row: Any) -> list[Case]:
        standing = akew_cases.standing_together([row])
        return [akew_cases.case_of(row, setting, "cloze", standing) for setting in akew.Akew.settings]

    for dataset, (row, names) in akew.FILES.items():
        yield Shape(names, row, convert, _case_id, {"dataset": dataset})


def _docter() -> Iterator[Shape]:
    from emend.evals.benchmarks.docter import benchmark as docter
    from emend.evals.benchmarks.docter import rows as docter_rows

    converts: dict[type[Row], Convert] = {
        docter_rows.DocumentRow: docter_rows.document_edit,
        docter_rows.FactRow: docter_rows.triplet_edit,
    }
    for name, row in docter.ROWS.items():
        crossed = next((block for block, (_, *files) in docter.DIRECTIONS.items() if name in files), "")
        options = {"blocks": crossed} if crossed else {}
        yield Shape((name,), row, converts.get(row, _nothing), lambda row: ("id", row.id), options)


def _elken() -> Iterator[Shape]:
    from emend.evals.benchmarks.elken import knowledge as elken_knowledge
    from emend.evals.benchmarks.elken import rows as elken_rows

    # The test split looks for its events in the other one, and the knowledge questions come after its cases.
    for split, beside in (("test", ("train.json",)), ("train", ())):
        options = {"split": split, "blocks": ",".join(elken_rows.BLOCKS)}
        yield Shape((f"{split}.json",), elken_rows.EventRow, elken_rows.event_case, _event, options, beside)
    yield Shape(
        elken_knowledge.FILES,
        elken_knowledge.KnowledgeQuestion,
        elken_knowledge.knowledge_case,
        None,
        {"blocks": elken_knowledge.KNOWLEDGE},
        ("test.json", "train.json"),
    )


def _recoe() -> Iterator[Shape]:
    from emend.evals.benchmarks.recoe import benchmark as recoe
    from emend.evals.benchmarks.recoe import rows as recoe_rows

    def convert(row: Any) -> object:
        return [recoe_rows.edits_of(row, setting) for setting in recoe.ReCoE.settings]

    for scheme, row in recoe_rows.ROWS.items():
        names = (f"{scheme}.json", recoe.AWSLABS.format(scheme=scheme))
        yield Shape(names, row, convert, None, {"schemes": scheme})


def _mquake() -> Iterator[Shape]:
    from emend.evals.benchmarks.mquake import benchmark as mquake
    from emend.evals.benchmarks.mquake import rows as mquake_rows

    for dataset, names in mquake.DATASETS.items():
        yield Shape(names, mquake_rows.ChainRow, mquake_rows.chain_case, _case_id, {"dataset": dataset})


def _counterfact() -> Iterator[Shape]:
    from emend.evals.benchmarks.counterfact import benchmark as counterfact
    from emend.evals.benchmarks.counterfact import rows as counterfact_rows

    def original(row: Any) -> Case:
        return counterfact_rows.fact_case(counterfact_rows.original_fact(row), "triplet")

    def flat(row: Any) -> Case:
        return counterfact_rows.fact_case(counterfact_rows.flat_fact(row), "triplet")

    for dataset, names in counterfact.DATASETS.items():
        told = {"dataset": dataset}
        if dataset in ("original", "multi"):
            yield Shape(names, counterfact_rows.OriginalRow, original, _case_id, told)
        else:
            yield Shape(names, counterfact_rows.FlatRow, flat, _case_id, told)


def _case_id(row: Any) -> tuple[str, object]:
    return "case_id", row.id


def _event(row: Any) -> tuple[str, object]:
    return "event", row.event


def _nothing(row: Any) -> object:
    return row


SHAPES: dict[str, Callable[[], Iterator[Shape]]] = {
    "akew": _akew,
    "docter": _docter,
    "elken": _elken,
    "recoe": _recoe,
    "mquake": _mquake,
    "counterfact": _counterfact,
}
