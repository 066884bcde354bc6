"""Spans of a run: case, probe, node, model call, named by OpenTelemetry's conventions for generative AI.

The names are those of https://opentelemetry.io/docs/specs/semconv/gen-ai/, with those of OpenInference
(https://github.com/Arize-ai/openinference, spec/semantic_conventions.md) that viewers such as Phoenix read. Texts that
people or models wrote are only included on request; names, ids, numbers and classes of errors always are.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from emend.evals.case import Record
from emend.evals.show.trace.case_trace import JudgedItem, new_hits
from emend.memory.edit import content_id
from emend.memory.probe import LOCAL_PROVIDER

Value = str | int | float | bool | Sequence[str]
KIND = "openinference.span.kind"


class SpanEvent(NamedTuple):
    """An event during a span; `at` in seconds since 1970."""

    name: str
    at: float
    attributes: dict[str, Value]


@dataclass
class Span:
    """One span; its id and its parent's are made from `key`, so that the same step is the same span at every export.

    `start` and `end` are in seconds since 1970; `remote` means that another process did the work; `link` is in another
    trace.
    """

    name: str
    key: tuple[str, ...]
    start: float
    end: float
    attributes: dict[str, Value] = field(default_factory=dict)
    events: list[SpanEvent] = field(default_factory=list)
    error: str = ""
    remote: bool = False
    link: "Span | None" = None

    @property
    def trace_id(self) -> int:
        """Id of the trace of its unit, 128 bits."""
        return _number(16, "trace", *self.key[:2])

    @property
    def span_id(self) -> int:
        """Id of the span, 64 bits."""
        return _number(8, "span", *self.key)

    @property
    def parent_id(self) -> int | None:
        """Id of the enclosing span; None for a unit's or run's own."""
        return _number(8, "span", *self.key[:-1]) if len(self.key) > 2 else None


def _number(size: int, *parts: str) -> int:
    """Digest of the parts in `size` bytes; never 0, which is no id."""
    return int.from_bytes(hashlib.sha256(json.dumps(parts).encode()).digest()[:size], "big") or 1


@dataclass(frozen=True)
class UnitTrace:
    """Records of one case under one editor, by probe the steps and the judgements; exported as one trace."""

    run: str
    number: int
    records: Sequence[Record]
    steps: Mapping[str, Sequence[dict[str, Any]]]
    judged: Mapping[str, Sequence[JudgedItem]]
    content: bool = False
    run_start: float = 0.0
    """Start of the run, for a unit none of whose steps has a time."""


def spans_of(unit: UnitTrace) -> Iterator[Span]:
    """Yield the spans of a unit, each before those within it.

    The unit's own is `case N`; under it is one per probe; under these are the nodes, and the judges with theirs; model
    calls are under the node that made them.
    """
    first = unit.records[0]
    key = (unit.run, first.unit)
    starts = _starts(unit)
    probes = [list(_probe(unit, key, record, start)) for record, start in zip(unit.records, starts, strict=True)]
    attributes: dict[str, Value] = {
        KIND: "CHAIN",
        "session.id": unit.run,
        "emend.case.id": first.case,
        "emend.case.number": unit.number,
        "emend.editor": first.editor,
        "emend.setting": first.setting,
        "emend.mode": first.mode,
        "emend.repeat": first.repeat,
        "emend.checkpoint": first.checkpoint,
        "emend.active_edits": first.active_edits,
    }
    start, end = min(spans[0].start for spans in probes), max(spans[0].end for spans in probes)
    yield Span(f"case {unit.number} {first.editor}", key, start, end, attributes)
    for spans in probes:
        yield from spans


def _starts(unit: UnitTrace) -> list[float]:
    """Start of each probe: its first step; without times, after or before the probe beside it."""
    times = [[step["at"] for step in unit.steps.get(record.probe, ()) if step["at"]] for record in unit.records]
    first = next((place for place, known in enumerate(times) if known), 0)
    starts = [min(times[first], default=unit.run_start)]
    for record in reversed(unit.records[:first]):
        starts.insert(0, starts[0] - record.seconds)
    for before, known in zip(unit.records[first:], times[first + 1 :], strict=False):
        starts.append(min(known, default=starts[-1] + before.seconds))
    return starts


def _probe(unit: UnitTrace, above: tuple[str, ...], record: Record, start: float) -> Iterator[Span]:
    key = (*above, record.probe)
    steps = list(_steps(key, unit.steps.get(record.probe, ()), unit.content, start))
    end = max([start + record.seconds, *(span.end for span in steps)])
    probe = Span(f"probe {record.kind}", key, start, end, _probe_attributes(unit, record))
    probe.events = list(_results(record, end, unit.content))
    yield probe
    yield from steps
    for place, item in enumerate(unit.judged.get(record.probe, ())):
        yield from _judged((*key, f"judged {place}"), item, unit.content, end)


def _probe_attributes(unit: UnitTrace, record: Record) -> dict[str, Value]:
    attributes: dict[str, Value] = {
        KIND: "AGENT",
        "session.id": unit.run,
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": record.editor,
        "gen_ai.request.model": record.model,
        "gen_ai.usage.input_tokens": record.usage.input_tokens,
        "gen_ai.usage.output_tokens": record.usage.output_tokens,
        "emend.probe.id": record.probe,
        "emend.probe.kind": record.kind,
        "emend.calls": record.usage.calls,
        "emend.retries": record.usage.retries,
        "emend.unscored": sorted(record.unscored),
    }
    if unit.content:
        attributes |= {"input.value": record.prompt, "output.value": record.reply or record.answer or ""}
        attributes["emend.gold"] = list(record.gold)
    return attributes


def _results(record: Record, at: float, content: bool) -> Iterator[SpanEvent]:
    """Each score as an evaluation event; the reason for a missing one may quote the reply, and counts as content."""
    for metric, value in record.values.items():
        yield _evaluation(at, metric, "gen_ai.evaluation.score.value", value)
    for metric, why in record.unscored.items():
        yield _evaluation(at, metric, "gen_ai.evaluation.score.label", "unscored", why if content else "")


def _evaluation(at: float, metric: str, name: str, value: Value, why: str = "") -> SpanEvent:
    reason: dict[str, Value] = {"gen_ai.evaluation.explanation": why} if why else {}
    return SpanEvent("gen_ai.evaluation.result", at, {"gen_ai.evaluation.name": metric, name: value, **reason})


def _steps(above: tuple[str, ...], steps: Sequence[dict[str, Any]], content: bool, began: float) -> Iterator[Span]:
    """The steps, and the calls in them; a step without a time follows the one before it."""
    last, state = began, dict[str, Any]()
    for place, step in enumerate(steps):
        state = {} if step["place"] <= 1 else state
        start = step["at"] or last
        end = last = start + step["ms"] / 1000
        key = (*above, f"{place} {step['node']}")
        span = Span(step["node"], key, start, end, _node_attributes(step, state, content))
        state = state | (step["update"] or {})
        span.error = _error(step["error"], content)
        yield span
        for number, call in enumerate(step["calls"]):
            yield _call((*key, f"call {number}"), call, content)


def _node_attributes(step: dict[str, Any], before: dict[str, Any], content: bool) -> dict[str, Value]:
    update = step["update"] or {}
    attributes: dict[str, Value] = {KIND: "CHAIN", "emend.node": step["node"], "emend.place": step["place"]}
    hits = new_hits(update["hits"], before.get("hits", ())) if "hits" in update else None
    if (documents := update.get("searched", hits)) is not None:  # a wider search's own before what it lets stand
        attributes |= {KIND: "RETRIEVER", "gen_ai.operation.name": "retrieval"}
        for place, hit in enumerate(documents):
            attributes |= _document(f"retrieval.documents.{place}.document", hit, content)
    if content:
        attributes |= {"output.value": json.dumps(update, ensure_ascii=False), "output.mime_type": "application/json"}
    return attributes


def _document(name: str, hit: dict[str, Any], content: bool) -> dict[str, Value]:
    """A retrieved passage: the id of its edit or else its own, and the verdict of a relevance judge if there is one."""
    document = str(hit.get("edit_id") or hit.get("entry_id", ""))
    attributes: dict[str, Value] = {f"{name}.id": document, f"{name}.score": float(hit.get("score", 0.0))}
    if "relevance" in hit:
        attributes[f"{name}.metadata"] = json.dumps({key: hit[key] for key in ("relevance", "used") if key in hit})
    if content:
        attributes[f"{name}.content"] = str(hit.get("text", ""))
    return attributes


def _call(key: tuple[str, ...], call: dict[str, Any], content: bool) -> Span:
    name, tokens = call["kind"], (call["input_tokens"], call["output_tokens"])
    attributes: dict[str, Value] = {
        KIND: "LLM",
        "gen_ai.operation.name": name,
        "gen_ai.provider.name": call["provider"],
        "gen_ai.request.model": call["model"],
        "gen_ai.usage.input_tokens": tokens[0],
        "gen_ai.usage.output_tokens": tokens[1],
        "llm.model_name": call["model"],
        "llm.token_count.prompt": tokens[0],
        "llm.token_count.completion": tokens[1],
        "llm.token_count.total": sum(tokens),
        "emend.cached": call["cached"],
    }
    if call["finish"]:
        attributes["gen_ai.response.finish_reasons"] = [call["finish"]]
    if content:
        attributes |= _messages(call)
    span = Span(f"{name} {call['model']}".strip(), key, call["at"], call["at"] + call["ms"] / 1000, attributes)
    span.events, span.error = [_retry(retry) for retry in call["retries"]], _error(call["error"], content)
    span.remote = call["provider"] != LOCAL_PROVIDER
    return span


def _retry(retry: dict[str, Any]) -> SpanEvent:
    attributes = {"emend.attempt": retry["attempt"], "emend.wait": retry["wait"], "error.type": retry["error"]}
    if retry["status"]:
        attributes["http.response.status_code"] = retry["status"]
    return SpanEvent("retry", retry["at"], attributes)


def _judged(key: tuple[str, ...], item: JudgedItem, content: bool, answered: float) -> Iterator[Span]:
    judgement = item.judgement
    steps = list(_steps(key, item.steps, content, answered))
    start = min((span.start for span in steps), default=answered)
    end = max([start + judgement.seconds, *(span.end for span in steps)])
    attributes: dict[str, Value] = {KIND: "EVALUATOR", "emend.judge": judgement.judge, "emend.repeat": judgement.repeat}
    attributes |= {"emend.swapped": judgement.swapped, "emend.together": item.together}
    span = Span(f"judge {judgement.kind}", key, start, end, attributes)
    span.events = [
        _evaluation(end, name, "gen_ai.evaluation.score.value", value, judgement.reason if content else "")
        for name, value in judgement.values.items()
    ]
    span.error = (judgement.problem if content else "unscored") if judgement.problem else ""
    yield span
    yield from steps


def spans_of_failure(run: str, number: int, line: dict[str, Any], content: bool = False) -> Iterator[Span]:
    """Yield the spans of a failed unit, with the steps that led to the failure.

    Args:
        run: the run's id.
        number: the case's.
        line: of `errors.jsonl`, its steps as `steps_from_events` gives them.
        content: include texts.
    """
    key = (run, str(line["unit"]))
    failed = datetime.fromisoformat(line["at"]).timestamp()
    steps = list(_steps((*key, str(line["probe"])), line["steps"], content, failed))
    start, end = min((span.start for span in steps), default=failed), max([failed, *(span.end for span in steps)])
    error = _error(f"{line['error']}: {line['message']}", content)
    attributes: dict[str, Value] = {KIND: "CHAIN", "session.id": run, "emend.case.id": line["case"]}
    attributes |= {"emend.case.number": number, "emend.editor": line["editor"], "emend.setting": line["setting"]}
    yield Span(f"case {number} {line['editor']}", key, start, end, attributes, error=error)
    if steps:
        probe: dict[str, Value] = {KIND: "AGENT", "emend.probe.id": line["probe"]}
        yield Span("probe", (*key, str(line["probe"])), start, end, probe, error=error)
        yield from steps


def _error(message: str | None, content: bool) -> str:
    """The error's message, which may quote a reply, or only its class, which does not."""
    return (message or "") if content else (message or "").partition(":")[0]


