"""Views of the pages of runs and of one run."""

from typing import Literal

from emend.evals.case import Metric
from emend.evals.results.aggregate.side_effects import AbilityRow, PerplexityRow
from emend.evals.show.view.views.page import Link, NamedValue, Status
from emend.memory.edit import FrozenModel

State = Literal["running", "finished", "stopped"]
"""Of a run: a process works in it, every unit is finished or failed, or neither."""


class RunEntry(FrozenModel):
    """A run in short; counts of records and tokens are None until they are known, `cost` where prices are unknown."""

    id: str
    name: str
    folder: str
    href: str
    benchmark: str
    model: str
    editors: tuple[str, ...]
    mode: str
    started: str
    state: State
    units: int
    finished: int
    failed: int
    records: int | None = None
    unscored: int | None = None
    tokens: int | None = None
    cost: float | None = None


class RunsView(FrozenModel):
    """All runs below the viewer's folders."""

    runs: tuple[RunEntry, ...]
    folders: tuple[str, ...]
    problems: tuple[str, ...] = ()


class CellView(FrozenModel):
    """An estimate: as text, and as numbers in the metric's unit.

    `mark` is `best` where the interval is apart from that of every other row, `tied` where it overlaps the best one's.
    """

    text: str
    interval: str = ""
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    unscored: int = 0
    as_wrong: float | None = None
    """The mean with probes that the model did not answer as wrong ones, where it differs; by it cells are ranked."""
    remarks: tuple[str, ...] = ()
    mark: Literal["best", "tied", ""] = ""
    href: str = ""


class GridMetric(FrozenModel):
    """A column of a grid: a metric, the number of observations, its protocol, the judge, and the ends of an axis."""

    metric: Metric
    name: str
    """The metric's, without that of its protocol."""
    count: str
    protocol: str
    judge: str
    axis: tuple[float, float]


class GridRow(FrozenModel):
    """A row of a grid: its names, one for each heading, and a cell or None for each metric."""

    names: tuple[str, ...]
    cells: tuple[CellView | None, ...]


class MetricGrid(FrozenModel):
    """A table of editors by metrics."""

    title: str
    anchor: str
    headings: tuple[str, ...]
    metrics: tuple[GridMetric, ...]
    rows: tuple[GridRow, ...]


class CurvePoint(FrozenModel):
    """A metric after `standing` edits, beside the score of the same cases right after their own edits."""

    standing: int
    cell: CellView
    first: CellView


class Curve(FrozenModel):
    """A metric of an editor over the checkpoints of a sequence of edits."""

    setting: str
    mode: str
    editor: str
    metric: str
    unit: str
    points: tuple[CurvePoint, ...]
    axis: tuple[float, float]


class PerplexityView(FrozenModel):
    """Perplexity of held-out texts under an editor's edits, and before any."""

    row: PerplexityRow
    cell: CellView
    before: CellView


class AbilityView(FrozenModel):
    """A task's score under an editor's edits, before any, and the difference."""

    row: AbilityRow
    cell: CellView
    before: CellView
    change: CellView


class RunView(FrozenModel):
    """A run: its metrics, costs, checkpoints and notes, and what it was run with."""

    run: RunEntry
    status: Status
    tables: tuple[MetricGrid, ...] = ()
    costs: tuple[MetricGrid, ...] = ()
    forgetting: tuple[Curve, ...] = ()
    perplexity: tuple[PerplexityView, ...] = ()
    ability: tuple[AbilityView, ...] = ()
    spent: tuple[NamedValue, ...] = ()
    reasons: tuple[NamedValue, ...] = ()
    notes: tuple[str, ...] = ()
    settings: tuple[NamedValue, ...] = ()
    provenance: tuple[NamedValue, ...] = ()
    versions: tuple[NamedValue, ...] = ()
    run_config: str = ""
    cases: int = 0
    cut: int = 0
    missing: int = 0
    compare: tuple[Link, ...] = ()
