"""The command `emend trace`."""

from pathlib import Path
from typing import Annotated

import typer

from emend.evals.cli.options import Json, RunFolder, ScoringId, exclusive, grouped
from emend.evals.cli.output import emit
from emend.evals.trace.filters import RecordFilter, StepFilter
from emend.memory.errors import BadSettings


@grouped
def trace(
    folder: RunFolder,
    records: RecordFilter,
    steps: StepFilter,
    case: Annotated[
        str | None,
        typer.Argument(
            metavar="CASE", help="Case: its number from 1, or the beginning of its id; default: an overview of all."
        ),
    ] = None,
    scoring: ScoringId = None,
    as_json: Json = False,
    as_md: Annotated[bool, typer.Option("--md", help="Print Markdown with each prompt and reply in full.")] = False,
    mermaid: Annotated[
        bool, typer.Option("--mermaid", help="Print the paths taken through the graphs as Mermaid text.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the output of --md or --mermaid into this file.")
    ] = None,
    otlp: Annotated[
        str | None, typer.Option(metavar="URL", help="Send the spans to this OTLP/HTTP address instead of printing.")
    ] = None,
    include_content: Annotated[
        bool, typer.Option("--include-content", help="With --otlp: include the texts of prompts and replies.")
    ] = False,
) -> None:
    """Show a case step by step: prompts, replies, retrieval, times and errors; or an overview of all cases."""
    from emend.evals.report.tracing import show_trace
    from emend.evals.report.tracing_markdown import markdown
    from emend.evals.trace.case_trace import rows
    from emend.evals.trace.case_trace import trace as trace_case

    form = exclusive({"--json": as_json, "--md": as_md, "--mermaid": mermaid, "--otlp": otlp})
    filters = records.model_dump() | steps.model_dump() | {"scoring": scoring}
    selected = {name for name, value in filters.items() if value}
    _check(form, selected, case, out, include_content)
    if otlp is not None:
        from emend.evals.trace.otlp_export import export

        sent = export(folder, otlp, case, records.editor, include_content, scoring)
        typer.echo(f"{sent.spans} spans of {sent.cases} cases were sent to {sent.address}.")
    elif mermaid:
        from emend.evals.trace.overview import draw_paths

        _write(draw_paths(folder, case, records), out)
    elif case is None:
        _show_overview(folder, records, steps, as_json)
    else:
        result = trace_case(folder, case, records, steps, scoring)
        if as_md:
            _write(markdown(result), out)
        else:
            emit(rows(result), as_json, lambda console: show_trace(result, console))


def _check(form: list[str], selected: set[str], case: str | None, out: Path | None, include_content: bool) -> None:
    """Refuse options that have no effect together.

    Raises:
        BadSettings: names the options.
    """
    if form in (["--mermaid"], ["--otlp"]) and selected & {"node", "grep", "errors"}:
        raise BadSettings(f"{form[0]} includes whole probes: leave out --node, --grep and --errors.")
    if out is not None and form not in (["--md"], ["--mermaid"]):
        raise BadSettings("--out is the file of --md or --mermaid: give one of them.")
    if include_content and form != ["--otlp"]:
        raise BadSettings("--include-content belongs to --otlp: give an address.")
    needs_case = [f"--{name}" for name in ("probe", "scoring", "md") if name in selected or f"--{name}" in form]
    if case is None and needs_case:
        raise BadSettings(f"{needs_case[0]} selects within one case: name it, by its number for example.")
    if form == ["--otlp"] and selected & {"probe", "kind"}:
        raise BadSettings("--otlp sends whole cases: leave out --probe and --kind.")
    if form == ["--mermaid"] and "scoring" in selected:
        raise BadSettings("--mermaid draws no judges: leave out --scoring.")


def _show_overview(folder: Path, records: RecordFilter, steps: StepFilter, as_json: bool) -> None:
    from emend.evals.report.tables.overview import show_overview
    from emend.evals.trace.overview import overview

    result = overview(folder, records, steps)
    emit((*result.nodes, *result.cases), as_json, lambda console: show_overview(result, folder, steps, console))


def _write(text: str, out: Path | None) -> None:
    """Print the text, or write it to a file.

    Raises:
        BadSettings: the file cannot be written.
    """
    if out is None:
        typer.echo(text)
        return
    try:
        out.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise BadSettings(f"cannot write '{out}': {error.strerror}. Give another --out FILE.") from error
    typer.echo(f"Written to {out}.")
