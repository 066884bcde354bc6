"""OpenTelemetry spans of a run: cases, probes, nodes and model calls.

Attributes are named by OpenTelemetry's conventions for generative AI
(https://opentelemetry.io/docs/specs/semconv/gen-ai/) and by OpenInference's
(https://github.com/Arize-ai/openinference, spec/semantic_conventions.md), which viewers such as
Phoenix read. Texts by people or models are only included on request; names, ids, numbers and error
classes are always included.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from emend.evals.case import Record
from emend.evals.show.trace.case_trace import JudgedItem, new_hits
from emend.memory.probe import LOCAL_PROVIDER

Value = str | int | float | bool | Sequence[str]
# Path of keys from the run to a span.
Key = tuple[str, ...]
KIND = "openinference.span.kind"


@dataclass(frozen=True)
class SpanMaker:
    """Factory of a run's OpenTelemetry spans, with the times of the run.

    Ids are derived from the key of a span, so that a step has the same span id in every export.

    Attributes:
        run: id of the run.
        content: include texts.
        version: version of Emend at the time of the run.
    """

    run: str
    content: bool = False
    version: str = ""

    @cached_property
    def _resource(self) -> Resource:
        return Resource.create({"service.name": "emend", "service.version": self.version})

    @cached_property
    def _scope(self) -> InstrumentationScope:
        return InstrumentationScope("emend", self.version)

    def span(
        self,
        name: str,
        key: Key,
        start: int,
        end: int,
        attributes: Mapping[str, Value],
        events: Sequence[Event] = (),
        error: str = "",
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> ReadableSpan:
        """Make a span.

        The span of a unit has no parent; it links to the span of the run, which is in another
        trace.

        Args:
            name: display name.
            key: keys of the enclosing spans followed by the span's own key; (run,) for a run, (run,
                unit) for a unit.
            start: nanoseconds since 1970.
            end: nanoseconds since 1970.
            attributes: attributes by name.
            events: events during the span.
            error: error message; empty if there was no error.
            kind: `CLIENT` for work of another process.
        """
        failure = {"error.type": error.partition(":")[0]} if error else {}
        return ReadableSpan(
            name,
            context=_context(key),
            parent=_context(key[:-1], key) if len(key) > 2 else None,
            resource=self._resource,
            attributes={**attributes, **failure},
            events=events,
            links=[Link(_context(key[:1]))] if len(key) == 2 else [],
            kind=kind,
            status=Status(StatusCode.ERROR, error) if error else Status(),
            start_time=start,
            end_time=end,
            instrumentation_scope=self._scope,
        )


def _context(key: Key, within: Key = ()) -> SpanContext:
    """Return the ids of a span: 128 bits for the trace of its unit, 64 bits for the span."""
    return SpanContext(
        _number(16, "trace", *(within or key)[:2]),
        _number(8, "span", *key),
        is_remote=False,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )


def _number(size: int, *parts: str) -> int:
    """Return a digest of the parts with `size` bytes; never 0, which is an invalid id."""
    return int.from_bytes(hashlib.sha256(json.dumps(parts).encode()).digest()[:size], "big") or 1


def nanoseconds(seconds: float) -> int:
    """Convert seconds to nanoseconds, rounded down to microseconds."""
    return int(seconds * 1_000_000) * 1000


@dataclass(frozen=True)
class UnitTrace:
    """Records of one case under one editor, with steps and judgements by probe.

    It is exported as one trace.
    """

    number: int
    records: Sequence[Record]
    steps: Mapping[str, Sequence[dict[str, Any]]]
    judged: Mapping[str, Sequence[JudgedItem]]
    run_start: float = 0.0
    """Start of the run in seconds since 1970, used if no step of the unit has a time."""


def spans_of(unit: UnitTrace, maker: SpanMaker) -> Iterator[ReadableSpan]:
    """Yield the spans of a unit, each span before its children.

    The root span is `case N EDITOR`, with a child per probe. The children of a probe are its nodes
    and its judges with their nodes. Model calls are children of the node that made them.
    """
    first = unit.records[0]
    key = (maker.run, first.unit)
    starts = _starts(unit)
    probes = [
        list(_probe(unit, maker, key, record, nanoseconds(start)))
        for record, start in zip(unit.records, starts, strict=True)
    ]
    attributes: dict[str, Value] = {
        KIND: "CHAIN",
        "session.id": maker.run,
        "emend.case.id": first.case,
        "emend.case.number": unit.number,
        "emend.editor": first.editor,
        "emend.setting": first.setting,
        "emend.mode": first.mode,
        "emend.repeat": first.repeat,
        "emend.checkpoint": first.checkpoint,
        "emend.active_edits": first.active_edits,
    }
    start, end = _bounds([spans[0] for spans in probes])
    yield maker.span(f"case {unit.number} {first.editor}", key, start, end, attributes)
    for spans in probes:
        yield from spans


def _bounds(spans: Sequence[ReadableSpan], *others: int) -> tuple[int, int]:
    """Return the earliest start and latest end of spans and other times, in nanoseconds."""
    starts = [span.start_time for span in spans if span.start_time is not None]
    ends = [span.end_time for span in spans if span.end_time is not None]
    return min(starts + [*others]), max(ends + [*others])


def _starts(unit: UnitTrace) -> list[float]:
    """Return the start of each probe in seconds: the time of its first step.

    Starts of probes without times are estimated from the neighbouring probe.
    """
    times = [
        [step["at"] for step in unit.steps.get(record.probe, ()) if step["at"]]
        for record in unit.records
    ]
    first = next((place for place, known in enumerate(times) if known), 0)
    starts = [min(times[first], default=unit.run_start)]
    for record in reversed(unit.records[:first]):
        starts.insert(0, starts[0] - record.seconds)
    for before, known in zip(unit.records[first:], times[first + 1 :], strict=False):
        starts.append(min(known, default=starts[-1] + before.seconds))
    return starts


def _probe(
    unit: UnitTrace, maker: SpanMaker, above: Key, record: Record, start: int
) -> Iterator[ReadableSpan]:
    key = (*above, record.probe)
    steps = list(_steps(maker, key, unit.steps.get(record.probe, ()), start))
    _, end = _bounds(steps, start + nanoseconds(record.seconds))
    attributes, events = _probe_attributes(maker, record), list(_results(maker, record, end))
    yield maker.span(f"probe {record.kind}", key, start, end, attributes, events)
    yield from steps
    for position, item in enumerate(unit.judged.get(record.probe, ())):
        yield from _judged(maker, (*key, f"judged {position}"), item, end)


def _probe_attributes(maker: SpanMaker, record: Record) -> dict[str, Value]:
    attributes: dict[str, Value] = {
        KIND: "AGENT",
        "session.id": maker.run,
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
    if maker.content:
        attributes |= {
            "input.value": record.prompt,
            "output.value": record.reply or record.answer or "",
        }
        attributes["emend.gold"] = list(record.gold)
    return attributes


def _results(maker: SpanMaker, record: Record, at: int) -> Iterator[Event]:
    """Yield each score as an evaluation event.

    The reason for a missing score is only included with content, as it may quote the reply.
    """
    for metric, value in record.values.items():
        yield _evaluation(at, metric, "gen_ai.evaluation.score.value", value)
    for metric, why in record.unscored.items():
        yield _evaluation(
            at, metric, "gen_ai.evaluation.score.label", "unscored", why if maker.content else ""
        )


def _evaluation(at: int, metric: str, name: str, value: Value, why: str = "") -> Event:
    reason: dict[str, Value] = {"gen_ai.evaluation.explanation": why} if why else {}
    attributes = {"gen_ai.evaluation.name": metric, name: value, **reason}
    return Event("gen_ai.evaluation.result", attributes, at)


def _steps(
    maker: SpanMaker, above: Key, steps: Sequence[dict[str, Any]], began: int
) -> Iterator[ReadableSpan]:
    """Yield the spans of steps and their calls; a step without time follows the previous one."""
    last, state = began, dict[str, Any]()
    for position, step in enumerate(steps):
        state = {} if step["place"] <= 1 else state
        start = nanoseconds(step["at"]) if step["at"] else last
        end = last = start + nanoseconds(step["ms"] / 1000)
        key = (*above, f"{position} {step['node']}")
        attributes = _node_attributes(step, state, maker.content)
        error = _error(step["error"], maker.content)
        yield maker.span(step["node"], key, start, end, attributes, error=error)
        state = state | (step["update"] or {})
        for number, call in enumerate(step["calls"]):
            yield _call(maker, (*key, f"call {number}"), call)


def _node_attributes(
    step: dict[str, Any], before: dict[str, Any], content: bool
) -> dict[str, Value]:
    update = step["update"] or {}
    attributes: dict[str, Value] = {
        KIND: "CHAIN",
        "emend.node": step["node"],
        "emend.place": step["place"],
    }
    hits = new_hits(update["hits"], before.get("hits", ())) if "hits" in update else None
    # the results of a wider search, if there are any, before it was narrowed to the hits
    if (documents := update.get("searched", hits)) is not None:
        attributes |= {KIND: "RETRIEVER", "gen_ai.operation.name": "retrieval"}
        for place, hit in enumerate(documents):
            attributes |= _document(f"retrieval.documents.{place}.document", hit, content)
    if content:
        attributes |= {
            "output.value": json.dumps(update, ensure_ascii=False),
            "output.mime_type": "application/json",
        }
    return attributes


def _document(name: str, hit: dict[str, Any], content: bool) -> dict[str, Value]:
    """Return the attributes of a retrieved passage.

    Its id is the id of its edit, or else its own; metadata has the verdict of a relevance judge, if
    there is one.
    """
    document = str(hit.get("edit_id") or hit.get("entry_id", ""))
    attributes: dict[str, Value] = {
        f"{name}.id": document,
        f"{name}.score": float(hit.get("score", 0.0)),
    }
    if "relevance" in hit:
        attributes[f"{name}.metadata"] = json.dumps(
            {key: hit[key] for key in ("relevance", "used") if key in hit}
        )
    if content:
        attributes[f"{name}.content"] = str(hit.get("text", ""))
    return attributes


def _call(maker: SpanMaker, key: Key, call: dict[str, Any]) -> ReadableSpan:
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
    if maker.content:
        attributes |= _messages(call)
    start, is_local = nanoseconds(call["at"]), call["provider"] == LOCAL_PROVIDER
    return maker.span(
        f"{name} {call['model']}".strip(),
        key,
        start,
        start + nanoseconds(call["ms"] / 1000),
        attributes,
        [_retry(retry) for retry in call["retries"]],
        _error(call["error"], maker.content),
        SpanKind.INTERNAL if is_local else SpanKind.CLIENT,
    )


def _retry(retry: dict[str, Any]) -> Event:
    attributes = {
        "emend.attempt": retry["attempt"],
        "emend.wait": retry["wait"],
        "error.type": retry["error"],
    }
    if retry["status"]:
        attributes["http.response.status_code"] = retry["status"]
    return Event("retry", attributes, nanoseconds(retry["at"]))


def _judged(maker: SpanMaker, key: Key, item: JudgedItem, answered: int) -> Iterator[ReadableSpan]:
    judgement = item.judgement
    steps = list(_steps(maker, key, item.steps, answered))
    start = _bounds(steps)[0] if steps else answered
    _, end = _bounds(steps, start + nanoseconds(judgement.seconds))
    attributes: dict[str, Value] = {
        KIND: "EVALUATOR",
        "emend.judge": judgement.judge,
        "emend.repeat": judgement.repeat,
    }
    attributes |= {"emend.swapped": judgement.swapped, "emend.together": item.together}
    reason = judgement.reason if maker.content else ""
    events = [
        _evaluation(end, name, "gen_ai.evaluation.score.value", value, reason)
        for name, value in judgement.values.items()
    ]
    error = (judgement.problem if maker.content else "unscored") if judgement.problem else ""
    yield maker.span(f"judge {judgement.kind}", key, start, end, attributes, events, error)
    yield from steps


def spans_of_failure(maker: SpanMaker, number: int, line: dict[str, Any]) -> Iterator[ReadableSpan]:
    """Yield the spans of a failed unit, with the steps that led to the failure.

    Args:
        maker: maker of the run's spans.
        number: number of the case.
        line: line of `errors.jsonl`, with steps as returned by `steps_from_events`.
    """
    key = (maker.run, str(line["unit"]))
    failed = nanoseconds(datetime.fromisoformat(line["at"]).timestamp())
    steps = list(_steps(maker, (*key, str(line["probe"])), line["steps"], failed))
    start = _bounds(steps)[0] if steps else failed
    _, end = _bounds(steps, failed)
    error = _error(f"{line['error']}: {line['message']}", maker.content)
    attributes: dict[str, Value] = {
        KIND: "CHAIN",
        "session.id": maker.run,
        "emend.case.id": line["case"],
        "emend.case.number": number,
        "emend.editor": line["editor"],
        "emend.setting": line["setting"],
    }
    name = f"case {number} {line['editor']}"
    yield maker.span(name, key, start, end, attributes, error=error)
    if steps:
        probe: dict[str, Value] = {KIND: "AGENT", "emend.probe.id": line["probe"]}
        yield maker.span("probe", (*key, str(line["probe"])), start, end, probe, error=error)
        yield from steps


def _error(message: str | None, content: bool) -> str:
    """Return an error message with content, else only its class, since it may quote a reply."""
    return (message or "") if content else (message or "").partition(":")[0]


def _messages(call: dict[str, Any]) -> dict[str, Value]:
    """Return prompt and reply as attributes in the formats of both conventions."""
    messages, replies = list(call["messages"]), [call["reply"]] if call["reply"] else []
    outputs = [_parts(message) | {"finish_reason": call["finish"] or "stop"} for message in replies]
    return {
        "gen_ai.input.messages": json.dumps(
            [_parts(message) for message in messages], ensure_ascii=False
        ),
        "gen_ai.output.messages": json.dumps(outputs, ensure_ascii=False),
        "input.value": "\n".join(_text(message) for message in messages),
        "output.value": "\n".join(_text(message) for message in replies),
    }


def _parts(message: dict[str, Any]) -> dict[str, Any]:
    parts: list[dict[str, Any]] = (
        [{"type": "text", "content": _text(message)}] if _text(message) else []
    )
    for call in message.get("tool_calls", ()):
        parts.append({"type": "tool_call", "id": call["id"], **call["function"]})
    if message["role"] == "tool":
        parts = [
            {
                "type": "tool_call_response",
                "id": message.get("tool_call_id"),
                "response": _text(message),
            }
        ]
    return {"role": message["role"], "parts": parts}


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
