"""Views of the steps of a probe: retrieved entries, prompts, replies and state updates of nodes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from emend.evals.log.lines import split_passes
from emend.evals.show.report.traces.case_text import SHOWN_SEPARATELY, is_routed
from emend.evals.show.report.traces.values import (
    brief,
    content_of,
    entry_texts,
    grown_by,
    is_conversation,
    step_cost,
)
from emend.evals.show.trace.case_trace import new_hits
from emend.evals.show.trace.graph_paths import GraphEdges
from emend.evals.show.view.views import NamedValue, ViewData

# Number of characters of a text that are shown, followed by the number of those left out.
MAX_TEXT = 20_000
MAX_HITS, MAX_MESSAGES = 100, 200


def pass_views(
    steps: Sequence[dict[str, Any]],
    ways: GraphEdges | None,
    case_edits: frozenset[str] = frozenset(),
) -> tuple[tuple[ViewData, ...], ...]:
    """Return views of the steps of a probe, by pass of the graph.

    A view shows the entries that a node retrieved, its prompt and reply, and the fields that it
    wrote into the state. `start_ms` counts from the first step; `repeats` is True if an earlier
    step of the same node wrote the same update.

    Args:
        steps: steps of one probe.
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
            start = 0.0
            if step["at"] and begin:
                start = (step["at"] - begin) * 1000
            timing = {
                "routed": is_routed(step, last, ways),
                "repeats": repeats,
                "start_ms": max(0.0, start),
            }
            views.append(ViewData(**timing, **_step_fields(step, state, decided, case_edits)))
            state, last = state | (step["update"] or {}), step
        passes.append(tuple(views))
    return tuple(passes)


def flat_steps(
    steps: Sequence[dict[str, Any]], ways: GraphEdges | None = None
) -> tuple[ViewData, ...]:
    """Return the views of the steps of all passes as one sequence."""
    return tuple(step for part in pass_views(steps, ways) for step in part)


def _step_fields(
    step: dict[str, Any], state: dict[str, Any], decided: "Decisions", case_edits: frozenset[str]
) -> dict[str, Any]:
    update, hits = step["update"] or {}, None
    if isinstance(update.get("hits"), list):
        entries = [hit for hit in update["hits"] if isinstance(hit, dict)]
        hits = hit_views(new_hits(entries, state.get("hits") or ()), case_edits, decided)
    prompt, reply = None, None
    # the messages of a conversation are shown as a field
    if "prompt" in update and not is_conversation(state):
        prompt = shortened(update["prompt"])
    if "reply" in update:
        reply = shortened(update["reply"])
    return {
        "number": step["place"],
        "node": step["node"],
        "ms": step["ms"] or 0.0,
        "about": step_cost(step),
        "hits": hits,
        "prompt": prompt,
        "reply": reply,
        "fields": list(_fields(update, state)),
        "calls": list(map(_call, step["calls"])),
        "error": step["error"] or "",
    }


def shortened(value: Any) -> str:
    """Convert a value to text, truncated to `MAX_TEXT` characters."""
    if isinstance(value, str):
        text = value
    else:
        text = brief(value)
    left = len(text) - MAX_TEXT
    if left <= 0:
        return text
    return f"{text[:MAX_TEXT]}\n… {left:,} more characters"


def _fields(update: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[ViewData]:
    """Yield the fields of an update that are not shown elsewhere in the view.

    Fields that are unchanged or still empty are left out; if a value was only appended to, only
    the new part is shown.
    """
    for name, value in update.items():
        nothing = value in ("", [], False, None) and name not in before
        if name in SHOWN_SEPARATELY or value == before.get(name) or nothing:
            continue
        grown, new = grown_by(value, before.get(name))
        if isinstance(new, list) and new and all(isinstance(entry, dict) for entry in new):
            for entry in new[:MAX_MESSAGES]:
                aside, text = entry_texts(entry)
                if aside and len(aside) < 80:
                    title = f"{name}, {aside}"
                else:
                    title = name
                if title == name and aside:
                    text = f"{aside}\n{text}"
                yield ViewData(name=title, text=shortened(text), grown=grown)
        else:
            yield ViewData(name=name, text=shortened(new), grown=grown)


def _call(call: dict[str, Any]) -> ViewData:
    """Return the view of a call to a model, with its retries.

    Messages and replies that are already shown as the step's prompt or reply are left out.
    """
    if call["messages_field"]:
        messages = ()
    else:
        messages = call["messages"][:MAX_MESSAGES]
    reply = None
    if call["reply"] and not call["reply_field"]:
        reply = _message(call["reply"])
    return ViewData(
        messages=tuple(map(_message, messages)),
        reply=reply,
        finish=call["finish"],
        cached=call["cached"],
        error=call["error"] or "",
        retries=call["retries"],
    )


def _message(message: dict[str, Any]) -> ViewData:
    tools = tuple(
        NamedValue(
            name=str(call["function"].get("name", "")),
            value=shortened(call["function"].get("arguments", "")),
        )
        for call in message.get("tool_calls") or ()
    )
    text = shortened(content_of({**message, "tool_calls": ()}))
    return ViewData(role=str(message.get("role", "")), text=text, tools=tools)


def hit_views(
    hits: Sequence[Mapping[str, Any]], case_edits: frozenset[str], decided: "Decisions"
) -> tuple[ViewData, ...]:
    """Return views of the first `MAX_HITS` retrieved entries, with the decision on each of them."""
    views = list[ViewData]()
    for rank, hit in enumerate(hits[:MAX_HITS], 1):
        score = hit.get("score")
        if not isinstance(score, (int, float)):
            score = None
        view = ViewData(
            rank=rank,
            text=shortened(hit.get("text", "")),
            score=score,
            of_case=str(hit.get("edit_id", "")) in case_edits,
            **decided.about(hit),
        )
        views.append(view)
    return tuple(views)


class Decisions:
    """Decisions on the retrieved entries of a pass: kept or dropped, by which node and why.

    An entry was dropped by the node that removed it from the state's `hits`. An entry that is
    still in `hits` at the end was kept if its text is in a prompt that was sent, else dropped. The
    reasons are taken from the scores and thresholds that nodes wrote.

    Args:
        steps: steps of the pass.
    """

    def __init__(self, steps: Sequence[dict[str, Any]]) -> None:
        self._dropped: dict[str, str] = {}
        self._why: dict[str, str] = {}
        self._narrowed = ""
        self._prompts = [str((step["update"] or {}).get("prompt", "")) for step in steps]
        self._prompts += [
            content_of(each)
            for step in steps
            for call in step["calls"]
            for each in call["messages"]
        ]
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
                if before is not None:
                    self._narrowed = step["node"]
                before = update["hits"]

    def _note_scores(self, update: Mapping[str, Any]) -> None:
        """Record the relevance of entries in an update, with its thresholds and action."""
        limits = update.get("thresholds")
        about = ""
        if isinstance(limits, dict):
            about = ", ".join(f"{name} {brief(value)}" for name, value in limits.items())
        if about:
            about = f" (thresholds {about})"
        if isinstance(update.get("action"), str):
            about += f"; action {update['action']}"
        for value in update.values():
            for entry in value if isinstance(value, list) else ():
                if isinstance(entry, dict) and isinstance(entry.get("relevance"), (int, float)):
                    self._why[_key(entry)] = f"relevance {entry['relevance']:.4g}{about}"

    def about(self, hit: Mapping[str, Any]) -> dict[str, Any]:
        """Return the decision on an entry, its reason and the node that decided."""
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
    if isinstance(entry, dict):
        return str(entry.get("entry_id") or entry.get("text") or "")
    return str(entry)
