"""Steps of graphs as the viewer shows them: prompts, calls, retrieved entries with the decision on each, and errors."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from emend.evals.log.events import split_passes
from emend.evals.show.report.state_values import brief, entry_texts, grown_by, is_conversation
from emend.evals.show.report.tracing import SAID_ELSEWHERE, content_of, is_routed, step_cost
from emend.evals.show.trace.case_trace import new_hits
from emend.evals.show.trace.graph_paths import GraphEdges
from emend.evals.show.view.views.case import CallView, FieldView, HitView, MessageView, StepView
from emend.evals.show.view.views.page import NamedValue

MAX_TEXT = 20_000
"""Characters of a text that are shown; the number of the others is said."""
MAX_HITS, MAX_MESSAGES = 100, 200


def pass_views(
    steps: Sequence[dict[str, Any]], ways: GraphEdges | None, case_edits: frozenset[str] = frozenset()
) -> tuple[tuple[StepView, ...], ...]:
    """The steps of a probe, pass by pass.

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
        views, state, last = list[StepView](), dict[str, Any](), dict[str, Any]()
        for step in part:
            before = updates.setdefault(step["node"], [])
            repeats = step["update"] in before
            before.append(step["update"])
            start = (step["at"] - begin) * 1000 if step["at"] and begin else 0.0
            routed = is_routed(step, last, ways)
            views.append(_step_view(step, state, decided, case_edits, repeats, routed, start))
            state, last = state | (step["update"] or {}), step
        passes.append(tuple(views))
    return tuple(passes)


def flat_steps(steps: Sequence[dict[str, Any]], ways: GraphEdges | None = None) -> tuple[StepView, ...]:
    """The steps of all passes after each other."""
    return tuple(step for part in pass_views(steps, ways) for step in part)


def _step_view(
    step: dict[str, Any],
    state: dict[str, Any],
    decided: "Decisions",
    case_edits: frozenset[str],
    repeats: bool,
    routed: bool,
    start: float,
) -> StepView:
    update = step["update"] or {}
    conversation, hits = is_conversation(state), update.get("hits")
    hits = [hit for hit in hits if isinstance(hit, dict)] if isinstance(hits, list) else None
    return StepView(
        place=step["place"],
        node=step["node"],
        ms=step["ms"] or 0.0,
        start_ms=max(0.0, start),
        routed=routed,
        repeats=repeats,
        about=step_cost(step),
        hits=None if hits is None else hit_views(new_hits(hits, state.get("hits") or ()), case_edits, decided),
        prompt=_text(update["prompt"]) if "prompt" in update and not conversation else None,
        reply=_text(update["reply"]) if "reply" in update else None,
        fields=tuple(_fields(update, state)),
        calls=tuple(map(_call, step["calls"])),
        error=step["error"] or "",
    )


def _text(value: Any) -> str:
    """A text, cut where it is longer than a page can show."""
    text = value if isinstance(value, str) else brief(value)
    left = len(text) - MAX_TEXT
    return text if left <= 0 else f"{text[:MAX_TEXT]}\n… {left:,} more characters"


def _fields(update: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[FieldView]:
    """Fields of an update that are shown nowhere else, without those that stayed the same or are still empty."""
    for name, value in update.items():
        nothing = value in ("", [], False, None) and name not in before
        if name in SAID_ELSEWHERE or value == before.get(name) or nothing:
            continue
        grown, new = grown_by(value, before.get(name))
        if isinstance(new, list) and new and all(isinstance(entry, dict) for entry in new):
            for entry in new[:MAX_MESSAGES]:
                aside, text = entry_texts(entry)
                title = f"{name}, {aside}" if aside and len(aside) < 80 else name
                yield FieldView(
                    name=title, text=_text(text if title != name or not aside else f"{aside}\n{text}"), grown=grown
                )
        else:
            yield FieldView(name=name, text=_text(new), grown=grown)


def _call(call: dict[str, Any]) -> CallView:
    messages = () if call["messages_field"] else call["messages"][:MAX_MESSAGES]
    return CallView(
        messages=tuple(map(_message, messages)),
        reply=_message(call["reply"]) if call["reply"] and not call["reply_field"] else None,
        finish=call["finish"],
        cached=call["cached"],
        error=call["error"] or "",
        retries=tuple(call["retries"]),
    )


def _message(message: dict[str, Any]) -> MessageView:
    tools = tuple(
        NamedValue(name=str(call["function"].get("name", "")), value=_text(call["function"].get("arguments", "")))
        for call in message.get("tool_calls") or ()
    )
    text = _text(content_of({**message, "tool_calls": ()}))
    return MessageView(role=str(message.get("role", "")), text=text, tools=tools)


def hit_views(
    hits: Sequence[Mapping[str, Any]], case_edits: frozenset[str], decided: "Decisions | None" = None
) -> tuple[HitView, ...]:
    """Retrieved entries, the best first, with the decision on each."""
    return tuple(
        HitView(
            place=place,
            text=_text(hit.get("text", "")),
            score=hit["score"] if isinstance(hit.get("score"), (int, float)) else None,
            edit_id=str(hit.get("edit_id", "")),
            of_case=str(hit.get("edit_id", "")) in case_edits,
            **(decided.about(hit) if decided else {}),
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
        why = self._why.get(key, "")
        if key in self._dropped:
            return {"decision": "dropped", "why": why or "left out of the entries", "by": self._dropped[key]}
        if text and self._prompts:
            used = any(text in prompt for prompt in self._prompts)
            use = "its text is in the prompt" if used else "its text is not in the prompt"
            return {
                "decision": "kept" if used else "dropped",
                "why": "; ".join([*([why] if why else []), use]),
                "by": self._narrowed,
            }
        return {"why": why}


def _key(entry: Any) -> str:
    return str(entry.get("entry_id") or entry.get("text") or "") if isinstance(entry, dict) else str(entry)
