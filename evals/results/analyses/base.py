"""Shared types of the analyses: the values that they collect, and their results."""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from emend.evals.case import Record
from emend.evals.judging.judged_run import Run
from emend.evals.metrics.estimate import Estimate, estimate
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings


class Lacking(BadSettings):
    """Raised when a run has not what an analysis needs; says which option or command gives it."""


class PanelPlace(FrozenModel):
    """The place of a number: the table and the plot's field, its place on the axis, and the editor."""

    panel: str
    label: str
    series: str


class AnalysisRow(Estimate, PanelPlace):
    """A number of an analysis, with n, unscored and the 95 % interval."""

    x: float | None = None
    """The place on a numeric axis."""


class ReferenceLine(FrozenModel):
    """A level that is drawn in for comparison, such as what a constant answer scores."""

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
    """Form of the plot: `bars`, `curve` (over `AnalysisRow.x`), `scatter` of the dots, or `plane` (row against row).

    `limits` of the value axis; None leaves it to the numbers. In a plane the two axes are the panels named.
    """

    form: str = "bars"
    x: str = ""
    y: str = ""
    limits: tuple[float, float] | None = None
    axes: tuple[str, str] = ("", "")
    alike: bool = True
    """The panels have one value axis."""
    log: bool = False
    """A curve's numeric axis is logarithmic."""


class Analysis(FrozenModel):
    """A finished analysis: rows for the table, what the plot shows, and what must be known to read them."""

    kind: str = ""
    """Name of the analysis; `analyse_runs` gives it."""
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
    """An analysis: the benchmarks that it applies to (all when empty), its requirements, and its function.

    `lacks` says of an inventory why it cannot be made, with the remedy; "" when it can.
    """

    benchmarks: tuple[str, ...]
    lacks: "Callable[[Inventory], str]"
    compute: Callable[[Sequence[Run], AnalysisRequest], Analysis]


@dataclass(frozen=True)
class Inventory:
    """Contents of a run: settings, and (kind, output) pairs that have a number in at least one record."""

    run: Run
    outputs: frozenset[tuple[str, str]]

    def has(self, outputs: Iterable[str], kinds: Iterable[str] = ()) -> bool:
        """Return True if one of the outputs has values for one of the kinds, or for any kind."""
        sought, among = set(outputs), set(kinds)
        return any(output in sought and (not among or kind in among) for kind, output in self.outputs)


def inventory(run: Run) -> Inventory:
    """Go through the records once."""
    records = run.fields(("kind", "values"))
    return Inventory(run, frozenset((record.kind, name) for record in records for name in record.values))


def needs(remedy: str, outputs: Iterable[str], kinds: Iterable[str] = ()) -> Callable[[Inventory], str]:
    """Requirement of an analysis: one of the outputs, for one of the kinds of probe or for any."""
    return lambda inventory: "" if inventory.has(outputs, kinds) else remedy


SCORED = ("case", "probe", "kind", "editor", "setting", "values", "unscored")
"""Fields of a record that every analysis reads."""


def records_of(
    runs: Sequence[Run], kinds: Collection[str] = (), fields: Sequence[str] = ()
) -> Iterator[tuple[Run, Record]]:
    """Yield the records of all runs, or those of these kinds of probe, each with its run.

    They have the fields `SCORED`, and these.
    """
    return ((run, record) for run in runs for record in run.fields((*SCORED, *fields), kinds))


class Bins:
    """Values and their cases, by panel, label and series, in the order in which they first came.

    A panel has its run's name where several runs are analysed together; `remedy` says what gives values where none are.
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
        """Put a value of the record's editor; None is unscored."""
        key = panel_name(run, self.runs, panel), label, record.editor
        values, cases = self._found.setdefault(key, ([], []))
        values.append(value)
        cases.append(record.case if case is None else case)
        if x is not None:
            self._x[key] = x

    def take(self, run: Run, panel: str, label: str, record: Record, output: str, case: Hashable = None) -> None:
        """Put a record's output where the record was scored on it, or says why it is not."""
        if output in record.values or output in record.unscored:
            self.add(run, panel, label, record, record.values.get(output), case)

    def rows(
        self, labels: Sequence[str] = (), scale: float = 100.0, counts: Collection[str] = ()
    ) -> tuple[AnalysisRow, ...]:
        """Rows with estimates, panel by panel, those of the labels given first.

        Args:
            labels: their order.
            scale: of shares.
            counts: labels whose values are no shares.

        Raises:
            Lacking: nothing was put.
        """
        if not self._found:
            raise Lacking(self.remedy)
        estimates = (
            (key, estimate(*columns, share=False) if key[1] in counts else estimate(*columns).scaled(scale))
            for key, columns in self._found.items()
        )
        return ordered((row_of(key, value, self._x.get(key)) for key, value in estimates), labels)

    def scored_rows(self, labels: Sequence[str] = ()) -> tuple[AnalysisRow, ...]:
        """The rows.

        Raises:
            Lacking: none has a number.
        """
        rows = self.rows(labels)
        if not any(row.n for row in rows):
            raise Lacking(self.remedy)
        return rows


def first_value(record: Record, outputs: Iterable[str]) -> float | None:
    """The record's value of the first of these outputs that it has."""
    return next((record.values[name] for name in outputs if name in record.values), None)


def row_of(key: tuple[str, str, str], value: Estimate, x: float | None = None) -> AnalysisRow:
    """A row of an estimate."""
    panel, label, series = key
    return AnalysisRow(panel=panel, label=label, series=series, x=x, **value.model_dump())


def ordered(rows: Iterable[AnalysisRow], labels: Sequence[str] = ()) -> tuple[AnalysisRow, ...]:
    """Rows by panel and series as they came, and by the order of the labels given; other labels come after these."""
    unordered = list(rows)
    columns = [row.panel for row in unordered], [row.label for row in unordered], [row.series for row in unordered]
    panels, names, series = (
        {name: at for at, name in enumerate(dict.fromkeys((*first, *column)))}
        for first, column in zip(((), labels, ()), columns, strict=True)
    )
    return tuple(sorted(unordered, key=lambda row: (panels[row.panel], names[row.label], series[row.series])))


def panel_name(run: Run, runs: Sequence[Run], text: str = "") -> str:
    """A panel's name: the text, with the run before it where several are analysed together."""
    parts = [run.name] if len(runs) > 1 else []
    return ", ".join([*parts, text] if text else parts or [run.benchmark])
