"""Steps as lines of `events.jsonl`, and back: written short, read with every text in its place."""

from collections.abc import Iterable, Iterator
from typing import Any

from emend.memory.probe import ModelCall, Retry, Step
from emend.memory.redaction import hide_keys

VERSION = 1
"""Value of `v` in a line of `events.jsonl`; older lines have no `v`, no `place` and no `calls`."""


def event_of(step: Step) -> dict[str, Any]:
    """Format a step as a line; fields of calls that have their default are left out."""
    return {
        "v": VERSION,
        "node": step.node,
        "place": step.place,
        "after": list(step.after),
        "at": round(step.at, 6),
        "ms": round(step.ms, 3),
        "update": step.update,
        "calls": [call.model_dump(mode="json", exclude_defaults=True) for call in step.calls],
        "error": step.error and hide_keys(step.error),
    }


def steps_from_events(events: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the steps of one probe from its lines, with the `messages` and `reply` of each call filled in.

    A text that a call shares with the state was kept in the state alone, see `ModelCall`; the state before a step is
    what the steps before it have put there.
    """
    state: dict[str, Any] = {}
    for event in events:
        place = event.get("place", 0)
        after = event.get("after", [place - 1] if place > 1 else [])  # older runs: in a line
        update = event.get("update") or {}
        calls = [_with_texts(ModelCall.model_validate(call), state, update) for call in event.get("calls", ())]
        fields = {name: event.get(name) for name in ("node", "ms", "update", "error", "at")}
        yield {**fields, "place": place, "after": after, "calls": [call.model_dump(mode="json") for call in calls]}
        state |= update


def _with_texts(call: ModelCall, before: dict[str, Any], after: dict[str, Any]) -> ModelCall:
    changed: dict[str, Any] = {}
    if call.messages_field:
        text = before.get(call.messages_field, after.get(call.messages_field, ""))
        changed["messages"] = tuple(text) if isinstance(text, list) else ({"role": "user", "content": text},)
    if call.reply_field:
        changed["reply"] = {"role": "assistant", "content": after.get(call.reply_field, "")}
    return call.model_copy(update=changed) if changed else call


def retries_of(step: dict[str, Any]) -> list[Retry]:
    """List every attempt of a step's calls that failed and was followed by another."""
    return [Retry.model_validate(retry) for call in step["calls"] for retry in call["retries"]]


def split_passes(steps: Iterable[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Divide steps by pass through the graph: a probe asked for a text and for probabilities goes through it twice."""
    passes: list[list[dict[str, Any]]] = []
    for step in steps:
        if not passes or 0 < step["place"] <= passes[-1][-1]["place"]:
            passes.append([])
        passes[-1].append(step)
    return passes
