"""Spans of a run folder: one span of the run, and a trace per case and editor."""

from collections.abc import Iterator
from datetime import datetime
from itertools import groupby
from pathlib import Path

from opentelemetry.sdk.trace import ReadableSpan

from emend.evals.log.lines import CASES, COSTS, steps_from_events
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import read_lines, read_records
from emend.evals.log.run_index import RunIndex
from emend.evals.show.trace.case_trace import judged_steps, open_failures
from emend.evals.show.trace.otlp_spans import (
    SpanMaker,
    UnitTrace,
    Value,
    nanoseconds,
    spans_of,
    spans_of_failure,
)


def unit_spans(
    folder: Path,
    manifest: Manifest,
    maker: SpanMaker,
    case: str | None,
    editor: str | None,
    scoring: str | None,
) -> Iterator[list[ReadableSpan]]:
    """Yield the spans of each finished unit, then those of each failed unit.

    Args:
        folder: a run folder.
        manifest: manifest of the run.
        maker: maker of the run's spans.
        case: id of a case; None for all cases.
        editor: name of an editor; None for all editors.
        scoring: id of the scoring whose judgements are included, or `none`; None for the newest.
    """
    run_start = _seconds(manifest.started)
    numbers = {
        (line["setting"], line["case"]): int(line["number"]) for line in read_lines(folder, CASES)
    }
    judged, finished = judged_steps(folder, case, scoring), set[str]()
    with RunIndex(folder) as index:
        for unit, group in groupby(read_records(folder), key=lambda record: record.unit):
            records = list(group)
            first = records[0]
            finished.add(unit)
            if case in (None, first.case) and editor in (None, first.editor):
                number = numbers.get((first.setting, first.case), 0)
                steps = {
                    probe: list(steps_from_events(events))
                    for probe, events in index.events(unit).items()
                }
                judgements = {
                    record.probe: judged.get((unit, record.probe), []) for record in records
                }
                trace = UnitTrace(number, records, steps, judgements, run_start)
                yield list(spans_of(trace, maker))
    last = {line["unit"]: line for line in open_failures(folder, finished)}
    for line in last.values():
        if case in (None, line["case"]) and editor in (None, line["editor"]):
            number = numbers.get((line["setting"], line["case"]), 0)
            yield list(spans_of_failure(maker, number, line))


def run_span(folder: Path, manifest: Manifest, maker: SpanMaker) -> ReadableSpan:
    """Return the span of the run, which ends with its last process and is a trace of its own."""
    config, start = manifest.config, _seconds(manifest.started)
    ends = [
        line["at"]
        for line in read_lines(folder, COSTS)
        if line.get("act") == "run" and "at" in line
    ]
    end = max([start, *map(_seconds, ends)])
    attributes: dict[str, Value] = {
        "openinference.span.kind": "CHAIN",
        "session.id": maker.run,
        "emend.benchmark": config.benchmark,
        "gen_ai.request.model": config.model,
        "emend.editors": list(config.editors),
    }
    name, times = f"run {config.benchmark}", (nanoseconds(start), nanoseconds(end))
    return maker.span(name, (maker.run,), *times, attributes)


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()
