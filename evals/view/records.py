"""Records that the viewer's pages show: frozen, filled by `emend.evals.view.pages` and laid out by the templates.

Links are paths from the viewer's root without a leading slash, so that one scheme serves the server and the export.
"""

from typing import Any, Literal

from emend.memory.edit import FrozenModel

State = Literal["running", "finished", "stopped"]
"""Of a run: a process works in it, every unit is finished or failed, or neither."""


class Link(FrozenModel):
    """A text and the page that it leads to."""

    text: str
    href: str


class Tab(FrozenModel):
    """A page of a run, in the row of its pages; `count` is the number of things on it, where that is known."""

    name: str
    text: str
    href: str
    current: bool = False
    count: int | None = None


class Fact(FrozenModel):
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
    tabs: tuple[Tab, ...] = ()
    command: str = ""
    refresh: int = 0
    version: str = ""
    left_out: str = ""


class Status(FrozenModel):
    """How far the numbers of a page are: they are of `records` records."""

    state: Literal["ready", "computing", "failed"] = "ready"
    text: str = ""
    records: int = 0


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
    mark: Literal["best", "tied", ""] = ""
    href: str = ""


class GridMetric(FrozenModel):
    """A column of a grid: a metric with its unit, the number of observations, and the ends of an axis for all cells."""

    name: str
    summary: str
    unit: str
    higher_is_better: bool
    count: str
    judge: str = ""
    axis_low: float = 0.0
    axis_high: float = 1.0


class GridRow(FrozenModel):
    """A row of a grid: its names, one for each heading, and a cell or None for each metric."""

    names: tuple[str, ...]
    editor: str
    cells: tuple[CellView | None, ...]


class MetricGrid(FrozenModel):
    """A table of editors by metrics."""

    title: str
    anchor: str
    headings: tuple[str, ...]
    metrics: tuple[GridMetric, ...]
    rows: tuple[GridRow, ...]
    note: str = ""


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
    axis_low: float
    axis_high: float


class PerplexityView(FrozenModel):
    """Perplexity of held-out texts under an editor's edits, and before any."""

    editor: str
    setting: str
    mode: str
    standing: int
    over: str
    cell: CellView
    before: CellView
    reason: str = ""


class RunView(FrozenModel):
    """A run: its metrics, costs, checkpoints and notes, and what it was run with."""

    run: RunEntry
    status: Status
    tables: tuple[MetricGrid, ...] = ()
    costs: tuple[MetricGrid, ...] = ()
    forgetting: tuple[Curve, ...] = ()
    perplexity: tuple[PerplexityView, ...] = ()
    spent: tuple[Fact, ...] = ()
    reasons: tuple[Fact, ...] = ()
    notes: tuple[str, ...] = ()
    settings: tuple[Fact, ...] = ()
    provenance: tuple[Fact, ...] = ()
    versions: tuple[Fact, ...] = ()
    run_config: str = ""
    cases: int = 0
    cut: int = 0
    missing: int = 0
    compare: tuple[Link, ...] = ()


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
    right: int
    wrong: int
    unscored: int
    failed: int = 0


class AnswerExample(FrozenModel):
    """An answer beside what would be right, and its score."""

    editor: str
    kind: str
    question: str
    gold: tuple[str, ...]
    answer: str | None
    verdict: str
    score: str
    href: str


class CaseRowView(FrozenModel):
    """A case in a list: its first edit, tallies by editor, and the first fitting answer."""

    number: int
    setting: str
    href: str
    title: str
    edits: int
    tallies: tuple[Tally, ...]
    example: AnswerExample | None = None


class CasesView(FrozenModel):
    """The cases of a run that fit a filter; counts are None and `searched` is below 1 while a text is searched for."""

    run: RunEntry
    filter: CaseFilter
    editors: tuple[Choice, ...] = ()
    kinds: tuple[Choice, ...] = ()
    tags: tuple[Choice, ...] = ()
    verdicts: tuple[Choice, ...] = ()
    sorts: tuple[Choice, ...] = ()
    rows: tuple[CaseRowView, ...] = ()
    cases: int | None = None
    answers: int | None = None
    searched: float = 1.0
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


