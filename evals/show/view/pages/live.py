"""Pages of a run's progress and errors.

The first shows finished units, their rate and the last answers; the second shows failed units,
unscored answers and retries.
"""

import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence

from emend.evals.log.manifest import now
from emend.evals.results.aggregate.rows import Report
from emend.evals.show.report.progress import duration
from emend.evals.show.trace.case_trace import open_failures
from emend.evals.show.trace.graph_paths import edges_of
from emend.evals.show.view.answers import Failure, RunAnswers
from emend.evals.show.view.pages.case import failure_view
from emend.evals.show.view.pages.cases import read_answers
from emend.evals.show.view.pages.common import PageRequest, case_path, run_path
from emend.evals.show.view.pages.registry import RunPage
from emend.evals.show.view.scan import RunLocation
from emend.evals.show.view.views import AnswerView, NamedValue, Page, RunEntry, ViewData
from emend.memory.edit import FrozenModel


class EditorProgress(FrozenModel):
    """Number of finished units of an editor."""

    editor: str
    units: int
    finished: int


class LiveView(FrozenModel):
    """Progress of a run; rate and remaining time are None while they are unknown."""

    run: RunEntry
    retries: int
    per_minute: float | None
    time_left: str | None
    editors: tuple[EditorProgress, ...]
    errors: tuple[NamedValue, ...]
    latest: tuple[AnswerView, ...]
    at: str


# Seconds over which the rate is averaged.
WINDOW = 120.0
LAST = 5
# Seconds after which the page of a running run is reloaded; its script polls every second.
SLOWEST = 10


class UnitRate:
    """Rate at which the units of a run are processed, estimated from samples."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque(maxlen=1000)  # time, units

    def per_minute(self, processed: int, at: float) -> float | None:
        """Add a sample and return the units per minute; None with fewer than two samples."""
        self._samples.append((at, processed))
        while len(self._samples) > 2 and self._samples[0][0] < at - WINDOW:
            self._samples.popleft()
        start, before = self._samples[0]
        if at - start > 1 and processed >= before:
            return 60 * (processed - before) / (at - start)
        return None


# Rates of the watched runs, by run id.
PACES = defaultdict[str, UnitRate](UnitRate)


def live_page(request: PageRequest, location: RunLocation) -> Page:
    """Build the page of a run's progress."""
    data = live_view(request, location)
    head = request.head(
        "live",
        f"Progress of {location.name}",
        location,
        words=["list", "runs", str(location.folder)],
    )
    if data.run.state == "running":
        head = head.model_copy(update={"refresh": SLOWEST})
    return Page(head, data)


def live_view(request: PageRequest, location: RunLocation) -> LiveView:
    """Return the progress of a run, from the files written so far."""
    library = request.library
    answers, _ = library.answers(location)
    run = library.entry(location, wait=answers is not None)
    processed = run.finished + run.failed
    rate, time_left, retries = None, None, 0
    failures, latest = list[Failure](), tuple[AnswerView, ...]()
    if answers:
        rate = PACES[location.id].per_minute(processed, time.monotonic())
        retries, failures = answers.totals.retried, answers.failures
        latest = tuple(read_answers(location, answers, answers.last_lines(LAST)))
    if run.state != "running":
        rate = None
    if rate:
        time_left = duration(60 * (run.units - processed) / rate)
    last_failures = reversed(failures[-LAST:])
    return LiveView(
        run=run,
        retries=retries,
        per_minute=rate,
        time_left=time_left,
        editors=_editors(location, answers),
        errors=tuple(
            NamedValue(name=f"{f.error}, {f.editor}", value=f.message) for f in last_failures
        ),
        latest=latest,
        at=f"{now()[:19].replace('T', ' ')} UTC",
    )


def _editors(location: RunLocation, answers: RunAnswers | None) -> tuple[EditorProgress, ...]:
    editors = location.manifest.config.editors
    units = location.manifest.units // max(1, len(editors))
    counts = {}
    if answers:
        counts = answers.units_by_editor()
    return tuple(
        EditorProgress(editor=name, units=units, finished=counts.get(name, 0)) for name in editors
    )


MAX_FAILURES = 50
MAX_MESSAGE = 300


def errors_page(request: PageRequest, location: RunLocation) -> Page:
    """Build the page of failures, grouped by error, and of the reasons why answers are unscored."""
    library = request.library
    answers, indexed = library.answers(location)
    report, status = library.results.get("report", [location.folder])
    unscored = request.link(run_path(location, "cases.html"), verdict="unscored")
    reasons = {}
    if isinstance(report, Report):
        reasons = report.reasons
    failures, views, retried = list[Failure](), list[ViewData](), 0
    if answers:
        failures, retried = answers.failures, answers.totals.retried
        views = list(_failure_views(location, answers, failures))
    data = ViewData(
        groups=list(_groups(failures)),
        failures=views,
        failures_total=len(failures),
        reasons=tuple(
            NamedValue(name=why, value=str(count), href=unscored) for why, count in reasons.items()
        ),
        retried=retried,
    )
    waiting = "computing" in (status.state, indexed.state)
    words = ["trace", str(location.folder), "--errors"]
    return Page(
        request.head(
            "errors", f"Errors of {location.name}", location, words=words, waiting=waiting
        ),
        data,
    )


def _groups(failures: Sequence[Failure]) -> Iterator[ViewData]:
    """Group failed units by error and yield the most frequent errors."""
    editors: dict[tuple[str, str], Counter[str]] = {}
    for failure in failures:
        editors.setdefault((failure.error, failure.message[:MAX_MESSAGE]), Counter())[
            failure.editor
        ] += 1
    most = sorted(editors.items(), key=lambda item: -item[1].total())[:MAX_FAILURES]
    for (error, message), counts in most:
        yield ViewData(error=error, message=message, count=counts.total(), editors=list(counts))


def _failure_views(
    location: RunLocation, answers: RunAnswers, failures: Sequence[Failure]
) -> Iterator[ViewData]:
    """Yield the first failures with the steps before them."""
    first_units = {failure.unit for failure in failures[:MAX_FAILURES]}
    finished = {failure.unit for failure in failures[MAX_FAILURES:]}
    lines = {
        line["unit"]: line
        for line in open_failures(location.folder, finished)
        if line["unit"] in first_units
    }
    for line in lines.values():
        key = answers.find(line["setting"], line["case"])
        ways = edges_of(location.manifest, line["setting"]).get(line["editor"])
        href = ""
        if key:
            href = case_path(location, *key)
        yield failure_view(line, ways, number=key.number if key else 0, href=href)


ERRORS_PAGE = RunPage("Errors", errors_page)
LIVE_PAGE = RunPage("Live", live_page, live=True)