def run_id(manifest: Mapping[str, Any]) -> str:
    """Make an id that stays the same however often a run is resumed or exported."""
    return content_id("otlp", *(manifest[name] for name in ("started", "cases", "model", "editors")))


def _messages(call: dict[str, Any]) -> dict[str, Value]:
    """Prompt and reply as attributes, in the format of either convention."""
    messages, replies = list(call["messages"]), [call["reply"]] if call["reply"] else []
    outputs = [_parts(message) | {"finish_reason": call["finish"] or "stop"} for message in replies]
    return {
        "gen_ai.input.messages": json.dumps([_parts(message) for message in messages], ensure_ascii=False),
        "gen_ai.output.messages": json.dumps(outputs, ensure_ascii=False),
        "input.value": "\n".join(_text(message) for message in messages),
        "output.value": "\n".join(_text(message) for message in replies),
    }


def _parts(message: dict[str, Any]) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"type": "text", "content": _text(message)}] if _text(message) else []
    for call in message.get("tool_calls", ()):
        parts.append({"type": "tool_call", "id": call["id"], **call["function"]})
    if message["role"] == "tool":
        parts = [{"type": "tool_call_response", "id": message.get("tool_call_id"), "response": _text(message)}]
    return {"role": message["role"], "parts": parts}


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
