"""The command `emend trace`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emend.evals.cli.options import Json, print_rows
from emend.memory.errors import BadSettings

if TYPE_CHECKING:
    from emend.evals.trace.filters import Wanted


def trace(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    case: Annotated[
        str | None,
        typer.Argument(help="A case: its id, the beginning of it, or its number from 1; without it, all in short."),
    ] = None,
    probe: Annotated[str | None, typer.Option(help="Only this probe, by the beginning of its id.")] = None,
    editor: Annotated[str | None, typer.Option(help="Only this editor.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only probes of this kind.")] = None,
    node: Annotated[str | None, typer.Option(help="Only steps of this node.")] = None,
    grep: Annotated[str | None, typer.Option(help="Only steps that hold this text, in any of what they say.")] = None,
    errors: Annotated[bool, typer.Option("--errors", help="Only what failed, was retried or is unscored.")] = False,
    scoring: Annotated[str | None, typer.Option(help="Whose judgements: an id, or none; default the newest.")] = None,
    as_json: Json = False,
    as_md: Annotated[bool, typer.Option("--md", help="As Markdown, each prompt and reply whole.")] = False,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="The ways taken through the graphs, as Mermaid.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write --md or --mermaid into this file.")] = None,
    otlp: Annotated[str | None, typer.Option(help="Send it to this OTLP/HTTP address.")] = None,
    content: Annotated[bool, typer.Option("--content", help="With --otlp: texts of prompts and replies too.")] = False,
) -> None:
    """Show what happened to one case, step by step, or to all in short: prompts, replies, retrieval, times, errors."""
    from emend.evals.trace.filters import Wanted

    wanted = Wanted(node=node, grep=grep, errors=errors)
    forms = {"--json": as_json, "--md": as_md, "--mermaid": mermaid, "--otlp": otlp is not None}
    _check_forms([name for name, asked in forms.items() if asked], wanted, out is not None, content)
    _check_case(case, as_md, {"--probe": probe, "--scoring": scoring})
    if otlp is not None and (probe or kind):
        raise BadSettings("--otlp sends whole cases: leave out --probe and --kind.")
    if mermaid and scoring is not None:
        raise BadSettings("--mermaid draws no judges: leave out --scoring.")
    if otlp is not None:
        from emend.evals.trace.otlp_export import export

        sent = export(folder, otlp, case, editor, content, scoring)
        typer.echo(f"{sent.spans} spans of {sent.cases} cases were sent to {sent.address}.")
        return
    if mermaid:
        _draw(folder, case, probe, editor, kind, out)
    elif case is None:
        _all(folder, editor, kind, wanted, as_json)
    else:
        _one(folder, case, probe, editor, kind, wanted, scoring, as_json, as_md, out)


def _check_forms(given: list[str], wanted: "Wanted", out: bool, content: bool) -> None:
    """Refuse forms that do not go together.

    Raises:
        BadSettings: names the options.
    """
    if len(given) > 1:
        raise BadSettings(f"{' and '.join(given)} do not go together: give one of them.")
    if {"--mermaid", "--otlp"} & set(given) and not wanted.everything:
        raise BadSettings(f"{given[0]} takes whole probes: leave out --node, --grep and --errors.")
    if out and not {"--md", "--mermaid"} & set(given):
        raise BadSettings("--out is the file of --md or --mermaid: give one of them.")
    if content and given != ["--otlp"]:
        raise BadSettings("--content belongs to --otlp: give an address.")


def _check_case(case: str | None, as_md: bool, about: dict[str, str | None]) -> None:
    """Refuse what is said of one case where none is named.

    Raises:
        BadSettings: names the option.
    """
    needs = [name for name, value in about.items() if value is not None] + (["--md"] if as_md else [])
    if case is None and needs:
        raise BadSettings(f"{needs[0]} is about one case: name it, by its number for example.")


def _one(
    folder: Path,
    case: str,
    probe: str | None,
    editor: str | None,
    kind: str | None,
    wanted: "Wanted",
    scoring: str | None,
    as_json: bool,
    as_md: bool,
    out: Path | None,
) -> None:
    from emend.evals.trace.case_trace import rows
    from emend.evals.trace.case_trace import trace as trace_of

    found = trace_of(folder, case, probe, editor, kind, wanted, scoring)
    if as_json:
        print_rows(rows(found))
    elif as_md:
        from emend.evals.report.tracing_markdown import markdown

        _write(markdown(found), out)
    else:
        from emend.evals.report.table import console_for
        from emend.evals.report.tracing import show_trace

        show_trace(found, console_for())


def _all(folder: Path, editor: str | None, kind: str | None, wanted: "Wanted", as_json: bool) -> None:
    from emend.evals.trace.overview import overview

    found = overview(folder, editor, kind, wanted)
    if as_json:
        print_rows([row.model_dump() for row in (*found.nodes, *found.cases)])
        return
    from emend.evals.report.overview import show_overview
    from emend.evals.report.table import console_for

    show_overview(found, folder, wanted, console_for())


def _draw(
    folder: Path, case: str | None, probe: str | None, editor: str | None, kind: str | None, out: Path | None
) -> None:
    from emend.evals.trace.overview import paths_drawn

    _write(paths_drawn(folder, case, probe, editor, kind), out)


def _write(text: str, out: Path | None) -> None:
    """To a file, or to the screen.

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
