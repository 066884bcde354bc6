"""The command `emend analyse`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emend.evals.cli.options import Json, print_rows
from emend.memory.errors import BadSettings

if TYPE_CHECKING:
    from emend.evals.analyses.base import Analysis


def analyse(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    kind: Annotated[str | None, typer.Argument(help="An analysis; without it those that the run can have.")] = None,
    also: Annotated[
        list[Path] | None, typer.Option("--with", help="Another run to analyse beside it; may be given several times.")
    ] = None,
    scoring: Annotated[str | None, typer.Option(help="Whose judgements are taken; default the newest.")] = None,
    triples: Annotated[
        list[str] | None, typer.Option(help="For triples: a file of emend extract; may be given several times.")
    ] = None,
    metric: Annotated[str, typer.Option(help="For scaling: a metric of the report; default the first.")] = "",
    embedding: Annotated[str, typer.Option(help="For triples: auto, lexical, or a model.")] = "auto",
    plot: Annotated[Path | None, typer.Option(help="Draw it into this .png or .svg file.")] = None,
    as_json: Json = False,
) -> None:
    """Analyse a run as the papers do: why edits fail, and where; each analysis is a table and a plot."""
    from emend.evals.analyses.base import Asked
    from emend.evals.analyses.compute import analyse_runs, possible
    from emend.evals.analyses.load_run import open_run

    if kind is None:
        if plot is not None:
            raise BadSettings(f"--plot {plot}: name the analysis to draw, see: emend analyse {run}")
        _list(run, possible(open_run(run, scoring)), as_json)
        return
    if plot is not None:
        from emend.evals.report.plots.plotting import require_plotting

        require_plotting(plot)
    runs = [open_run(folder, scoring) for folder in (run, *(also or ()))]
    found = analyse_runs(kind, runs, Asked(tuple(triples or ()), metric, embedding))
    _tell(found, as_json)
    if plot is not None:
        from emend.evals.report.plots.analysis_plot import plot_analysis

        plot_analysis(found, plot)


def _tell(found: "Analysis", as_json: bool) -> None:
    if as_json:
        print_rows([row.model_dump(exclude={"x"}) for row in found.rows])
        return
    from emend.evals.report.analysis import show_analysis
    from emend.evals.report.table import console_for

    show_analysis(found, console_for())


def _list(run: Path, rows: list[tuple[str, str, str]], as_json: bool) -> None:
    if as_json:
        print_rows([{"name": name, "summary": summary, "lacks": why} for name, summary, why in rows])
        return
    from emend.evals.report.analysis import show_possible
    from emend.evals.report.table import console_for

    show_possible(rows, str(run), console_for())
