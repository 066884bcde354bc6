"""The page of a case: its edits, and every answer with all that led to it: steps, prompts, the way through a graph."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from emend.evals.log.lines import split_passes
from emend.evals.show.report.tracing import (
    SAID_ELSEWHERE,
    brief,
    content_of,
    entry_texts,
    grown_by,
    is_conversation,
    is_routed,
    log_probs,
    probe_cost,
    step_cost,
)
from emend.evals.show.trace.case_trace import Trace, TracedProbe, new_hits
from emend.evals.show.trace.case_trace import trace as trace_case
from emend.evals.show.trace.graph_paths import END, ENDS, START, GraphEdges, Pair, paths_of
from emend.evals.show.view.answers import CaseKey, RunAnswers
from emend.evals.show.view.pages.cases import answer_view
from emend.evals.show.view.pages.common import PageRequest, case_path, facts, run_path
from emend.evals.show.view.scan import RunPlace
from emend.evals.show.view.views import Link, NamedValue, Page, Status, ViewData

MAX_NODES = 60


def graph_view(ways: GraphEdges | None, steps: Sequence[dict[str, Any]]) -> ViewData | None:
    """The graph with the edges that the probe's passes took; None without a graph, or with too large a one.

    A node has a layer from the start on and a column of it; an edge is `chosen` where a router chooses.
    """
    if ways is None or not steps or max(len(ways.nodes), len(ways.edges) // 4) > MAX_NODES:
        return None
    paths = paths_of(ways, steps)
    walked: dict[Pair, list[int]] = {}
    for path in paths:
        for pair, number in path.edges_taken:
            walked.setdefault(pair, []).append(number)
    ran = {node for path in paths for node in path.nodes} | {START} | {pair[1] for pair in walked if pair[1] == END}
    failed = {path.failed for path in paths}
    layers = _layers(ways)
    columns = dict[int, int]()
    nodes = []
    for node, layer in layers.items():
        column = columns[layer] = columns.get(layer, -1) + 1
        state = "failed" if node in failed else "taken" if node in ran else ""
        nodes.append(ViewData(id=node, label=ENDS.get(node, node), layer=layer, column=column, state=state))
    edges = [
        ViewData(
            source=edge.source,
            target=edge.target,
            label=", ".join(map(str, sorted(set(walked.get((edge.source, edge.target), ())))[:6])),
            walked=(edge.source, edge.target) in walked,
            chosen=edge.chosen,
        )
        for edge in dict.fromkeys(ways.edges)
    ]
    width = max(columns.values()) + 1
    return ViewData(name=ways.graph, nodes=nodes, edges=edges, layers=max(layers.values()) + 1, columns=width)


def _layers(ways: GraphEdges) -> dict[str, int]:
    """Layer of each node: the longest way from the start on which no node repeats, found by depth-first order."""
    following: dict[str, list[str]] = {}
    for edge in ways.edges:
        following.setdefault(edge.source, []).append(edge.target)
    order, back, on_way = list[str](), set[Pair](), set[str]()

    def visit(node: str) -> None:
        on_way.add(node)
        for child in following.get(node, ()):
            if child in on_way:
                back.add((node, child))
            elif child not in order:
                visit(child)
        on_way.discard(node)
        order.append(node)

    visit(START)
    layers = dict.fromkeys([START, *ways.nodes, END], 0)
    for node in reversed(order):
        for child in following.get(node, ()):
            if (node, child) not in back:
                layers[child] = max(layers.get(child, 0), layers.get(node, 0) + 1)
    layers[END] = max(layers.values()) if layers[END] == 0 else max(layers[END], *layers.values())
    return dict(sorted(layers.items(), key=lambda item: item[1]))


MAX_TEXT = 20_000
"""Characters of a text that are shown; the number of the others is said."""
MAX_HITS, MAX_MESSAGES = 100, 200


def pass_views(
    steps: Sequence[dict[str, Any]], ways: GraphEdges | None, case_edits: frozenset[str] = frozenset()
) -> tuple[tuple[ViewData, ...], ...]:
    """The steps of a probe, pass by pass: what each node retrieved, sent, received and wrote into the state.

    `start_ms` counts from the first step; `repeats` says that the update is that of an earlier step of the same node.

    Args:
        steps: of one probe.
        ways: the editor's graph.
        case_edits: ids of the case's edits.
    """
    begin = next((step["at"] for step in steps if step["at"]), None)
    updates: dict[str, list[Any]] = {}
    passes = []
    for part in split_passes(steps):
        decided = Decisions(part)
        views, state, last = list[ViewData](), dict[str, Any](), dict[str, Any]()
        for step in part:
            before = updates.setdefault(step["node"], [])
            repeats = step["update"] in before
            before.append(step["update"])
            start = (step["at"] - begin) * 1000 if step["at"] and begin else 0.0
            place = {"routed": is_routed(step, last, ways), "repeats": repeats, "start_ms": max(0.0, start)}
            views.append(ViewData(**place, **_step_fields(step, state, decided, case_edits)))
            state, last = state | (step["update"] or {}), step
        passes.append(tuple(views))
    return tuple(passes)


def flat_steps(steps: Sequence[dict[str, Any]], ways: GraphEdges | None = None) -> tuple[ViewData, ...]:
    """The steps of all passes after each other."""
    return tuple(step for part in pass_views(steps, ways) for step in part)


def _step_fields(
    step: dict[str, Any], state: dict[str, Any], decided: "Decisions", case_edits: frozenset[str]
) -> dict[str, Any]:
    update, hits = step["update"] or {}, None
    if isinstance(update.get("hits"), list):
        entries = [hit for hit in update["hits"] if isinstance(hit, dict)]
        hits = hit_views(new_hits(entries, state.get("hits") or ()), case_edits, decided)
    return {
        "place": step["place"],
        "node": step["node"],
        "ms": step["ms"] or 0.0,
        "about": step_cost(step),
        "hits": hits,
        "prompt": _text(update["prompt"]) if "prompt" in update and not is_conversation(state) else None,
        "reply": _text(update["reply"]) if "reply" in update else None,
        "fields": list(_fields(update, state)),
        "calls": list(map(_call, step["calls"])),
        "error": step["error"] or "",
    }


def _text(value: Any) -> str:
    """A text, cut where it is longer than a page can show."""
    text = value if isinstance(value, str) else brief(value)
    left = len(text) - MAX_TEXT
    return text if left <= 0 else f"{text[:MAX_TEXT]}\n… {left:,} more characters"


def _fields(update: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[ViewData]:
    """Fields of an update that are shown nowhere else, without those that stayed the same or are still empty.

    Of a value that only grew at its end, the new part is shown.
    """
    for name, value in update.items():
        nothing = value in ("", [], False, None) and name not in before
        if name in SAID_ELSEWHERE or value == before.get(name) or nothing:
            continue
        grown, new = grown_by(value, before.get(name))
        if isinstance(new, list) and new and all(isinstance(entry, dict) for entry in new):
            for entry in new[:MAX_MESSAGES]:
                aside, text = entry_texts(entry)
                title = f"{name}, {aside}" if aside and len(aside) < 80 else name
                yield ViewData(
                    name=title, text=_text(text if title != name or not aside else f"{aside}\n{text}"), grown=grown
                )
        else:
            yield ViewData(name=name, text=_text(new), grown=grown)


def _call(call: dict[str, Any]) -> ViewData:
    """A call to a model, without the texts that are the step's own prompt or reply, and the attempts before it."""
    messages = () if call["messages_field"] else call["messages"][:MAX_MESSAGES]
    return ViewData(
        messages=tuple(map(_message, messages)),
        reply=_message(call["reply"]) if call["reply"] and not call["reply_field"] else None,
        finish=call["finish"],
        cached=call["cached"],
        error=call["error"] or "",
        retries=call["retries"],
    )