class RetryView(FrozenModel):
    """A failed attempt of a call that was followed by another."""

    attempt: int
    error: str
    status: int
    wait: float


class MessageView(FrozenModel):
    """A message of a call; `visible` is False where the text is the step's own prompt or reply."""

    role: str
    text: str
    tools: tuple[Fact, ...] = ()
    visible: bool = True


class CallView(FrozenModel):
    """A call to a model."""

    kind: str
    model: str
    provider: str
    messages: tuple[MessageView, ...]
    reply: MessageView | None
    input_tokens: int
    output_tokens: int
    ms: float
    finish: str
    cached: bool
    error: str
    retries: tuple[RetryView, ...]


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

    kind: str
    judge: str
    repeat: int
    swapped: bool
    together: int
    values: tuple[Fact, ...]
    reason: str
    problem: str
    steps: tuple[StepView, ...]


class ProbeView(FrozenModel):
    """An answer under an editor, and all that led to it; a probe may go through the graph in several passes."""

    anchor: str
    editor: str
    kind: str
    probe: str
    repeat: int
    checkpoint: int
    question: str
    gold: tuple[str, ...]
    rival: str
    answer: str | None
    reply: str
    verdict: str
    score: str
    values: tuple[Fact, ...]
    unscored: tuple[Fact, ...]
    log_probs: tuple[Fact, ...]
    cost: str
    ms: float
    passes: tuple[tuple[StepView, ...], ...]
    graph: GraphView | None
    judged: tuple[JudgedView, ...]


class ProbeGroup(FrozenModel):
    """A question under several editors, repeats and checkpoints; members are places in the list of probes."""

    kind: str
    question: str
    gold: tuple[str, ...]
    probe: str
    members: tuple[int, ...]


class FailureView(FrozenModel):
    """A unit that failed and was not finished since, with the steps up to the failure."""

    editor: str
    setting: str
    probe: str
    error: str
    message: str
    at: str
    steps: tuple[StepView, ...]
    number: int = 0
    href: str = ""


class CaseView(FrozenModel):
    """A case: its edits, its probes under every editor, and its failures; `next_probes` leads to the others of many."""

    run: RunEntry
    id: str
    number: int
    setting: str
    tags: tuple[Fact, ...]
    edits: tuple[EditView, ...]
    probes: tuple[ProbeView, ...]
    groups: tuple[ProbeGroup, ...]
    failures: tuple[FailureView, ...]
    previous: str = ""
    next: str = ""
    next_probes: str = ""


class Side(FrozenModel):
    """An editor of a run, as one side of a comparison; the key is the run's id, a full stop and the editor's place."""

    key: str
    run: str
    editor: str
    label: str
    href: str


class FourCells(FrozenModel):
    """The 2 x 2 counts of a comparison: probes that both, one or neither of the sides has right."""

    both: int
    only_a: int
    only_b: int
    neither: int


class PairRow(FrozenModel):
    """A metric of both sides; `mean`, `low` and `high` are those of the difference, second less first, in its unit."""

    setting: str
    metric: str
    kind: str
    judge: str
    unit: str
    a: str
    b: str
    difference: str
    interval: str
    mean: float | None
    low: float | None
    high: float | None
    p: str
    test: str
    n: int
    unscored: int
    cells: FourCells | None = None
    verdict: str = ""


class Flip(FrozenModel):
    """A probe that one side has right and the other has not."""

    setting: str
    number: int
    kind: str
    question: str
    gold: tuple[str, ...]
    answer_a: str | None
    answer_b: str | None
    verdict_a: str
    verdict_b: str
    href: str


class PairView(FrozenModel):
    """The comparison of a side with the base."""

    a: Side
    b: Side
    coverage: tuple[Fact, ...]
    notes: tuple[str, ...]
    rows: tuple[PairRow, ...]
    flips: tuple[Flip, ...]
    flips_total: int


class CompareView(FrozenModel):
    """Several sides, each compared with the first."""

    sides: tuple[Side, ...]
    pairs: tuple[PairView, ...]
    status: Status


class CompareChoice(FrozenModel):
    """The sides that can be compared."""

    sides: tuple[Side, ...]
    chosen: tuple[str, ...] = ()
    problem: str = ""


