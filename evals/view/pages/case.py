"""The page of a case: its edits, and every answer with all that led to it."""

from collections.abc import Mapping, Sequence
from typing import Any

from emend.evals.case import Record
from emend.evals.log.lines import CASES
from emend.evals.report.tracing import log_probs, probe_cost
from emend.evals.trace.answers import deciding_scores, verdict_of
from emend.evals.trace.case_trace import Trace, TracedProbe
from emend.evals.trace.case_trace import trace as trace_case
from emend.evals.trace.graph_paths import GraphEdges
from emend.evals.trace.judged_steps import JudgedItem
from emend.evals.view.answers import CaseKey, RunAnswers
from emend.evals.view.offsets import read_case
from emend.evals.view.pages.cases import anchor
from emend.evals.view.pages.common import PageRequest, case_path, facts, run_path
from emend.evals.view.pages.graph import graph_view
from emend.evals.view.pages.steps import pass_views
from emend.evals.view.records.case import CaseView, EditView, FailureView, JudgedView, ProbeGroup, ProbeView
from emend.evals.view.records.page import Link, Page, ProblemView, Status
from emend.evals.view.scan import RunPlace

MAX_PROBES = 200
"""Number of answers on a page; further ones follow on further pages."""


def case_page(request: PageRequest, place: RunPlace, key: CaseKey) -> Page | None:
    """The page of a case; None where there is no such case."""
    answers, status = request.library.answers(place)
    if answers is None:
        return waiting_page(request, place, f"Case {key.number}", status)
    position = answers.position_of(key)
    if position is None:
        return None
    trace = read_trace(request, place, answers, position)
    start = _start(request.value("from"))
    visible = trace.probes if request.static else trace.probes[start : start + MAX_PROBES]
    probes = probe_views(place, trace, visible)
    path = case_path(place, *key)
    end = start + MAX_PROBES
    data = CaseView(
        run=request.library.entry(place),
        id=trace.case,
        number=trace.number,
        setting=trace.setting,
        tags=facts(read_case(place.folder / CASES, int(answers.case_rows["start"][position])).get("tags", {})),
        edits=edit_views(trace.edits),
        probes=probes,
        groups=_groups(probes),
        failures=tuple(failure_view(line, trace.ways.get(line["editor"])) for line in trace.failures),
        previous=_beside(place, answers, position - 1),
        next=_beside(place, answers, position + 1),
        next_probes=request.link(path, **{"from": str(end)}) if end < len(trace.probes) and not request.static else "",
    )
    crumbs = [Link(text="Cases", href=run_path(place, "cases.html"))]
    words = ["trace", str(place.folder), trace.case]
    return Page(request.head("case", f"Case {key.number}", place, crumbs, words, tab="cases"), data)


def waiting_page(request: PageRequest, place: RunPlace, title: str, status: Status) -> Page:
    """The page that is shown while the run is being indexed."""
    head = request.head("problem", title, place, waiting=status.state == "computing", tab="cases")
    return Page(head, ProblemView(title="Please wait", text=f"{status.text}; the page loads again by itself."))


def read_trace(request: PageRequest, place: RunPlace, answers: RunAnswers, position: int) -> Trace:
    """The trace of a case.

    Raises:
        BadData: a damaged line.
    """
    line = read_case(place.folder / CASES, int(answers.case_rows["start"][position]))
    with request.library.index(place) as index:
        return trace_case(place.folder, line["case"], index=index)


def _start(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else 0


def _beside(place: RunPlace, answers: RunAnswers, position: int) -> str:
    return case_path(place, *answers.key_of(position)) if 0 <= position < answers.cases else ""


def edit_views(edits: Sequence[Mapping[str, Any]]) -> tuple[EditView, ...]:
    """The edits of a case."""
    names = EditView.model_fields
    return tuple(EditView(**{name: str(edit.get(name) or "") for name in names}) for edit in edits)


def probe_views(place: RunPlace, trace: Trace, probes: Sequence[TracedProbe]) -> tuple[ProbeView, ...]:
    """Answers with their steps."""
    case_edits = frozenset(str(edit["id"]) for edit in trace.edits)
    return tuple(_probe_view(place, probe, trace.ways.get(probe.record.editor), case_edits) for probe in probes)


def _probe_view(place: RunPlace, probe: TracedProbe, ways: GraphEdges | None, case_edits: frozenset[str]) -> ProbeView:
    record = probe.record
    names = deciding_scores(place.manifest.metrics, record.kind)
    verdict, score = verdict_of(names, record.values, record.unscored)
    fields = record.model_dump(include={"editor", "kind", "probe", "repeat", "checkpoint", "gold", "answer"})
    return ProbeView(
        anchor=anchor(record.editor, record.probe, record.repeat, record.checkpoint, place),
        question=record.prompt,
        rival=record.rival or "",
        reply=record.reply or "",
        verdict=verdict,
        score=score,
        values=facts(record.values),
        unscored=facts(record.unscored),
        log_probs=_log_probs(record),
        cost=probe_cost(record),
        ms=record.seconds * 1000,
        passes=pass_views(probe.steps, ways, case_edits),
        graph=graph_view(ways, probe.steps),
        judged=tuple(map(_judged_view, probe.judged)),
        **fields,
    )


def _log_probs(record: Record) -> tuple[Any, ...]:
    text = log_probs(record)
    pairs = (part.rpartition(" ") for part in text.split(", ")) if text else ()
    return facts({name: value for name, _, value in pairs})


def _judged_view(item: JudgedItem) -> JudgedView:
    judgement = item.judgement
    fields = judgement.model_dump(include={"kind", "judge", "repeat", "swapped", "reason", "problem"})
    views = pass_views(item.steps, None)
    steps = tuple(step for part in views for step in part)
    return JudgedView(together=item.together, values=facts(judgement.values), steps=steps, **fields)


def _groups(probes: Sequence[ProbeView]) -> tuple[ProbeGroup, ...]:
    """The answers to the same question together."""
    members: dict[tuple[str, str], list[int]] = {}
    for place, probe in enumerate(probes):
        members.setdefault((probe.probe, probe.question), []).append(place)
    return tuple(
        ProbeGroup(
            kind=probes[places[0]].kind,
            question=probes[places[0]].question,
            gold=probes[places[0]].gold,
            probe=name,
            members=tuple(places),
        )
        for (name, _), places in members.items()
    )


def failure_view(
    line: Mapping[str, Any], ways: GraphEdges | None = None, number: int = 0, href: str = ""
) -> FailureView:
    """A failed unit with its steps."""
    fields: dict[str, Any] = {
        name: str(line.get(name) or "") for name in ("editor", "setting", "probe", "error", "message", "at")
    }
    steps = tuple(step for part in pass_views(line.get("steps", ()), ways) for step in part)
    return FailureView(steps=steps, number=number, href=href, **fields)
