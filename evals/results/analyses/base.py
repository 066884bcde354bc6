"""Shared types of the analyses: the values that they collect, and their results."""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from emend.evals.case import Record
from emend.evals.judging.judged_run import Run
from emend.evals.metrics.estimate import Estimate, estimate
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings


class Lacking(BadSettings):
    """Raised when a run lacks what an analysis needs; the message says how to get it."""


class PanelPlace(FrozenModel):
    """Position of a number in a plot: panel, axis label and series, such as the editor."""

    panel: str
    label: str
    series: str


class AnalysisRow(Estimate, PanelPlace):
    """A number of an analysis, with n, unscored and the 95% interval."""

    x: float | None = None
    """Position on a numeric axis."""


class ReferenceLine(FrozenModel):
    """A level drawn for comparison, such as the score of a constant answer."""

    panel: str
    label: str
    value: float


class Dot(FrozenModel):
    """A record in a scatter plot; `marked` records are highlighted."""

    panel: str
    x: float
    y: float
    marked: bool


class PlotStyle(FrozenModel):
    """Form of a plot: `bars`, `curve` (over `AnalysisRow.x`), `scatter` (of dots) or `plane`.

    A plane plots the rows of one panel against those of another; `axes` names both panels. `limits`
    is the range of the value axis; None chooses it from the numbers.
    """

    form: str = "bars"
    x: str = ""
    y: str = ""
    limits: tuple[float, float] | None = None
    axes: tuple[str, str] = ("", "")
    alike: bool = True
    """True if all panels share one value axis."""
    log: bool = False
    """True if the numeric axis of a curve is logarithmic."""


class Analysis(FrozenModel):
    """A finished analysis: rows of the table, contents of the plot, and notes on reading them."""

    kind: str = ""
    """Name of the analysis, set by `analyse_runs`."""
    title: str
    unit: str
    rows: tuple[AnalysisRow, ...]
    picture: PlotStyle
    lines: tuple[ReferenceLine, ...] = ()
    dots: tuple[Dot, ...] = ()
    notes: tuple[str, ...] = ()
    series: str = "editor"
    """Meaning of a row's series."""


@dataclass(frozen=True)
class AnalysisRequest:
    """Options of an analysis: files of extracted triplets, and a metric."""

    triples: tuple[str, ...] = ()
    metric: str = ""
    embedding: str = "auto"


@dataclass(frozen=True)
class AnalysisKind:
    """An analysis with the benchmarks that it applies to (all if empty), requirements and function.

    `lacks` returns what an inventory is missing, with the remedy; "" if the analysis is possible.
    """

    benchmarks: tuple[str, ...]
    lacks: "Callable[[Inventory], str]"
    compute: Callable[[Sequence[Run], AnalysisRequest], Analysis]


@dataclass(frozen=True)
class Inventory:
    """Contents of a run: (kind, output) pairs with a number in at least one record."""

    run: Run
    outputs: frozenset[tuple[str, str]]

    def has(self, outputs: Iterable[str], kinds: Iterable[str] = ()) -> bool:
        """Return True if one of the outputs has values for one of the kinds, or for any kind."""
        sought, among = set(outputs), set(kinds)
        return any(
            output in sought and (not among or kind in among) for kind, output in self.outputs
        )


def inventory(run: Run) -> Inventory:
    """Return the inventory of a run, in one pass over its records."""
    records = run.fields(("kind", "values"))
    return Inventory(
        run, frozenset((record.kind, name) for record in records for name in record.values)
    )


def needs(
    remedy: str, outputs: Iterable[str], kinds: Iterable[str] = ()
) -> Callable[[Inventory], str]:
    """Return a requirement: a value of one of the outputs, for one of the kinds or any kind."""
    return lambda inventory: "" if inventory.has(outputs, kinds) else remedy


# Fields of a record that every analysis reads.
SCORED = ("case", "probe", "kind", "editor", "setting", "values", "unscored")