class ProbePair(FrozenModel):
    """The answers of both sides to one probe."""

    a: ProbeView | None
    b: ProbeView | None
    flipped: bool


class BesideView(FrozenModel):
    """A case under two sides, probe by probe."""

    a: Side
    b: Side
    number: int
    setting: str
    edits: tuple[EditView, ...]
    pairs: tuple[ProbePair, ...]


class HitRate(FrozenModel):
    """Share of probes whose first retrieved entry is the right edit."""

    setting: str
    kind: str
    editor: str
    cell: CellView


class Miss(FrozenModel):
    """A probe whose first retrieved entry is of another edit, and what was retrieved."""

    editor: str
    setting: str
    number: int
    kind: str
    question: str
    edits: tuple[str, ...]
    hits: tuple[HitView, ...]
    answer: str | None
    verdict: str
    href: str


class RetrievalView(FrozenModel):
    """Hit rates of the editors that retrieve, and their misses."""

    run: RunEntry
    status: Status
    rows: tuple[HitRate, ...] = ()
    editors: tuple[Choice, ...] = ()
    misses: tuple[Miss, ...] = ()
    misses_total: int = 0
    next: str = ""


class AgreementView(FrozenModel):
    """Measured agreement of judges with people on one kind of item."""

    kind: str
    text: str
    facts: tuple[Fact, ...] = ()


class ScoringView(FrozenModel):
    """A scoring: who judged, what, and how well that agrees with people."""

    id: str
    judges: tuple[str, ...]
    kinds: tuple[str, ...]
    started: str
    combined: str
    notes: tuple[str, ...]
    agreements: tuple[AgreementView, ...]


class Vote(FrozenModel):
    """One judgement of an item."""

    judge: str
    repeat: int
    swapped: bool
    value: str
    reason: str


class DisagreementView(FrozenModel):
    """An answer on which judges, repeats or orders differ."""

    kind: str
    number: int
    setting: str
    editor: str
    question: str
    answer: str | None
    votes: tuple[Vote, ...]
    href: str


class JudgesView(FrozenModel):
    """The scorings of a run, and the answers on which the newest one's votes differ."""

    run: RunEntry
    status: Status
    scorings: tuple[ScoringView, ...] = ()
    disagreements: tuple[DisagreementView, ...] = ()
    disagreements_total: int = 0
    judgements: int = 0


class ErrorGroup(FrozenModel):
    """Failed units with the same error."""

    error: str
    message: str
    count: int
    editors: tuple[str, ...]


class ErrorsView(FrozenModel):
    """Failures, reasons of what is unscored, and retries."""

    run: RunEntry
    groups: tuple[ErrorGroup, ...]
    failures: tuple[FailureView, ...]
    failures_total: int
    reasons: tuple[Fact, ...]
    retried: tuple[Fact, ...]


class EditorProgress(FrozenModel):
    """How many units of an editor are finished."""

    editor: str
    units: int
    finished: int


class LiveView(FrozenModel):
    """How far a run is; rate and remaining time are None where nothing is known of them."""

    run: RunEntry
    state: State
    units: int
    finished: int
    failed: int
    records: int
    unscored: int
    retries: int
    tokens: int
    per_minute: float | None
    seconds_left: float | None
    editors: tuple[EditorProgress, ...]
    errors: tuple[Fact, ...]
    latest: tuple[AnswerExample, ...]
    at: str


class AboutView(FrozenModel):
    """Versions, folders and licences."""

    versions: tuple[Fact, ...]
    folders: tuple[str, ...]
    licences: tuple[Fact, ...]


class ProblemView(FrozenModel):
    """Why there is no page."""

    title: str
    text: str


class Page:
    """A page before it is rendered: the template's file, its context, and the HTTP status.

    Args:
        head: what every page has.
        data: the record of this page.
        status: HTTP status.
    """

    def __init__(self, head: PageHead, data: FrozenModel, status: int = 200) -> None:
        self.head, self.status = head, status
        self.data: Any = data

    @property
    def template(self) -> str:
        """File of the template."""
        return f"{self.head.name}.html"

    @property
    def context(self) -> dict[str, Any]:
        """Variables of the template."""
        return {"page": self.head, "data": self.data}
