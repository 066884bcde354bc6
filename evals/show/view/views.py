"""Views, the data of the viewer's pages: frozen, filled by `emend.evals.show.view.pages` and laid out by the templates.

Links are paths from the viewer's root without a leading slash, so that one scheme serves the server and the export.
"""

from dataclasses import dataclass
from typing import Any, Literal

from emend.evals.case import Metric, Record
from emend.evals.results.aggregate.costs import AbilityRow, PerplexityRow
from emend.evals.show.trace.case_trace import JudgedItem
from emend.memory.edit import FrozenModel


class Link(FrozenModel):
    """A text and the page that it leads to; `current` in the row of a run's pages for the one that is shown."""

    text: str
    href: str
    current: bool = False


class NamedValue(FrozenModel):
    """A name and a value, as text."""

    name: str
    value: str
    href: str = ""


class Choice(FrozenModel):
    """A value of a filter; `count` is the number of answers that have it, where that is known."""

    value: str
    text: str
    count: int | None = None
    chosen: bool = False


class PageHead(FrozenModel):
    """Head of every page: its template's name, title, way back, the run's pages, and the command with its numbers.

    `root` leads from the page to the viewer's root; `refresh` is the number of seconds after which a page that waits
    for a computation is to be loaded again, or 0; `left_out` says what an export's page lacks.
    """

    name: str
    title: str
    root: str = ""
    static: bool = False
    crumbs: tuple[Link, ...] = ()
    tabs: tuple[Link, ...] = ()
    command: str = ""
    refresh: int = 0
    version: str = ""
    left_out: str = ""


class Status(FrozenModel):
    """How far the numbers of a page are: they are of `records` records."""

    state: Literal["ready", "computing", "failed"] = "ready"
    text: str = ""
    records: int = 0


class AboutView(FrozenModel):
    """Versions and folders."""

    versions: tuple[NamedValue, ...]
    folders: tuple[str, ...]


class ProblemView(FrozenModel):
    """Why there is no page."""

    text: str


@dataclass
class Page:
    """A page before it is rendered: what every page has, the view of this one, and the HTTP status."""

    head: PageHead
    data: Any
    status: int = 200


class AnswerView(FrozenModel):
    """An answer with its verdict and the score that decides it, on the page `case` of the case with that number."""

    record: Record
    verdict: str
    score: str
    number: int
    case: str
    anchor: str

    @property
    def href(self) -> str:
        """Link to the answer on the page of its case."""
        return f"{self.case}#{self.anchor}"


class CaseFilter(FrozenModel):
    """Filter and order of a run's cases; all that is given must hold, and `after` is the key of the last page's end."""

    editor: str = ""
    kind: str = ""
    tag: str = ""
    verdict: str = ""
    text: str = ""
    where: str = ""
    errors: bool = False
    sort: str = ""
    after: str = ""


class Tally(FrozenModel):
    """The fitting answers of a case under one editor, and its units that failed."""

    editor: str
    right: int = 0
    wrong: int = 0
    unscored: int = 0
    failed: int = 0


class CaseRowView(FrozenModel):
    """A case in a list: its first edit, tallies by editor, and the first fitting answer."""

    number: int
    setting: str
    href: str
    title: str
    edits: int
    tallies: tuple[Tally, ...]
    example: AnswerView | None = None


class CasesView(FrozenModel):
    """The cases of a run that fit a filter; counts are None until they are known."""

    filter: CaseFilter
    choices: dict[str, tuple[Choice, ...]] = {}
    rows: tuple[CaseRowView, ...] = ()
    cases: int | None = None
    answers: int | None = None
    first: str = ""
    next: str = ""
    problem: str = ""


class EditView(FrozenModel):
    """An edit of a case."""

    id: str
    form: str
    text: str
    subject: str = ""
    target_new: str = ""
    target_true: str = ""


class HitView(FrozenModel):
    """A retrieved entry: its score, whether it is an edit of this case, and whether it was kept, by which node and why.

    An entry is kept if the last node that changed the entries left it there, or else if the prompt has its text.
    """

    place: int
    text: str
    score: float | None = None
    edit_id: str = ""
    of_case: bool = False
    decision: Literal["kept", "dropped", ""] = ""
    why: str = ""
    by: str = ""


class FieldView(FrozenModel):
    """A field of a node's state update; `grown` where only the new part of a longer value is shown."""

    name: str
    text: str
    grown: bool = False


class MessageView(FrozenModel):
    """A message of a call, with the tools that it calls and their arguments."""

    role: str
    text: str
    tools: tuple[NamedValue, ...] = ()


class CallView(FrozenModel):
    """A call to a model, without the texts that are the step's own prompt or reply, and the attempts before it."""

    messages: tuple[MessageView, ...]
    reply: MessageView | None
    finish: str
    cached: bool
    error: str
    retries: tuple[dict[str, Any], ...]


class StepView(FrozenModel):
    """A step of a graph: what the node retrieved, sent, received and wrote into the state.

    `start_ms` counts from the first step; `routed` says that a router chose the node; `repeats` that the update is that
    of an earlier step of the same node.
    """

    place: int
    node: str
    ms: float
    start_ms: float
    routed: bool
    repeats: bool
    about: str
    hits: tuple[HitView, ...] | None = None
    prompt: str | None = None
    reply: str | None = None
    fields: tuple[FieldView, ...] = ()
    calls: tuple[CallView, ...] = ()
    error: str = ""


class GraphNodeView(FrozenModel):
    """A node in the drawing of a graph, in a layer from the start on and a column of it."""

    id: str
    label: str
    layer: int
    column: int
    state: Literal["taken", "failed", ""] = ""


class GraphEdgeView(FrozenModel):
    """An edge in the drawing of a graph: dashed where a router chooses, thick where it was taken."""

    source: str
    target: str
    label: str
    walked: bool
    chosen: bool


class GraphView(FrozenModel):
    """A graph and the way that a probe took through it."""

    name: str
    nodes: tuple[GraphNodeView, ...]
    edges: tuple[GraphEdgeView, ...]
    layers: int
    columns: int


class JudgedView(FrozenModel):
    """A judgement of an answer, with the steps of the judge's graph."""

    item: JudgedItem
    steps: tuple[StepView, ...]


class ProbeView(AnswerView):
    """An answer under an editor, and all that led to it; a probe may go through the graph in several passes."""

    log_probs: str
    cost: str
    passes: tuple[tuple[StepView, ...], ...]
    graph: GraphView | None
    judged: tuple[JudgedView, ...]


class FailureView(FrozenModel):
    """A unit that failed and was not finished since, with the steps up to the failure."""

    editor: str
    setting: str
    error: str
    message: str
    at: str
    steps: tuple[StepView, ...]
    number: int = 0
    href: str = ""


class CaseView(FrozenModel):
    """A case: its edits, the answers to each of its questions, and its failures.

    `next_probes` leads to the other questions of very many.
    """

    setting: str
    tags: tuple[NamedValue, ...]
    edits: tuple[EditView, ...]
    questions: tuple[tuple[ProbeView, ...], ...]
    failures: tuple[FailureView, ...]
    previous: str = ""
    next: str = ""
    next_probes: str = ""

    @property
    def editors(self) -> tuple[str, ...]:
        """The editors in the order of their first answers."""
        return tuple(dict.fromkeys(probe.record.editor for probes in self.questions for probe in probes))


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
