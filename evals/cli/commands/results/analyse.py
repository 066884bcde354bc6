"""The command `emend analyse`."""

from pathlib import Path
from typing import Annotated

import typer

from emend.evals.cli.options import Json, Plot, ReadRun, ScoringId, read_run
from emend.evals.cli.output import emit
from emend.memory.errors import BadSettings


def analyse(
    run: ReadRun,
    kind: Annotated[
        str | None,
        typer.Argument(metavar="ANALYSIS", help="Analysis to compute; default: list those that fit the run."),
    ] = None,
    also: Annotated[
        list[Path] | None,
        typer.Option("--with", metavar="RUN", parser=read_run, help="Another run to analyse beside it; repeatable."),
    ] = None,
    scoring: ScoringId = None,
    triples: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="For the analysis triples: a file of emend extract; repeatable."),
    ] = None,
    metric: Annotated[
        str,
        typer.Option(metavar="NAME", help="For the analysis scaling: a metric of the report; default: the first one."),
    ] = "",
    embedding: Annotated[
        str, typer.Option(metavar="NAME", help="For the analysis triples: auto, lexical, or a model.")
    ] = "auto",
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Compute an analysis of the papers, such as why edits fail; each is a table and a plot."""
    from emend.evals.judging.judged_run import open_run
    from emend.evals.results.analyses.base import AnalysisRequest
    from emend.evals.results.analyses.registry import analyse_runs, possible
    from emend.evals.show.report.tables.analysis import render_analysis, show_possible

    if kind is None:
        if plot is not None:
            raise BadSettings(f"--plot {plot}: name the analysis to draw, see: emend analyse {run}")
        listed = possible(open_run(run, scoring))
        rows = [{"name": name, "summary": summary, "lacks": lack} for name, summary, lack in listed]
        emit(rows, as_json, lambda console: show_possible(listed, str(run), console))
        return
    runs = [open_run(folder, scoring) for folder in (run, *(also or ()))]
    analysis = analyse_runs(kind, runs, AnalysisRequest(tuple(triples or ()), metric, embedding))
    rows = [row.model_dump(exclude={"x"}) for row in analysis.rows]
    emit(rows, as_json, lambda console: console.print(render_analysis(analysis)))
    if plot is not None:
        from emend.evals.show.report.plots.analysis_plot import plot_analysis

        plot_analysis(analysis, plot)