def records_of(
    runs: Sequence[Run], kinds: Collection[str] = (), fields: Sequence[str] = ()
) -> Iterator[tuple[Run, Record]]:
    """Yield the records of all runs, or those of the given kinds of probe, each with its run.

    Only `SCORED` and the given fields are read.
    """
    return ((run, record) for run in runs for record in run.fields((*SCORED, *fields), kinds))


class Bins:
    """Values and their cases by panel, label and series, in the order of their first occurrence.

    A panel's name contains the run's name if several runs are analysed together. `remedy` tells how
    to get values if there are none.
    """

    def __init__(self, runs: Sequence[Run], remedy: str = "") -> None:
        self.runs, self.remedy = runs, remedy
        self._found: dict[tuple[str, str, str], tuple[list[float | None], list[Hashable]]] = {}
        self._x: dict[tuple[str, str, str], float] = {}

    def add(
        self,
        run: Run,
        panel: str,
        label: str,
        record: Record,
        value: float | None,
        case: Hashable = None,
        x: float | None = None,
    ) -> None:
        """Add a value of the record's editor; None counts as unscored."""
        key = panel_name(run, self.runs, panel), label, record.editor
        values, cases = self._found.setdefault(key, ([], []))
        values.append(value)
        cases.append(record.case if case is None else case)
        if x is not None:
            self._x[key] = x

    def take(
        self, run: Run, panel: str, label: str, record: Record, output: str, case: Hashable = None
    ) -> None:
        """Add a record's output; a record without a value or reason for this output is skipped."""
        if output in record.values or output in record.unscored:
            self.add(run, panel, label, record, record.values.get(output), case)

    def rows(
        self, labels: Sequence[str] = (), scale: float = 100.0, counts: Collection[str] = ()
    ) -> tuple[AnalysisRow, ...]:
        """Return rows with estimates, ordered by panel, then by label and series.

        Args:
            labels: labels that come first, in this order.
            scale: factor of shares.
            counts: labels whose values are not shares.

        Raises:
            Lacking: no value was added.
        """
        if not self._found:
            raise Lacking(self.remedy)
        rows = []
        for key, columns in self._found.items():
            if key[1] in counts:
                value = estimate(*columns, share=False)
            else:
                value = estimate(*columns).scaled(scale)
            rows.append(row_of(key, value, self._x.get(key)))
        return ordered(rows, labels)

    def scored_rows(self, labels: Sequence[str] = ()) -> tuple[AnalysisRow, ...]:
        """Return the rows, like `rows`, but require a number.

        Raises:
            Lacking: no row has a number.
        """
        rows = self.rows(labels)
        if not any(row.n for row in rows):
            raise Lacking(self.remedy)
        return rows


def first_value(record: Record, outputs: Iterable[str]) -> float | None:
    """Return the record's value of the first of these outputs that it has."""
    return next((record.values[name] for name in outputs if name in record.values), None)


def row_of(key: tuple[str, str, str], value: Estimate, x: float | None = None) -> AnalysisRow:
    """Return the row of an estimate."""
    panel, label, series = key
    return AnalysisRow(panel=panel, label=label, series=series, x=x, **value.model_dump())


def ordered(rows: Iterable[AnalysisRow], labels: Sequence[str] = ()) -> tuple[AnalysisRow, ...]:
    """Return rows ordered by panel, label and series.

    Panels and series keep the order of their first occurrence; the given labels come before others.
    """
    unordered = list(rows)
    panels = _ranks(row.panel for row in unordered)
    names = _ranks((*labels, *(row.label for row in unordered)))
    series = _ranks(row.series for row in unordered)
    return tuple(
        sorted(unordered, key=lambda row: (panels[row.panel], names[row.label], series[row.series]))
    )


def _ranks(names: Iterable[str]) -> dict[str, int]:
    """Return the rank of each name by where it comes first."""
    return {name: rank for rank, name in enumerate(dict.fromkeys(names))}


def panel_name(run: Run, runs: Sequence[Run], text: str = "") -> str:
    """Return a panel's name: the text, preceded by the run if several are analysed together."""
    names = []
    if len(runs) > 1:
        names.append(run.name)
    if text:
        names.append(text)
    return ", ".join(names or [run.benchmark])
