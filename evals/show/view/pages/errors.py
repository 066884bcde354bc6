"""Errors of a run: failed units, what is unscored and why, and what was retried."""

from collections import Counter
from collections.abc import Iterator, Sequence

from emend.evals.results.aggregate.rows import Report
from emend.evals.show.trace.case_trace import open_failures
from emend.evals.show.trace.graph_paths import edges_of
from emend.evals.show.view.answers import Failure, RunAnswers
from emend.evals.show.view.pages.case import failure_view
from emend.evals.show.view.pages.common import PageRequest, case_path, run_path
from emend.evals.show.view.scan import RunPlace
from emend.evals.show.view.views import ErrorGroup, ErrorsView, FailureView, NamedValue, Page

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
    data = ErrorsView(
        groups=tuple(_groups(failures)),
        failures=tuple(_failure_views(place, answers, failures)) if answers and failures else (),
        failures_total=len(failures),
        reasons=tuple(NamedValue(name=why, value=str(count), href=unscored) for why, count in reasons.items()),
        retried=answers.totals.retried if answers else 0,
    )
    waiting = "computing" in (status.state, indexed.state)
    words = ["trace", str(place.folder), "--errors"]
    return Page(request.head("errors", f"Errors of {place.name}", place, words=words, waiting=waiting), data)


def _groups(failures: Sequence[Failure]) -> Iterator[ErrorGroup]:
    editors: dict[tuple[str, str], Counter[str]] = {}
    for failure in failures:
        editors.setdefault((failure.error, failure.message[:MAX_MESSAGE]), Counter())[failure.editor] += 1
    most = sorted(editors.items(), key=lambda item: -item[1].total())[:MAX_FAILURES]
    for (error, message), counts in most:
        yield ErrorGroup(error=error, message=message, count=counts.total(), editors=tuple(counts))


def _failure_views(place: RunPlace, answers: RunAnswers, failures: Sequence[Failure]) -> Iterator[FailureView]:
    """The first failures with the steps before them."""
    first_units = {failure.unit for failure in failures[:MAX_FAILURES]}
    finished = {failure.unit for failure in failures[MAX_FAILURES:]}
    lines = {line["unit"]: line for line in open_failures(place.folder, finished) if line["unit"] in first_units}
    for line in lines.values():
        key = answers.find(line["setting"], line["case"])
        ways = edges_of(place.manifest, line["setting"]).get(line["editor"])
        href = case_path(place, *key) if key else ""
        yield failure_view(line, ways, number=key.number if key else 0, href=href)
