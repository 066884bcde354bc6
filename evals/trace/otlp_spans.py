"""A run as spans: case, probe, node, call to a model, named by the conventions of OpenTelemetry for generative AI.

Their names are those of https://opentelemetry.io/docs/specs/semconv/gen-ai/; viewers that read OpenInference's
(https://github.com/Arize-ai/openinference, spec/semantic_conventions.md) find these as well. Texts that people or
models wrote are only there when they are asked for; names, ids, numbers and classes of errors always are.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from emend.evals.case import Record
from emend.evals.trace.case_trace import new_hits
from emend.evals.trace.judged_steps import JudgedItem
from emend.evals.trace.otlp_messages import messages_of
from emend.memory.edit import content_id
from emend.memory.probe import LOCAL_PROVIDER

Value = str | int | float | bool | Sequence[str]
KIND = "openinference.span.kind"


class Event(NamedTuple):
    """Something that befell while a span lasted; `at` in seconds since 1970."""

    name: str
    at: float
    attributes: dict[str, Value]


@dataclass
class Span:
    """One span; its id and its parent's are made from `key`, so that the same step is the same span at every export.

    `start` and `end` are in seconds since 1970; `remote` is whether another process did the work.
    """

    name: str
    key: tuple[str, ...]
    start: float
    end: float
    attributes: dict[str, Value] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    error: str = ""
    remote: bool = False

    @property
    def trace_id(self) -> int:
        """Of the trace that its unit is, 128 bits."""
        return _number(16, "trace", *self.key[:2])

    @property
    def span_id(self) -> int:
        """64 bits."""
        return _number(8, "span", *self.key)

    @property
    def parent_id(self) -> int | None:
        """That of the span around it; None for a unit's or run's own."""
        return _number(8, "span", *self.key[:-1]) if len(self.key) > 2 else None


def _number(size: int, *parts: str) -> int:
    """Never 0, which is no id."""
    return int.from_bytes(hashlib.sha256(json.dumps(parts).encode()).digest()[:size], "big") or 1


@dataclass(frozen=True)
class Unit:
    """What a trace is made of: the records of one case under one editor, the steps, and what judges said of them."""

    run: str
    number: int
    records: Sequence[Record]
    steps: Mapping[str, Sequence[dict[str, Any]]]
    judged: Mapping[str, Sequence[JudgedItem]]
    content: bool = False
    began: float = 0.0
    """When the run began: for a unit of which no step tells a time."""


def spans_of(unit: Unit) -> Iterator[Span]:
    """The spans of a unit, each before those within it.

    The unit's own is `case N`; under it one per probe; under these the nodes, and the judges with theirs; calls to
    models are under the node that made them.
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
        "emend.standing": first.standing,
    }
    start, end = min(spans[0].start for spans in probes), max(spans[0].end for spans in probes)
    yield Span(f"case {unit.number} {first.editor}", key, start, end, attributes)
    for spans in probes:
        yield from spans


def _starts(unit: Unit) -> list[float]:
    """When each probe began: its first step; of one whose steps tell no time, behind or before the probe beside it."""
    timed = [[step["at"] for step in unit.steps.get(one.probe, ()) if step["at"]] for one in unit.records]
    starts: list[float | None] = [min(times, default=None) for times in timed]
    took = [record.seconds for record in unit.records]
    if not any(timed):
        starts[0] = unit.began
    for place in range(1, len(starts)):
        before = starts[place - 1]
        if starts[place] is None and before is not None:
            starts[place] = before + took[place - 1]
    for place in reversed(range(len(starts) - 1)):
        after = starts[place + 1]
        if starts[place] is None and after is not None:
            starts[place] = after - took[place]
    return [start or unit.began for start in starts]


def _probe(unit: Unit, above: tuple[str, ...], record: Record, start: float) -> Iterator[Span]:
    key = (*above, record.probe)
    steps = list(_steps(key, unit.steps.get(record.probe, ()), unit.content, start))
    end = max([start + record.seconds, *(span.end for span in steps)])
    probe = Span(f"probe {record.kind}", key, start, end, _probe_attributes(unit, record))
    probe.events = list(_results(record, end, unit.content))
    yield probe
    yield from steps
    for place, one in enumerate(unit.judged.get(record.probe, ())):
        yield from _judged((*key, f"judged {place}"), one, unit.content, end)


