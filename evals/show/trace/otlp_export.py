"""Export of a finished run's trace to a collector over OTLP/HTTP; exporting again sends the same spans, not more."""

from collections.abc import Iterator
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from emend.evals.log.lines import CASES, COSTS, steps_from_events
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import read_lines, read_records
from emend.evals.log.run_index import RunIndex
from emend.evals.show.trace.answers import check_name
from emend.evals.show.trace.case_trace import find_case, judged_steps, open_failures
from emend.evals.show.trace.otlp_spans import Span, UnitTrace, Value, run_id, spans_of, spans_of_failure
from emend.memory.distribution import install_command
from emend.memory.errors import MissingExtra


class ExportSummary(NamedTuple):
    """Number of exported spans and of cases under an editor, and the collector's address."""

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
) -> ExportSummary:
    """Send the spans of a run, or of one case.

    Every case under an editor is a trace of its own, because a viewer opens a trace as a whole; it links to the trace
    of the run, which has one span. Headers, such as a key, are taken from `OTEL_EXPORTER_OTLP_HEADERS`.

    Args:
        folder: a run folder.
        address: of the collector, for example http://127.0.0.1:4318; `/v1/traces` is appended.
        case: its id, the beginning of it, or its number; all by default.
        editor: only this editor.
        content: include texts: prompts, replies, retrieved entries, messages of errors.
        scoring: whose judgements: an id, or none; the newest by default.

    Raises:
        MissingExtra: the package for sending is not installed.
        BadSettings: no such case or editor, or the address is invalid.
        BadData: the folder holds no run, or a damaged line.
        ExportFailed: the collector does not answer, or refuses.
    """
    try:
        from emend.evals.show.trace.otlp_client import send
    except ImportError as error:
        raise MissingExtra(f"--otlp needs a package: {install_command('otel')}.") from error

    manifest = Manifest.read(folder)
    check_name("the run has no editor", editor, manifest.config.editors)
    with RunIndex(folder) as index:
        case_id = None if case is None else str(find_case(index, case)["case"])
    run, cases = _run_span(folder, manifest), 0

    def spans() -> Iterator[Span]:
        nonlocal cases
        yield run
        for first, *others in _unit_spans(folder, manifest, case_id, editor, content, scoring):
            first.link, cases = run, cases + 1
            yield from (first, *others)

    sent, url = send(spans(), address, manifest.versions.get("emend", ""))
    return ExportSummary(sent, cases, url)


def _unit_spans(
    folder: Path, manifest: Manifest, case: str | None, editor: str | None, content: bool, scoring: str | None
) -> Iterator[list[Span]]:
    """The spans of one unit after the other; at the end those of units that failed."""
    run, run_start = run_id(manifest.model_dump(mode="json")), _seconds(manifest.started)
    numbers = {(line["setting"], line["case"]): int(line["number"]) for line in read_lines(folder, CASES)}
    judged, finished = judged_steps(folder, case, scoring), set[str]()
    with RunIndex(folder) as index:
        for unit, group in groupby(read_records(folder), key=lambda record: record.unit):
            records = list(group)
            first = records[0]
            finished.add(unit)
            if case in (None, first.case) and editor in (None, first.editor):
                number = numbers.get((first.setting, first.case), 0)
                steps = {probe: list(steps_from_events(events)) for probe, events in index.events(unit).items()}
                judgements = {record.probe: judged.get((unit, record.probe), []) for record in records}
                yield list(spans_of(UnitTrace(run, number, records, steps, judgements, content, run_start)))
    last = {line["unit"]: line for line in open_failures(folder, finished)}
    for line in last.values():
        if case in (None, line["case"]) and editor in (None, line["editor"]):
            yield list(spans_of_failure(run, numbers.get((line["setting"], line["case"]), 0), line, content))


def _run_span(folder: Path, manifest: Manifest) -> Span:
    config, start = manifest.config, _seconds(manifest.started)
    ends = [line["at"] for line in read_lines(folder, COSTS) if line.get("act") == "run" and "at" in line]
    run = run_id(manifest.model_dump(mode="json"))
    attributes: dict[str, Value] = {
        "openinference.span.kind": "CHAIN",
        "session.id": run,
        "emend.benchmark": config.benchmark,
        "gen_ai.request.model": config.model,
        "emend.editors": list(config.editors),
    }
    return Span(f"run {config.benchmark}", (run,), start, max([start, *map(_seconds, ends)]), attributes)


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()