def _message(message: dict[str, Any]) -> ViewData:
    tools = tuple(
        NamedValue(name=str(call["function"].get("name", "")), value=_text(call["function"].get("arguments", "")))
        for call in message.get("tool_calls") or ()
    )
    text = _text(content_of({**message, "tool_calls": ()}))
    return ViewData(role=str(message.get("role", "")), text=text, tools=tools)


def hit_views(
    hits: Sequence[Mapping[str, Any]], case_edits: frozenset[str], decided: "Decisions"
) -> tuple[ViewData, ...]:
    """Retrieved entries, the best first, with the decision on each, and whether it is an edit of this case."""
    return tuple(
        ViewData(
            place=place,
            text=_text(hit.get("text", "")),
            score=hit["score"] if isinstance(hit.get("score"), (int, float)) else None,
            of_case=str(hit.get("edit_id", "")) in case_edits,
            **decided.about(hit),
        )
        for place, hit in enumerate(hits[:MAX_HITS], 1)
    )


class Decisions:
    """Which retrieved entries of a pass were kept, by which node and why.

    An entry that a later node left out of the state's `hits` was dropped by it. Of entries that stay to the end, those
    whose text is in the prompt that was sent were kept. Scores and thresholds that a node wrote say why.

    Args:
        steps: of the pass.
    """

    def __init__(self, steps: Sequence[dict[str, Any]]) -> None:
        self._dropped: dict[str, str] = {}
        self._why: dict[str, str] = {}
        self._narrowed = ""
        self._prompts = [str((step["update"] or {}).get("prompt", "")) for step in steps]
        self._prompts += [content_of(each) for step in steps for call in step["calls"] for each in call["messages"]]
        self._prompts = [prompt for prompt in self._prompts if prompt]
        before: list[Any] | None = None
        for step in steps:
            update = step["update"] or {}
            self._note_scores(update)
            if isinstance(update.get("hits"), list):
                left = {_key(hit) for hit in update["hits"]}
                for hit in before or ():
                    if _key(hit) not in left:
                        self._dropped.setdefault(_key(hit), step["node"])
                self._narrowed = step["node"] if before is not None else self._narrowed
                before = update["hits"]

    def _note_scores(self, update: Mapping[str, Any]) -> None:
        """Remember the relevance that an update gives to entries, with its thresholds and action."""
        limits = update.get("thresholds")
        about = (
            ", ".join(f"{name} {brief(value)}" for name, value in limits.items()) if isinstance(limits, dict) else ""
        )
        about = f" (thresholds {about})" if about else ""
        about += f"; action {update['action']}" if isinstance(update.get("action"), str) else ""
        for value in update.values():
            for entry in value if isinstance(value, list) else ():
                if isinstance(entry, dict) and isinstance(entry.get("relevance"), (int, float)):
                    self._why[_key(entry)] = f"relevance {entry['relevance']:.4g}{about}"

    def about(self, hit: Mapping[str, Any]) -> dict[str, Any]:
        """Decision, reason and deciding node of an entry."""
        key, text = _key(hit), str(hit.get("text", ""))
        decision, why, by = "", self._why.get(key, ""), ""
        if key in self._dropped:
            decision, why, by = "dropped", why or "left out of the entries", self._dropped[key]
        elif text and self._prompts:
            used = any(text in prompt for prompt in self._prompts)
            decision, by = "kept" if used else "dropped", self._narrowed
            why = f"{why}; " * bool(why) + f"its text is {'' if used else 'not '}in the prompt"
        return {"decision": decision, "why": why, "by": by}


