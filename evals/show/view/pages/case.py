"""The page of a case: its edits, and every answer with all that led to it."""

from collections.abc import Mapping, Sequence
from typing import Any

from emend.evals.show.report.tracing import log_probs, probe_cost
from emend.evals.show.trace.case_trace import Trace, TracedProbe
from emend.evals.show.trace.case_trace import trace as trace_case
from emend.evals.show.trace.graph_paths import GraphEdges
from emend.evals.show.view.answers import CaseKey, RunAnswers
from emend.evals.show.view.pages.cases import answer_view
from emend.evals.show.view.pages.common import PageRequest, case_path, facts, run_path
from emend.evals.show.view.pages.graph import graph_view
from emend.evals.show.view.pages.steps import flat_steps, pass_views
from emend.evals.show.view.scan import RunPlace
from emend.evals.show.view.views.case import CaseView, EditView, FailureView, JudgedView, ProbeView
from emend.evals.show.view.views.page import Link, Page, ProblemView, Status

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
    path = case_path(place, *key)
    end = start + MAX_PROBES
    data = CaseView(
        setting=trace.setting,
        tags=facts(answers.read_case(position).get("tags", {})),
        edits=edit_views(trace.edits),
        questions=_by_question(probe_views(place, key, trace, visible)),
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
    return Page(head, ProblemView(text=f"{status.text}; the page loads again by itself."))


def read_trace(request: PageRequest, place: RunPlace, answers: RunAnswers, position: int) -> Trace:
    """The trace of a case.

    Raises:
        BadData: a damaged line.
    """
    case = answers.read_case(position)["case"]
    with request.library.index(place) as index:
        return trace_case(place.folder, case, index=index)


def _start(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else 0


def _beside(place: RunPlace, answers: RunAnswers, position: int) -> str:
    return case_path(place, *answers.key_of(position)) if 0 <= position < answers.cases else ""


def edit_views(edits: Sequence[Mapping[str, Any]]) -> tuple[EditView, ...]:
    """The edits of a case."""
    names = EditView.model_fields
    return tuple(EditView(**{name: str(edit.get(name) or "") for name in names}) for edit in edits)


def probe_views(place: RunPlace, key: CaseKey, trace: Trace, probes: Sequence[TracedProbe]) -> tuple[ProbeView, ...]:
    """Answers with their steps."""
    case_edits = frozenset(str(edit["id"]) for edit in trace.edits)
    return tuple(_probe_view(place, key, probe, trace.ways.get(probe.record.editor), case_edits) for probe in probes)


def _probe_view(
    place: RunPlace, key: CaseKey, probe: TracedProbe, ways: GraphEdges | None, case_edits: frozenset[str]
) -> ProbeView:
    return ProbeView(
        **dict(answer_view(place, probe.record, key)),
        log_probs=log_probs(probe.record),
        cost=probe_cost(probe.record),
        passes=pass_views(probe.steps, ways, case_edits),
        graph=graph_view(ways, probe.steps),
        judged=tuple(JudgedView(item=item, steps=flat_steps(item.steps)) for item in probe.judged),
    )


def _by_question(probes: Sequence[ProbeView]) -> tuple[tuple[ProbeView, ...], ...]:
    """The answers to the same question together."""
    members: dict[tuple[str, str], list[ProbeView]] = {}
    for probe in probes:
        members.setdefault((probe.record.probe, probe.record.prompt), []).append(probe)
    return tuple(map(tuple, members.values()))


def failure_view(
    line: Mapping[str, Any], ways: GraphEdges | None = None, number: int = 0, href: str = ""
) -> FailureView:
    """A failed unit with its steps."""
    names = ("editor", "setting", "error", "message", "at")
    fields: dict[str, Any] = {name: str(line.get(name) or "") for name in names}
    return FailureView(steps=flat_steps(line.get("steps", ()), ways), number=number, href=href, **fields)
