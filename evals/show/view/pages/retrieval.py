"""Retrieval of a run's editors: hit rates, and misses with what came first."""

from collections.abc import Iterator, Sequence
from typing import Any

from emend.evals.case import Metric
from emend.evals.log.events import split_passes, steps_from_events
from emend.evals.metrics.estimate import Estimate
from emend.evals.results.analyses.base import Analysis, AnalysisRow
from emend.evals.results.analyses.general import HIT
from emend.evals.show.view.answers import RunAnswers
from emend.evals.show.view.pages.case import Decisions, hit_views
from emend.evals.show.view.pages.cases import answer_view
from emend.evals.show.view.pages.common import PageRequest, cell, run_path
from emend.evals.show.view.scan import RunPlace
from emend.evals.show.view.views import Choice, HitRate, HitView, Miss, Page, RetrievalView

SIZE = 20
HIT_RATE = Metric(name=HIT, value=HIT, kinds=(), scale=100)


def retrieval_page(request: PageRequest, place: RunPlace) -> Page:
    """Hit rates by setting, kind and editor, and the misses of an editor or of all."""
    analysis, status = request.library.results.get("retrieval", [place.folder])
    answers, indexed = request.library.answers(place)
    editor = request.value("editor")
    data = RetrievalView(status=status)
    if isinstance(analysis, Analysis):
        data = data.model_copy(update={"rows": tuple(map(_rate, analysis.rows))})
    if answers is not None:
        data = data.model_copy(update=_misses(request, place, answers, editor))
    waiting = "computing" in (status.state, indexed.state)
    words = ["analyse", str(place.folder), "retrieval"]
    return Page(request.head("retrieval", f"Retrieval of {place.name}", place, words=words, waiting=waiting), data)


def _rate(row: AnalysisRow) -> HitRate:
    value = Estimate.model_validate(row.model_dump(include=set(Estimate.model_fields)))
    return HitRate(setting=row.label, kind=row.panel, editor=row.series, cell=cell(value, HIT_RATE))


def _misses(request: PageRequest, place: RunPlace, answers: RunAnswers, editor: str) -> dict[str, Any]:
    counts = answers.miss_counts()
    after = request.value("after")
    start = int(after) if after.isdecimal() and len(after) < 12 else 0
    lines = answers.misses(editor if editor in answers.editors else "", start, SIZE + 1)
    visible, has_more = lines[:SIZE], len(lines) > SIZE and not request.static
    path = run_path(place, "retrieval.html")
    return {
        "misses": tuple(_miss_views(request, place, answers, visible)),
        "misses_total": counts.get(editor, 0) if editor in answers.editors else sum(counts.values()),
        "editors": tuple(
            Choice(value=name, text=name, count=counts[name], chosen=name == editor)
            for name in answers.editors
            if name in counts
        ),
        "next": request.link(path, editor=editor, after=str(visible[-1])) if has_more else "",
    }


def _miss_views(request: PageRequest, place: RunPlace, answers: RunAnswers, lines: Sequence[int]) -> Iterator[Miss]:
    with request.library.index(place) as index:
        for position, record in answers.read_answers(lines):
            answer, line = answer_view(place, record, answers.key_of(position)), answers.read_case(position)
            case_edits = frozenset(str(edit["id"]) for edit in line["edits"])
            events = index.events(record.unit).get(record.probe, ())
            yield Miss(
                answer=answer,
                edits=tuple(str(edit["text"]) for edit in line["edits"]),
                hits=_first_hits(list(steps_from_events(events)), case_edits),
            )


def _first_hits(steps: list[dict[str, Any]], case_edits: frozenset[str]) -> tuple[HitView, ...]:
    """Entries that the first step that retrieved anything retrieved."""
    for part in split_passes(steps):
        for step in part:
            hits = (step["update"] or {}).get("hits")
            if isinstance(hits, list) and hits:
                return hit_views([hit for hit in hits if isinstance(hit, dict)][:5], case_edits, Decisions(part))
    return ()
