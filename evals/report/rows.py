"""From a run's records to the rows of its report, holding only the scored numbers in memory."""

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from emend.evals.case import Metric, Record
from emend.evals.manifest import Manifest
from emend.evals.metrics.estimate import Estimate, estimate
from emend.evals.records import ERRORS, read_lines, read_records
from emend.memory.edit import Word

REASONS = 200
"""So many different reasons are told apart; the rest count as one."""


class Row(Word):
    """One metric of one editor: its mean in the metric's own units, with a 95 % interval."""

    editor: str
    setting: str
    mode: str
    metric: str
    mean: float | None
    n: int
    unscored: int
    low: float | None
    high: float | None


class Report(Word):
    """The rows of a run, and what a reader must know beside them."""

    benchmark: str
    model: str
    rows: tuple[Row, ...]
    metrics: tuple[Metric, ...]
    records: int
    cases: int
    cut: int
    """Records whose prompt did not fit the model's window."""
    failed: int
    """Units that failed and were not finished since."""
    missing: int
    """Units that were neither finished nor failed."""
    reasons: dict[str, int]
    """Why something is unscored, and in how many records."""


class _Column:
    """The numbers of one output over the records of one kind, and the case of each."""

    def __init__(self) -> None:
        self.values, self.cases, self.unscored = array("d"), array("l"), 0


class _Place(NamedTuple):
    setting: str
    mode: str
    editor: str


class Gathered:
    """What is kept of the records while they stream by."""

    def __init__(self) -> None:
        self.places: dict[_Place, dict[tuple[str, str], _Column]] = {}
        self.cases: dict[str, int] = {}
        self.units: set[str] = set()
        self.reasons: Counter[str] = Counter()
        self.records = self.cut = 0

    def add(self, record: Record) -> None:
        """Take one record in."""
        columns = self.places.setdefault(_Place(record.setting, record.mode, record.editor), {})
        case = self.cases.setdefault(record.case, len(self.cases))
        for name, value in record.values.items():
            column = columns.setdefault((name, record.kind), _Column())
            column.values.append(value)
            column.cases.append(case)
        for name in record.unscored:
            columns.setdefault((name, record.kind), _Column()).unscored += 1
        for reason in set(record.unscored.values()):
            known = reason in self.reasons or len(self.reasons) < REASONS
            self.reasons[reason if known else "other reasons"] += 1
        self.units.add(record.unit)
        self.records += 1
        self.cut += record.cut_tokens > 0


def gather(records: Iterable[Record]) -> Gathered:
    """Stream through the records."""
    gathered = Gathered()
    for record in records:
        gathered.add(record)
    return gathered


def rows_of(gathered: Gathered, metrics: Sequence[Metric], editors: Sequence[str]) -> list[Row]:
    """One row per place and metric that has something to show; editors in the order of the run."""
    order = {name: place for place, name in enumerate(editors)}
    places = sorted(gathered.places, key=lambda p: (p.setting, p.mode, order.get(p.editor, len(order))))
    found = [(place, metric, _estimate(gathered.places[place], metric)) for place in places for metric in metrics]
    return [
        Row(
            editor=place.editor,
            setting=place.setting,
            mode=place.mode,
            metric=metric.name,
            mean=value.mean,
            n=value.n,
            unscored=value.unscored,
            low=value.low,
            high=value.high,
        )
        for place, metric, value in found
        if value.n or value.unscored
    ]


def _estimate(columns: dict[tuple[str, str], _Column], metric: Metric) -> Estimate:
    """The metric over its kinds; all kinds where it names none."""
    chosen = [
        column
        for (name, kind), column in columns.items()
        if name == metric.value and (kind in metric.kinds or not metric.kinds)
    ]
    values = [value for column in chosen for value in column.values]
    cases = [case for column in chosen for case in column.cases]
    unscored = sum(column.unscored for column in chosen)
    return estimate(values, cases, per=metric.per).scaled(metric.scale).model_copy(update={"unscored": unscored})


def report(folder: Path) -> Report:
    """The report of a run folder, finished or not.

    Raises:
        BadData: no run there, or a damaged line.
    """
    manifest = Manifest.read(folder)
    gathered = gather(read_records(folder))
    failed = {str(line.get("unit")) for line in read_lines(folder, ERRORS)} - gathered.units
    return Report(
        benchmark=manifest.config.benchmark,
        model=manifest.config.model,
        rows=tuple(rows_of(gathered, manifest.metrics, manifest.config.editors)),
        metrics=manifest.metrics,
        records=gathered.records,
        cases=len(gathered.cases),
        cut=gathered.cut,
        failed=len(failed),
        missing=max(0, manifest.units - len(gathered.units) - len(failed)),
        reasons=dict(gathered.reasons.most_common()),
    )
