"""Steps as lines of `events.jsonl`, and back: written short, read with every text in its place."""

from collections.abc import Iterable, Iterator
from typing import Any

from emend.memory.probe import ModelCall, Retry, Step
from emend.memory.redaction import hide_keys

VERSION = 1
"""Of a line of `events.jsonl`, under `v`; lines without it are from before and have no `place` and no `calls`."""


def event_of(step: Step) -> dict[str, Any]:
    """What is kept of a step; calls without what is as usual."""
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


def told_steps(events: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The steps of one probe from its lines, in their order: `messages` and `reply` of each call are filled in.

    A text that a call shares with the state was kept in the state alone, see `ModelCall`; the state before a step is
    what the steps before it have put there.
    """
    state: dict[str, Any] = {}
    for event in events:
        place = event.get("place", 0)
        after = event.get("after", [place - 1] if place > 1 else [])  # older runs: in a line
        update = event.get("update") or {}
        calls = [_whole(ModelCall.model_validate(call), state, update) for call in event.get("calls", ())]
        kept = {name: event.get(name) for name in ("node", "ms", "update", "error", "at")}
        yield {**kept, "place": place, "after": after, "calls": [call.model_dump(mode="json") for call in calls]}
        state |= update


def _whole(call: ModelCall, before: dict[str, Any], after: dict[str, Any]) -> ModelCall:
    changed: dict[str, Any] = {}
    if call.messages_field:
        text = before.get(call.messages_field, after.get(call.messages_field, ""))
        changed["messages"] = ({"role": "user", "content": text},)
    if call.reply_field:
        changed["reply"] = {"role": "assistant", "content": after.get(call.reply_field, "")}
    return call.model_copy(update=changed) if changed else call


def retries_of(step: dict[str, Any]) -> list[Retry]:
    """Every attempt of a step's calls that failed and was followed by another."""
    return [Retry.model_validate(told) for call in step["calls"] for told in call["retries"]]


def passes_of(steps: Iterable[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The steps by run of the graph: a probe that is asked for a text and for probabilities goes through it twice."""
    found: list[list[dict[str, Any]]] = []
    for step in steps:
        if not found or 0 < step["place"] <= found[-1][-1]["place"]:
            found.append([])
        found[-1].append(step)
    return found