def _probe_attributes(unit: Unit, record: Record) -> dict[str, Value]:
    told: dict[str, Value] = {
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
        told |= {"input.value": record.prompt, "output.value": record.reply or record.answer or ""}
        told["emend.gold"] = list(record.gold)
    return told


def _results(record: Record, at: float, content: bool) -> Iterator[Event]:
    """Each score as the conventions have evaluations; why there is none may quote the reply, and is a text then."""
    name = "gen_ai.evaluation.result"
    for metric, value in record.values.items():
        yield Event(name, at, {"gen_ai.evaluation.name": metric, "gen_ai.evaluation.score.value": value})
    for metric, why in record.unscored.items():
        told = {"gen_ai.evaluation.explanation": why} if content else {}
        yield Event(name, at, {"gen_ai.evaluation.name": metric, "gen_ai.evaluation.score.label": "unscored", **told})


def _steps(above: tuple[str, ...], steps: Sequence[dict[str, Any]], content: bool, began: float) -> Iterator[Span]:
    """The steps, and the calls in them; one that tells no time stands behind the one before it."""
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
    """Of the hits that a walk gathers a step tells its own."""
    update = step["update"] or {}
    told: dict[str, Value] = {KIND: "CHAIN", "emend.node": step["node"], "emend.place": step["place"]}
    hits = new_hits(update["hits"], before.get("hits", ())) if "hits" in update else None
    if (documents := update.get("searched", hits)) is not None:  # a wider search's own before what it lets stand
        told |= {KIND: "RETRIEVER", "gen_ai.operation.name": "retrieval"}
        for place, hit in enumerate(documents):
            told |= _document(f"retrieval.documents.{place}.document", hit, content)
    if content:
        told |= {"output.value": json.dumps(update, ensure_ascii=False), "output.mime_type": "application/json"}
    return told


def _document(name: str, hit: dict[str, Any], content: bool) -> dict[str, Value]:
    """A passage that was found; one of no edit goes by the id of its own, one that was judged has its verdict."""
    document = str(hit.get("edit_id") or hit.get("entry_id", ""))
    told: dict[str, Value] = {f"{name}.id": document, f"{name}.score": float(hit.get("score", 0.0))}
    if "relevance" in hit:
        told[f"{name}.metadata"] = json.dumps({key: hit[key] for key in ("relevance", "kept") if key in hit})
    if content:
        told[f"{name}.content"] = str(hit.get("text", ""))
    return told


def _call(key: tuple[str, ...], call: dict[str, Any], content: bool) -> Span:
    name, spent = call["kind"], (call["input_tokens"], call["output_tokens"])
    told: dict[str, Value] = {
        KIND: "LLM",
        "gen_ai.operation.name": name,
        "gen_ai.provider.name": call["provider"],
        "gen_ai.request.model": call["model"],
        "gen_ai.usage.input_tokens": spent[0],
        "gen_ai.usage.output_tokens": spent[1],
        "llm.model_name": call["model"],
        "llm.token_count.prompt": spent[0],
        "llm.token_count.completion": spent[1],
        "llm.token_count.total": sum(spent),
        "emend.cached": call["cached"],
    }
    if call["finish"]:
        told["gen_ai.response.finish_reasons"] = [call["finish"]]
    if content:
        told |= messages_of(call)
    span = Span(f"{name} {call['model']}".strip(), key, call["at"], call["at"] + call["ms"] / 1000, told)
    span.events, span.error = [_retry(one) for one in call["retries"]], _error(call["error"], content)
    span.remote = call["provider"] != LOCAL_PROVIDER
    return span


def _retry(told: dict[str, Any]) -> Event:
    attributes = {"emend.attempt": told["attempt"], "emend.wait": told["wait"], "error.type": told["error"]}
    if told["status"]:
        attributes["http.response.status_code"] = told["status"]
    return Event("retry", told["at"], attributes)


def _judged(key: tuple[str, ...], one: JudgedItem, content: bool, answered: float) -> Iterator[Span]:
    said = one.judgement
    steps = list(_steps(key, one.steps, content, answered))
    start = min((span.start for span in steps), default=answered)
    end = max([start + said.seconds, *(span.end for span in steps)])
    told: dict[str, Value] = {KIND: "EVALUATOR", "emend.judge": said.judge, "emend.repeat": said.repeat}
    told |= {"emend.swapped": said.swapped, "emend.together": one.together}
    span = Span(f"judge {said.kind}", key, start, end, told)
    for name, value in said.values.items():
        result: dict[str, Value] = {"gen_ai.evaluation.name": name, "gen_ai.evaluation.score.value": value}
        if content and said.reason:
            result["gen_ai.evaluation.explanation"] = said.reason
        span.events.append(Event("gen_ai.evaluation.result", end, result))
    span.error = (said.problem if content else "unscored") if said.problem else ""
    yield span
    yield from steps


def spans_of_failure(run: str, number: int, line: dict[str, Any], content: bool = False) -> Iterator[Span]:
    """The spans of a unit that failed, as `errors.jsonl` tells, with the steps that led to it.

    Args:
        run: the run's id.
        number: the case's.
        line: of `errors.jsonl`, its steps as `told_steps` gives them.
        content: whether texts are told.
    """
    key = (run, str(line["unit"]))
    failed = datetime.fromisoformat(line["at"]).timestamp()
    steps = list(_steps((*key, str(line["probe"])), line["steps"], content, failed))
    start, end = min((span.start for span in steps), default=failed), max([failed, *(span.end for span in steps)])
    error = _error(f"{line['error']}: {line['message']}", content)
    told: dict[str, Value] = {KIND: "CHAIN", "session.id": run, "emend.case.id": line["case"]}
    told |= {"emend.case.number": number, "emend.editor": line["editor"], "emend.setting": line["setting"]}
    yield Span(f"case {number} {line['editor']}", key, start, end, told, error=error)
    if steps:
        asked: dict[str, Value] = {KIND: "AGENT", "emend.probe.id": line["probe"]}
        yield Span("probe", (*key, str(line["probe"])), start, end, asked, error=error)
        yield from steps


def _error(told: str | None, content: bool) -> str:
    """The message of an error may quote a reply; its class does not."""
    return (told or "") if content else (told or "").partition(":")[0]


def run_id(manifest: Mapping[str, Any]) -> str:
    """The same for a run however often it is resumed or sent, another one for every other run."""
    return content_id("otlp", *(manifest[name] for name in ("started", "cases", "model", "editors")))
