"""Export of a run's trace to a collector over OTLP/HTTP.

A repeated export sends the same spans.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from emend.evals.log.manifest import Manifest
from emend.evals.log.run_index import RunIndex
from emend.evals.show.trace.case_trace import find_case
from emend.evals.show.trace.verdicts import check_name
from emend.memory.distribution import install_command
from emend.memory.edit import content_id
from emend.memory.errors import MissingExtra

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan


class ExportSummary(NamedTuple):
    """Number of exported spans and of (case, editor) pairs, and the address of the collector."""

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

    Each case under an editor is a separate trace, because viewers open a trace as a whole; it links
    to the trace of the run, which has one span. Headers, such as an API key, are taken from
    `OTEL_EXPORTER_OTLP_HEADERS`.

    Args:
        folder: a run folder.
        address: collector, for example http://127.0.0.1:4318; `/v1/traces` is appended.
        case: id of a case, the beginning of the id, or number of the case; default: all cases.
        editor: export only this editor.
        content: include texts: prompts, replies, retrieved entries, error messages.
        scoring: id of the scoring whose judgements are included, or `none`; default: the newest.

    Raises:
        MissingExtra: the package for sending is not installed.
        BadSettings: the case or editor is unknown, or the address is invalid.
        BadData: the folder does not contain a run, or a line is damaged.
        ExportFailed: the collector does not answer, or refuses the request.
    """
    try:
        from emend.evals.show.trace.otlp_client import send
        from emend.evals.show.trace.otlp_run import run_span, unit_spans
        from emend.evals.show.trace.otlp_spans import SpanMaker
    except ImportError as error:
        raise MissingExtra(f"--otlp needs a package: {install_command('otel')}.") from error

    manifest = Manifest.read(folder)
    check_name("the run has no editor", editor, manifest.config.editors)
    case_id = None if case is None else _case_id(folder, case)
    maker = SpanMaker(run_id(manifest), content, manifest.versions.get("emend", ""))
    cases = 0

    def spans() -> Iterator["ReadableSpan"]:
        nonlocal cases
        yield run_span(folder, manifest, maker)
        for unit in unit_spans(folder, manifest, maker, case_id, editor, scoring):
            cases += 1
            yield from unit

    sent, url = send(spans(), address)
    return ExportSummary(sent, cases, url)


def _case_id(folder: Path, case: str) -> str:
    with RunIndex(folder) as index:
        return str(find_case(index, case)["case"])


def run_id(manifest: Manifest) -> str:
    """Return the id of a run, which stays the same if the run is resumed or exported again."""
    fields = manifest.model_dump(mode="json")
    return content_id("otlp", *(fields[name] for name in ("started", "cases", "model", "editors")))
