"""Page of a case: its edits, and every answer with the steps that led to it."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from emend.evals.case import Record
from emend.evals.metrics.reading_line import reading_lines
from emend.evals.show.report.traces.corrections import correction_text
from emend.evals.show.report.traces.values import log_probs, probe_cost
from emend.evals.show.trace.case_trace import Trace, TracedProbe
from emend.evals.show.trace.case_trace import trace as trace_case
from emend.evals.show.trace.graph_paths import GraphEdges
from emend.evals.show.view.answers import CaseKey, RunAnswers
from emend.evals.show.view.library import command
from emend.evals.show.view.pages.cases import answer_view
from emend.evals.show.view.pages.common import PageRequest, case_path, facts, run_path
from emend.evals.show.view.pages.graph import graph_view
from emend.evals.show.view.pages.steps import flat_steps, pass_views
from emend.evals.show.view.scan import RunLocation
from emend.evals.show.view.views import Link, Page, Status, ViewData

# Number of answers on a page; the others follow on the next pages.
MAX_PROBES = 200


def case_page(request: PageRequest, location: RunLocation, key: CaseKey) -> Page | None:
    """Build the page of a case; None if the case does not exist."""
    answers, status = request.library.answers(location)
    if answers is None:
        return waiting_page(request, location, f"Case {key.number}", status)
    position = answers.position_of(key)
    if position is None:
        return None
    trace = read_trace(request, location, answers, position)
    start = request.offset("from")
    if request.static:
        visible = trace.probes
    else:
        visible = trace.probes[start : start + MAX_PROBES]
    path = case_path(location, *key)
    end = start + MAX_PROBES
    questions = _by_question(probe_views(location, key, trace, visible))
    next_probes = ""
    if end < len(trace.probes) and not request.static:
        next_probes = request.link(path, **{"from": str(end)})
    editors = dict.fromkeys(probe.record.editor for probe in chain.from_iterable(questions))
    data = ViewData(
        setting=trace.setting,
        tags=facts(answers.read_case(position).get("tags", {})),
        edits=trace.edits,
        questions=questions,
        editors=list(editors),
        failures=tuple(
            failure_view(line, trace.ways.get(line["editor"])) for line in trace.failures
        ),
        previous=_beside(location, answers, position - 1),
        next=_beside(location, answers, position + 1),
        next_probes=next_probes,
    )
    crumbs = [Link(text="Cases", href=run_path(location, "cases.html"))]
    words = ["trace", str(location.folder), trace.case]
    return Page(
        request.head("case", f"Case {key.number}", location, crumbs, words, tab="cases"), data
    )


def waiting_page(request: PageRequest, location: RunLocation, title: str, status: Status) -> Page:
    """Build the page that is shown while a run is being indexed."""
    head = request.head(
        "problem", title, location, waiting=status.state == "computing", tab="cases"
    )
    return Page(head, ViewData(text=f"{status.text}; this page reloads automatically."))


def read_trace(
    request: PageRequest, location: RunLocation, answers: RunAnswers, position: int
) -> Trace:
    """Return the trace of a case.

    Raises:
        BadData: a line is damaged.
    """
    case = answers.read_case(position)["case"]
    with request.library.index(location) as index:
        return trace_case(location.folder, case, index=index)


def _beside(location: RunLocation, answers: RunAnswers, position: int) -> str:
    if 0 <= position < answers.cases:
        return case_path(location, *answers.key_of(position))
    return ""


def probe_views(
    location: RunLocation, key: CaseKey, trace: Trace, probes: Sequence[TracedProbe]
) -> list[ViewData]:
    """Return the views of probes: answer, cost, corrections, and the steps by pass of the graph."""
    case_edits = frozenset(str(edit["id"]) for edit in trace.edits)
    views = []
    for probe in probes:
        ways = trace.ways.get(probe.record.editor)
        view = ViewData(
            **dict(answer_view(location, probe.record, key)),
            log_probs=log_probs(probe.record),
            readings=reading_lines(probe.record),
            corrections=list(map(correction_text, probe.corrections)),
            correct=_correct_command(location, key, probe.record),
            cost=probe_cost(probe.record),
            passes=pass_views(probe.steps, ways, case_edits),
            graph=graph_view(ways, probe.steps),
            judged=[ViewData(item=item, steps=flat_steps(item.steps)) for item in probe.judged],
        )
        views.append(view)
    return views


def _correct_command(location: RunLocation, key: CaseKey, record: Record) -> str:
    """Return the command with which a person corrects the score of an answer."""
    words = ["judge", "correct", str(location.folder), str(record.case), "--editor", record.editor]
    return command(*words, "--probe", record.probe, "--to", "right")


def _by_question(probes: Sequence[ViewData]) -> list[list[ViewData]]:
    """Group answers by probe and prompt."""
    members: dict[tuple[str, str], list[ViewData]] = {}
    for probe in probes:
        members.setdefault((probe.record.probe, probe.record.prompt), []).append(probe)
    return list(members.values())


def failure_view(
    line: Mapping[str, Any], ways: GraphEdges | None = None, number: int = 0, href: str = ""
) -> ViewData:
    """Return the view of a failed unit, with the steps before the failure."""
    return ViewData(
        line=line, steps=flat_steps(line.get("steps", ()), ways), number=number, href=href
    )
