"""How far a run is: counts, rate, the last errors and answers."""

import time
from collections import defaultdict, deque

from emend.evals.log.manifest import now
from emend.evals.show.view.answers import RunAnswers
from emend.evals.show.view.pages.cases import read_answers
from emend.evals.show.view.pages.common import PageRequest
from emend.evals.show.view.scan import RunPlace
from emend.evals.show.view.views import EditorProgress, LiveView, NamedValue, Page

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