def _key(entry: Any) -> str:
    return str(entry.get("entry_id") or entry.get("text") or "") if isinstance(entry, dict) else str(entry)


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
    start = request.offset("from")
    visible = trace.probes if request.static else trace.probes[start : start + MAX_PROBES]
    path = case_path(place, *key)
    end = start + MAX_PROBES
    questions = _by_question(probe_views(place, key, trace, visible))
    data = ViewData(
        setting=trace.setting,
        tags=facts(answers.read_case(position).get("tags", {})),
        edits=trace.edits,
        questions=questions,
        editors=list(dict.fromkeys(probe.record.editor for probes in questions for probe in probes)),
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
    return Page(head, ViewData(text=f"{status.text}; the page loads again by itself."))


def read_trace(request: PageRequest, place: RunPlace, answers: RunAnswers, position: int) -> Trace:
    """The trace of a case.

    Raises:
        BadData: a damaged line.
    """
    case = answers.read_case(position)["case"]
    with request.library.index(place) as index:
        return trace_case(place.folder, case, index=index)


def _beside(place: RunPlace, answers: RunAnswers, position: int) -> str:
    return case_path(place, *answers.key_of(position)) if 0 <= position < answers.cases else ""


def probe_views(place: RunPlace, key: CaseKey, trace: Trace, probes: Sequence[TracedProbe]) -> list[ViewData]:
    """Answers with all that led to them; a probe may go through the graph in several passes."""
    case_edits = frozenset(str(edit["id"]) for edit in trace.edits)
    views = []
    for probe in probes:
        ways = trace.ways.get(probe.record.editor)
        view = ViewData(
            **dict(answer_view(place, probe.record, key)),
            log_probs=log_probs(probe.record),
            cost=probe_cost(probe.record),
            passes=pass_views(probe.steps, ways, case_edits),
            graph=graph_view(ways, probe.steps),
            judged=[ViewData(item=item, steps=flat_steps(item.steps)) for item in probe.judged],
        )
        views.append(view)
    return views


def _by_question(probes: Sequence[ViewData]) -> list[list[ViewData]]:
    """The answers to the same question together."""
    members: dict[tuple[str, str], list[ViewData]] = {}
    for probe in probes:
        members.setdefault((probe.record.probe, probe.record.prompt), []).append(probe)
    return list(members.values())


def failure_view(line: Mapping[str, Any], ways: GraphEdges | None = None, number: int = 0, href: str = "") -> ViewData:
    """A failed unit with the steps up to the failure."""
    return ViewData(line=line, steps=flat_steps(line.get("steps", ()), ways), number=number, href=href)
