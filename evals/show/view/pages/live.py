"""How far a run is, with its rate and last answers, and its errors: failed units, unscored answers, retries."""

import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence

from emend.evals.log.manifest import now
from emend.evals.results.aggregate.rows import Report
from emend.evals.show.trace.case_trace import open_failures
from emend.evals.show.trace.graph_paths import edges_of
from emend.evals.show.view.answers import Failure, RunAnswers
from emend.evals.show.view.pages.case import failure_view
from emend.evals.show.view.pages.cases import read_answers
from emend.evals.show.view.pages.common import PageRequest, case_path, run_path
from emend.evals.show.view.scan import RunPlace
from emend.evals.show.view.views import AnswerView, NamedValue, Page, RunEntry, ViewData
from emend.memory.edit import FrozenModel


class EditorProgress(FrozenModel):
    """How many units of an editor are finished."""

    editor: str
    units: int
    finished: int


class LiveView(FrozenModel):
    """How far a run is; rate and remaining time are None where nothing is known of them."""

    run: RunEntry
    retries: int
    per_minute: float | None
    seconds_left: float | None
    editors: tuple[EditorProgress, ...]
    errors: tuple[NamedValue, ...]
    latest: tuple[AnswerView, ...]
    at: str


WINDOW = 120.0
"""Seconds over which the rate is taken."""
LAST = 5
SLOWEST = 10
"""Seconds after which the page is loaded again where nothing else tells of news."""


class UnitRate:
    """The rate at which units of a run are processed, from what was seen of it."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque(maxlen=1000)  # time, units

    def per_minute(self, processed: int, at: float) -> float | None:
        """Units a minute with this sample; None before there are two."""
        self._samples.append((at, processed))
        while len(self._samples) > 2 and self._samples[0][0] < at - WINDOW:
            self._samples.popleft()
        start, before = self._samples[0]
        return 60 * (processed - before) / (at - start) if at - start > 1 and processed >= before else None


PACES = defaultdict[str, UnitRate](UnitRate)
"""The pace of each run that is watched, by its id."""


def live_page(request: PageRequest, place: RunPlace) -> Page:
    """How far the run is."""
    data = live_view(request, place)
    head = request.head("live", f"Progress of {place.name}", place, words=["list", "runs", str(place.folder)])
    return Page(head.model_copy(update={"refresh": SLOWEST if data.run.state == "running" else 0}), data)


def live_view(request: PageRequest, place: RunPlace) -> LiveView:
    """Counts of a run as far as it is written."""
    library = request.library
    answers, _ = library.answers(place)
    run = library.entry(place, wait=answers is not None)
    processed = run.finished + run.failed
    rate = PACES[place.id].per_minute(processed, time.monotonic()) if answers else None
    left = run.units - processed
    failures = answers.failures if answers else []
    return LiveView(
        run=run,
        retries=answers.totals.retried if answers else 0,
        per_minute=rate if run.state == "running" else None,
        seconds_left=60 * left / rate if rate and run.state == "running" else None,
        editors=_editors(place, answers),
        errors=tuple(NamedValue(name=f"{f.error}, {f.editor}", value=f.message) for f in reversed(failures[-LAST:])),
        latest=tuple(read_answers(place, answers, answers.last_lines(LAST))) if answers else (),
        at=now(),
    )


def _editors(place: RunPlace, answers: RunAnswers | None) -> tuple[EditorProgress, ...]:
    editors = place.manifest.config.editors
    units = place.manifest.units // max(1, len(editors))
    counts = answers.units_by_editor() if answers else {}
    return tuple(EditorProgress(editor=name, units=units, finished=counts.get(name, 0)) for name in editors)


MAX_FAILURES = 50
MAX_MESSAGE = 300


def errors_page(request: PageRequest, place: RunPlace) -> Page:
    """Failures by error, the last ones with their steps, and the reasons of what is unscored."""
    library = request.library
    answers, indexed = library.answers(place)
    report, status = library.results.get("report", [place.folder])
    failures = answers.failures if answers else []
    unscored = request.link(run_path(place, "cases.html"), verdict="unscored")
    reasons = report.reasons if isinstance(report, Report) else {}
    data = ViewData(
        groups=list(_groups(failures)),
        failures=list(_failure_views(place, answers, failures)) if answers and failures else [],
        failures_total=len(failures),
        reasons=tuple(NamedValue(name=why, value=str(count), href=unscored) for why, count in reasons.items()),
        retried=answers.totals.retried if answers else 0,
    )
    waiting = "computing" in (status.state, indexed.state)
    words = ["trace", str(place.folder), "--errors"]
    return Page(request.head("errors", f"Errors of {place.name}", place, words=words, waiting=waiting), data)


def _groups(failures: Sequence[Failure]) -> Iterator[ViewData]:
    """Failed units with the same error."""
    editors: dict[tuple[str, str], Counter[str]] = {}
    for failure in failures:
        editors.setdefault((failure.error, failure.message[:MAX_MESSAGE]), Counter())[failure.editor] += 1
    most = sorted(editors.items(), key=lambda item: -item[1].total())[:MAX_FAILURES]
    for (error, message), counts in most:
        yield ViewData(error=error, message=message, count=counts.total(), editors=list(counts))


def _failure_views(place: RunPlace, answers: RunAnswers, failures: Sequence[Failure]) -> Iterator[ViewData]:
    """The first failures with the steps before them."""
    first_units = {failure.unit for failure in failures[:MAX_FAILURES]}
    finished = {failure.unit for failure in failures[MAX_FAILURES:]}
    lines = {line["unit"]: line for line in open_failures(place.folder, finished) if line["unit"] in first_units}
    for line in lines.values():
        key = answers.find(line["setting"], line["case"])
        ways = edges_of(place.manifest, line["setting"]).get(line["editor"])
        href = case_path(place, *key) if key else ""
        yield failure_view(line, ways, number=key.number if key else 0, href=href)
