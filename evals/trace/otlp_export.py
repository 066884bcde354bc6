"""Sends a finished run's trace to a collector that speaks OTLP over HTTP; again sends the same spans, not more."""

import importlib.util
from collections.abc import Iterator
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from emend.evals.log.event_index import EventIndex
from emend.evals.log.events import told_steps
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import CASES, COSTS, ERRORS, read_lines, read_records
from emend.evals.trace.case_trace import find_case
from emend.evals.trace.judged_steps import judged_steps
from emend.evals.trace.otlp_spans import Span, Unit, run_id, spans_of, spans_of_failure
from emend.memory.errors import BadSettings, MissingExtra
from emend.memory.registry import nearest


class Sent(NamedTuple):
    """How many spans, and cases under an editor, were sent to which address."""

    spans: int
    cases: int
    address: str


def export(
    folder: Path,
    address: str,
    case: str | None = None,
    editor: str | None = None,
    content: bool = False,
    scoring: str | None = None,
) -> Sent:
    """Send the spans of a run, or of one case.

    Every case under an editor is a trace of its own, because a viewer opens a trace as a whole; it links to the trace
    of the run, which has one span. Headers, such as a key, are taken from `OTEL_EXPORTER_OTLP_HEADERS`.

    Args:
        folder: a run folder.
        address: of the collector, for example http://127.0.0.1:4318; `/v1/traces` is put behind it.
        case: its id, the beginning of it, or its number; all by default.
        editor: only this editor.
        content: send texts too: prompts, replies, retrieved entries, messages of errors.
        scoring: whose judgements: an id, or none; the newest by default.

    Raises:
        MissingExtra: the package that sends is not installed.
        BadSettings: no such case or editor, or the address is none.
        BadData: the folder holds no run, or a damaged line.
        ExportFailed: the collector is not there, or refuses.
    """
    if not _installed("opentelemetry.exporter.otlp.proto.http"):
        raise MissingExtra("--otlp needs a package: pip install 'emend[otel]'.")
    from emend.evals.trace.otlp_client import sending

    manifest = Manifest.read(folder)
    if editor is not None and editor not in manifest.config.editors:
        raise BadSettings(f"the run has no editor '{editor}': {nearest(editor, list(manifest.config.editors))}")
    wanted = None if case is None else str(find_case(folder, case)["case"])
    cases = 0
    with sending(address, manifest.versions.get("emend", "")) as send:
        run = _run_span(folder, manifest)
        send.put([run])
        for spans in _all_spans(folder, manifest, wanted, editor, content, scoring):
            send.put(spans, about=run)
            cases += 1
    return Sent(send.sent, cases, send.url)


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of a package around it
        return False


def _all_spans(
    folder: Path, manifest: Manifest, case: str | None, editor: str | None, content: bool, scoring: str | None
) -> Iterator[list[Span]]:
    """The spans of one unit after the other; at the end those of units that failed."""
    run, began = run_id(manifest.model_dump(mode="json")), datetime.fromisoformat(manifest.started).timestamp()
    numbers = {(line["setting"], line["case"]): int(line["number"]) for line in read_lines(folder, CASES)}
    judged, finished = judged_steps(folder, case, scoring), set[str]()
    with EventIndex(folder) as index:
        for unit, group in groupby(read_records(folder), key=lambda record: record.unit):
            records = list(group)
            first = records[0]
            finished.add(unit)
            if case in (None, first.case) and editor in (None, first.editor):
                number = numbers.get((first.setting, first.case), 0)
                steps = {probe: list(told_steps(events)) for probe, events in index.of(unit).items()}
                own = {record.probe: judged.get((unit, record.probe), []) for record in records}
                yield list(spans_of(Unit(run, number, records, steps, own, content, began)))
    failed = {line["unit"]: line for line in read_lines(folder, ERRORS) if line["unit"] not in finished}
    for line in failed.values():
        if case in (None, line["case"]) and editor in (None, line["editor"]):
            told = line | {"steps": list(told_steps(line.get("steps", ())))}
            yield list(spans_of_failure(run, numbers.get((line["setting"], line["case"]), 0), told, content))


def _run_span(folder: Path, manifest: Manifest) -> Span:
    config = manifest.config
    start = datetime.fromisoformat(manifest.started).timestamp()
    ends = [line["at"] for line in read_lines(folder, COSTS) if line.get("act") == "run" and "at" in line]
    end = max([start, *(datetime.fromisoformat(at).timestamp() for at in ends)])
    run = run_id(manifest.model_dump(mode="json"))
    told: dict[str, Any] = {"openinference.span.kind": "CHAIN", "session.id": run, "emend.benchmark": config.benchmark}
    told |= {"gen_ai.request.model": config.model, "emend.editors": list(config.editors)}
    return Span(f"run {config.benchmark}", (run,), start, end, told)
