"""The command `emend trace`."""

from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field

from emend.evals.cli.options import Json, RunFolder, exclusive, grouped
from emend.evals.cli.output import emit
from emend.evals.trace.filters import RecordFilter, StepFilter
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings


class Selection(FrozenModel):
    """Parts of a run that are shown; None selects all."""

    probe: str | None = Field(default=None, description="Show only this probe: the beginning of its id.")
    editor: str | None = Field(default=None, description="Show only this editor.")
    kind: str | None = Field(default=None, description="Show only probes of this kind, such as efficacy.")
    node: str | None = Field(default=None, description="Show only steps of this node of the editor's graph.")
    grep: str | None = Field(
        default=None, description="Show only steps whose prompts, replies or state contain this text."
    )
    errors: bool = Field(default=False, description="Show only what failed, was retried or is unscored.")
    scoring: str | None = Field(
        default=None, description="Judgements to show: a scoring's id, or none; default: the newest."
    )

    @property
    def records(self) -> RecordFilter:
        """The filter on records."""
        return RecordFilter(probe=self.probe, editor=self.editor, kind=self.kind)

    @property
    def steps(self) -> StepFilter:
        """The filter on steps."""
        return StepFilter(node=self.node, grep=self.grep, errors=self.errors)


@grouped
def trace(
    folder: RunFolder,
    selection: Selection,
    case: Annotated[
        str | None,
        typer.Argument(
            metavar="CASE", help="Case: its number from 1, or the beginning of its id; default: an overview of all."
        ),
    ] = None,
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
    form = exclusive({"--json": as_json, "--md": as_md, "--mermaid": mermaid, "--otlp": otlp})
    _check(form, selection, case, out, include_content)
    if otlp is not None:
        from emend.evals.trace.otlp_export import export

        sent = export(folder, otlp, case, selection.editor, include_content, selection.scoring)
        typer.echo(f"{sent.spans} spans of {sent.cases} cases were sent to {sent.address}.")
    elif mermaid:
        from emend.evals.trace.overview import draw_paths

        _write(draw_paths(folder, case, selection.records), out)
    elif case is None:
        _show_overview(folder, selection, as_json)
    else:
        _show_case(folder, case, selection, as_json, as_md, out)


def _check(form: list[str], selection: Selection, case: str | None, out: Path | None, include_content: bool) -> None:
    """Refuse options that have no effect together.

    Raises:
        BadSettings: names the options.
    """
    given: dict[str, Any] = {f"--{name}": value for name, value in selection.model_dump().items() if value}
    needs_case = [name for name in ("--probe", "--scoring") if name in given] + (["--md"] if form == ["--md"] else [])
    if form in (["--mermaid"], ["--otlp"]) and not selection.steps.is_empty:
        raise BadSettings(f"{form[0]} includes whole probes: leave out --node, --grep and --errors.")
    if out is not None and form not in (["--md"], ["--mermaid"]):
        raise BadSettings("--out is the file of --md or --mermaid: give one of them.")
    if include_content and form != ["--otlp"]:
        raise BadSettings("--include-content belongs to --otlp: give an address.")
    if case is None and needs_case:
        raise BadSettings(f"{needs_case[0]} selects within one case: name it, by its number for example.")
    if form == ["--otlp"] and given.keys() & {"--probe", "--kind"}:
        raise BadSettings("--otlp sends whole cases: leave out --probe and --kind.")
    if form == ["--mermaid"] and "--scoring" in given:
        raise BadSettings("--mermaid draws no judges: leave out --scoring.")


def _show_case(folder: Path, case: str, selection: Selection, as_json: bool, as_md: bool, out: Path | None) -> None:
    from emend.evals.report.tracing import show_trace
    from emend.evals.report.tracing_markdown import markdown
    from emend.evals.trace.case_trace import rows
    from emend.evals.trace.case_trace import trace as trace_case

    found = trace_case(folder, case, selection.records, selection.steps, selection.scoring)
    if as_md:
        _write(markdown(found), out)
    else:
        emit(rows(found), as_json, lambda console: show_trace(found, console))


def _show_overview(folder: Path, selection: Selection, as_json: bool) -> None:
    from emend.evals.report.tables.overview import show_overview
    from emend.evals.trace.overview import overview

    steps = selection.steps
    found = overview(folder, selection.records, steps)
    rows = (*found.nodes, *found.cases)
    emit(rows, as_json, lambda console: show_overview(found, folder, steps, console))


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
