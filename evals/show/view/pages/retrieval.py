"""Retrieval of a run's editors: hit rates, and misses with what came first."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from emend.evals.case import Metric
from emend.evals.log.events import split_passes, steps_from_events
from emend.evals.log.lines import CASES
from emend.evals.metrics.estimate import Estimate
from emend.evals.results.analyses.base import Analysis, AnalysisRow
from emend.evals.results.analyses.general import HIT
from emend.evals.show.view.answers import RunAnswers
from emend.evals.show.view.offsets import read_case
from emend.evals.show.view.pages.cases import read_answer
from emend.evals.show.view.pages.common import PageRequest, cell, run_path
from emend.evals.show.view.pages.steps import Decisions, hit_views
from emend.evals.show.view.scan import RunPlace
from emend.evals.show.view.views.case import HitView
from emend.evals.show.view.views.page import Choice, Page
from emend.evals.show.view.views.retrieval import HitRate, Miss, RetrievalView

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
    rows = answers.misses(editor if editor in answers.editors else "")
    after = request.value("after")
    start = int(np.searchsorted(rows, int(after), side="right")) if after.isdecimal() and len(after) < 12 else 0
    visible = rows[start : start + SIZE].tolist()
    has_more = start + SIZE < len(rows) and not request.static
    path = run_path(place, "retrieval.html")
    counts = {name: len(answers.misses(name)) for name in answers.editors}
    return {
        "misses": tuple(_miss_views(request, place, answers, visible)),
        "misses_total": len(rows),
        "editors": tuple(
            Choice(value=name, text=name, count=count, chosen=name == editor) for name, count in counts.items() if count
        ),
        "next": request.link(path, editor=editor, after=str(visible[-1])) if has_more else "",
    }


def _miss_views(request: PageRequest, place: RunPlace, answers: RunAnswers, rows: Sequence[int]) -> Iterator[Miss]:
    with request.library.index(place) as index:
        for row in rows:
            answer = read_answer(place, answers, row)
            line = read_case(place.folder / CASES, int(answers.case_rows["start"][answers.columns["case"][row]]))
            case_edits = frozenset(str(edit["id"]) for edit in line["edits"])
            events = index.events(answer.record.unit).get(answer.record.probe, ())
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
