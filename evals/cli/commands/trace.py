"""The commands `emend trace` and `view`."""

from pathlib import Path
from typing import Annotated

import typer
from pydantic import Field

from emend.evals.cli.options import RunFolder, ScoringId, exclusive, grouped
from emend.evals.cli.output import emit, print_text
from emend.evals.cli.viewer import PORT, ViewExportOptions, require_view, show_runs
from emend.evals.show.trace.filters import AnswerFilter, RecordFilter, StepFilter
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings
from emend.memory.files import write_export


class TraceOutput(FrozenModel):
    """Form of the output, at most one of four; by default a table for the terminal."""

    as_json: bool = Field(
        default=False, description='Print one JSON object, {"rows": ...}, and nothing else.'
    )
    md: bool = Field(
        default=False, description="Print Markdown with each prompt and reply in full."
    )
    mermaid: bool = Field(
        default=False, description="Print the paths taken through the graphs as Mermaid text."
    )
    out: Path | None = Field(
        default=None, description="Write the output of --md or --mermaid to this file."
    )
    otlp: str | None = Field(
        default=None, description="Send the spans to this OTLP/HTTP address instead of printing."
    )
    include_content: bool = Field(
        default=False, description="With --otlp, include the texts of prompts and replies."
    )

    @property
    def form(self) -> str:
        """Option that selects the form; empty for a table."""
        forms = {
            "--json": self.as_json,
            "--md": self.md,
            "--mermaid": self.mermaid,
            "--otlp": self.otlp,
        }
        return next(iter(exclusive(forms)), "")


@grouped
def trace(
    folder: RunFolder,
    records: RecordFilter,
    answers: AnswerFilter,
    steps: StepFilter,
    output: TraceOutput,
    case: Annotated[
        str | None,
        typer.Argument(
            metavar="CASE",
            help="Case: its number from 1, or the beginning of its id; default: an "
            "overview of all.",
        ),
    ] = None,
    scoring: ScoringId = None,
) -> None:
    """Show a case step by step: prompts, replies, retrieval, times and errors; or an overview of
    all cases, or a list of answers.
    """
    if records.editor is not None:
        from emend.evals.log.manifest import Manifest

        records = records.with_full_name(Manifest.read(folder).config.editors)
    filters = records.model_dump() | steps.model_dump() | {"scoring": scoring}
    selected = {name for name, value in filters.items() if value}
    _check(output, selected, case)
    if not answers.is_empty:
        _check_answers(output, selected, case)
        _show_answers(folder, answers, records, output.as_json)
    elif output.otlp is not None:
        from emend.evals.show.trace.otlp_export import export

        sent = export(folder, output.otlp, case, records.editor, output.include_content, scoring)
        print_text(f"{sent.spans} spans of {sent.cases} cases were sent to {sent.address}.")
    elif output.mermaid:
        from emend.evals.show.trace.overview import draw_paths

        _write(draw_paths(folder, case, records), output.out)
    elif case is None:
        _show_overview(folder, records, steps, output.as_json)
    else:
        from emend.evals.show.report.traces.case_text import markdown, show_trace
        from emend.evals.show.trace.case_trace import rows
        from emend.evals.show.trace.case_trace import trace as trace_case

        result = trace_case(folder, case, records, steps, scoring)
        if output.md:
            _write(markdown(result), output.out)
        else:
            emit(rows(result), output.as_json, lambda console: show_trace(result, console))


def _check(output: TraceOutput, selected: set[str], case: str | None) -> None:
    """Refuse options that have no effect together.

    Raises:
        BadSettings: options do not go together; the message names them.
    """
    if output.form in ("--mermaid", "--otlp") and selected & {"node", "grep", "errors"}:
        raise BadSettings(
            f"{output.form} includes whole probes: leave out --node, --grep and --errors."
        )
    if output.out is not None and output.form not in ("--md", "--mermaid"):
        raise BadSettings("--out is the file of --md or --mermaid: add one of them.")
    if output.include_content and output.otlp is None:
        raise BadSettings("--include-content needs --otlp: give its address.")
    needs_case = [
        f"--{name}"
        for name in ("probe", "scoring", "md")
        if name in selected or f"--{name}" == output.form
    ]
    if case is None and needs_case:
        raise BadSettings(
            f"{needs_case[0]} selects within one case: name the case, for example by its number."
        )
    if output.otlp is not None and selected & {"probe", "kind"}:
        raise BadSettings("--otlp sends whole cases: leave out --probe and --kind.")
    if output.mermaid and "scoring" in selected:
        raise BadSettings("--mermaid does not draw judges: leave out --scoring.")


def _check_answers(output: TraceOutput, selected: set[str], case: str | None) -> None:
    """Refuse options that do not go with a list of answers.

    Raises:
        BadSettings: options do not go together; the message names them.
    """
    further = [
        f"--{name}" for name in ("node", "grep", "errors", "scoring", "probe") if name in selected
    ]
    if case is not None or further or output.form not in ("", "--json"):
        further += [output.form] if output.form not in ("", "--json") else []
        words = further + (["CASE"] if case is not None else [])
        raise BadSettings(
            "--wrong, --right, --score and --where list answers of all cases: leave "
            f"out {words[0]}."
        )


def _show_answers(
    folder: Path, answers: AnswerFilter, records: RecordFilter, as_json: bool
) -> None:
    from emend.evals.show.report.traces.answer_list import show_answers
    from emend.evals.show.trace.answers import list_answers

    rows = list_answers(folder, answers, records)
    emit(rows, as_json, lambda console: show_answers(rows, folder, console))


def _show_overview(folder: Path, records: RecordFilter, steps: StepFilter, as_json: bool) -> None:
    from emend.evals.show.report.traces.run_overview import show_overview
    from emend.evals.show.trace.overview import overview

    result = overview(folder, records, steps)
    rows = (*result.nodes, *result.cases)
    emit(rows, as_json, lambda console: show_overview(result, folder, steps, console))


def _write(text: str, out: Path | None) -> None:
    """Print the text, or write it to a file.

    Raises:
        BadSettings: the file cannot be written.
    """
    if out is None:
        print_text(text)
        return
    write_export(out, text + "\n", "Give another --out FILE.")
    print_text(f"Written to {out}.")


@grouped
def view(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FOLDER",
            help="Run folders, or folders that contain run folders; default: runs.",
        ),
    ] = None,
    *,
    files: ViewExportOptions,
    port: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            max=65535,
            help="Port, or the next free one; 0 selects any free port.",
        ),
    ] = PORT,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Address to listen on; addresses other than localhost need --token.",
        ),
    ] = "127.0.0.1",
    token: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            envvar="EMEND_VIEW_TOKEN",
            help="Token that the browser must send, at least 16 characters; default: none.",
        ),
    ] = "",
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Do not open a browser.")
    ] = False,
) -> None:
    """Show runs in a browser: results, cases, traces and comparisons; or write the pages as
    files.
    """
    if files.requested:
        require_view()
        files.write(folders or [Path("runs")])
        return
    show_runs(folders or [Path("runs")], host, port, token, not no_browser)
