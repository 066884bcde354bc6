"""The commands `emend analyse`, `compare` and `gate`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emend.evals.cli.options import Json, Plot, ReadRun, RunFolder, ScoringId, read_run
from emend.evals.cli.output import emit, print_text
from emend.memory.errors import BadSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from emend.evals.results.aggregate.gate import GateVerdict


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
    from emend.evals.show.report.analysis import render_analysis, show_possible

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
        from emend.evals.show.report.plots import plot_analysis

        plot_analysis(analysis, plot)


def compare(
    run_a: Annotated[
        Path, typer.Argument(metavar="RUN_A", parser=read_run, help="Run folder, the base of the comparison.")
    ],
    run_b: Annotated[
        Path | None,
        typer.Argument(
            metavar="RUN_B",
            parser=read_run,
            help="Another run on the same data; default: RUN_A, to compare two of its editors.",
        ),
    ] = None,
    editor_a: Annotated[
        str | None,
        typer.Option(
            "--editor-a", metavar="NAME", help="Editor of the first run; default: every editor that both runs have."
        ),
    ] = None,
    editor_b: Annotated[
        str | None,
        typer.Option("--editor-b", metavar="NAME", help="Editor of the second run; default: that of the first."),
    ] = None,
    checkpoint: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Compare the evaluations of a sequential run after N edits; 0: the first evaluation of each case.",
        ),
    ] = 0,
    scoring: ScoringId = None,
    as_json: Json = False,
) -> None:
    """Compare two runs, or two editors of one run, probe by probe: difference, interval and paired test."""
    from emend.evals.results.analyses.compare import compare as compare_runs
    from emend.evals.show.report.analysis import render_comparison

    comparison = compare_runs(run_a, run_b, editor_a, editor_b, checkpoint, scoring)
    rows = [row.model_dump(exclude={"paired"}) | row.paired.model_dump() for row in comparison.rows]
    rows += [coverage.model_dump() for coverage in comparison.coverage]
    emit(rows, as_json, lambda console: console.print(render_comparison(comparison)))


def gate(
    folder: RunFolder,
    min_efficacy: Annotated[
        float | None, typer.Option(metavar="PERCENT", help="Least share of edits that hold; default: no limit.")
    ] = None,
    max_forgetting: Annotated[
        float | None,
        typer.Option(
            metavar="POINTS", help="Most of it that earlier edits may lose under later ones; default: no limit."
        ),
    ] = None,
    max_ability_drop: Annotated[
        float | None,
        typer.Option(metavar="POINTS", help="Most that each task of --ability may lose; default: no limit."),
    ] = None,
    max_perplexity: Annotated[
        float | None,
        typer.Option(metavar="RATIO", help="Most that the perplexity of other texts may grow by; default: no limit."),
    ] = None,
    metric: Annotated[
        str, typer.Option(metavar="NAME", help="Metric of efficacy; default: the first of edited prompts alone.")
    ] = "",
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the checks into this file as JUnit XML; default: none.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check whether a run's edited model may be shipped; exit code 1 where it may not.

    After a run in mode sequential it names the last number of edits up to which all limits are kept.
    """
    from emend.evals.results.aggregate.gate import GateLimits, check_gate, write_junit
    from emend.evals.results.aggregate.rows import report as read_report

    limits = GateLimits(
        min_efficacy=min_efficacy,
        max_forgetting=max_forgetting,
        max_ability_drop=max_ability_drop,
        max_perplexity=max_perplexity,
        metric=metric,
    )
    report = read_report(folder)
    verdicts = check_gate(report, limits)
    rows = [verdict.model_dump() | {"passes": verdict.passes, "safe_edits": verdict.safe_edits} for verdict in verdicts]
    emit(rows, as_json, lambda console: _show(verdicts, console))
    if junit is not None:
        checks = [check for verdict in verdicts for check in verdict.checks]
        write_junit(checks, f"emend gate {report.benchmark} {report.model}", junit)
    if not all(verdict.passes for verdict in verdicts):
        raise typer.Exit(1)


def _show(verdicts: "Sequence[GateVerdict]", console: "Console") -> None:
    for verdict in verdicts:
        print_text(f"{verdict.editor}, {verdict.setting}, mode {verdict.mode}")
        for check in verdict.checks:
            edits = f"after {check.edits} edits, " if check.edits else ""
            print_text(f"  {'met' if check.met else 'NOT MET'}: {edits}{check.message}")
        safe = "none" if verdict.safe_edits is None else str(verdict.safe_edits)
        sequence = f"; last safe number of edits: {safe}" if verdict.checks[-1].edits else ""
        print_text(f"  {'passes' if verdict.passes else 'does NOT pass'}{sequence}")
