"""The commands `emend analyse`, `compare` and `gate`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from emend.evals.cli.options import Json, Plot, RunFolder, ScoringId
from emend.evals.cli.output import emit, print_text
from emend.memory.errors import BadSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from emend.evals.results.aggregate.gate import GateVerdict


AnalysisName = Annotated[
    str | None,
    typer.Argument(
        metavar="ANALYSIS",
        help="Analysis to compute; default: list the analyses that the run supports.",
    ),
]
OtherRuns = Annotated[
    list[Path] | None,
    typer.Option(
        "--with", metavar="RUN", help="Another run to include in the analysis; repeatable."
    ),
]
Triples = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE",
        help="For the analysis triples, a file written by emend extract; repeatable.",
    ),
]


def analyse(
    run: RunFolder,
    kind: AnalysisName = None,
    also: OtherRuns = None,
    scoring: ScoringId = None,
    triples: Triples = None,
    metric: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="For the analysis scaling, a metric of the report; default: the first one.",
        ),
    ] = "",
    embedding: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="For the analysis triples, the embedding: auto, lexical, or a model.",
        ),
    ] = "auto",
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Compute an analysis from the papers, such as causes of failed edits: a table and a plot."""
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
        Path, typer.Argument(metavar="RUN_A", help="Run folder, the base of the comparison.")
    ],
    run_b: Annotated[
        Path | None,
        typer.Argument(
            metavar="RUN_B",
            help="Another run on the same data; default: RUN_A, to compare two of its editors.",
        ),
    ] = None,
    editor_a: Annotated[
        str | None,
        typer.Option(
            "--editor-a",
            metavar="NAME",
            help="Editor of the first run; default: all editors that both runs have.",
        ),
    ] = None,
    editor_b: Annotated[
        str | None,
        typer.Option(
            "--editor-b",
            metavar="NAME",
            help="Editor of the second run; default: that of the first.",
        ),
    ] = None,
    checkpoint: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="For sequential runs, compare the evaluations after N edits; 0 selects the first "
            "evaluation of each case.",
        ),
    ] = 0,
    scoring: ScoringId = None,
    as_json: Json = False,
) -> None:
    """Compare two runs, or two editors of one run, probe by probe: difference, interval and paired
    test.
    """
    from emend.evals.results.analyses.compare import compare as compare_runs
    from emend.evals.show.report.analysis import render_comparison

    comparison = compare_runs(run_a, run_b, editor_a, editor_b, checkpoint, scoring)
    rows = [row.model_dump(exclude={"paired"}) | row.paired.model_dump() for row in comparison.rows]
    rows += [coverage.model_dump() for coverage in comparison.coverage]
    emit(rows, as_json, lambda console: console.print(render_comparison(comparison)))


LeastEfficacy = Annotated[
    float | None,
    typer.Option(
        metavar="PERCENT",
        help="Minimum share of edits with the new answer, as 90 or 0.9; default: no limit.",
    ),
]
MostForgetting = Annotated[
    float | None,
    typer.Option(
        metavar="POINTS",
        help="Maximum loss of efficacy of earlier edits after later ones; default: no limit.",
    ),
]
MostAbilityDrop = Annotated[
    float | None,
    typer.Option(
        metavar="POINTS", help="Maximum loss in each task of --ability; default: no limit."
    ),
]
MostPerplexity = Annotated[
    float | None,
    typer.Option(
        metavar="RATIO",
        help="Maximum increase of the perplexity of unrelated texts; default: no limit.",
    ),
]

ComparedEnd = Annotated[
    str,
    typer.Option(
        metavar="mean|low",
        help="Value to compare with the limits: the mean, or the worse end of its 95% interval.",
    ),
]


def gate(
    folder: RunFolder,
    min_efficacy: LeastEfficacy = None,
    max_forgetting: MostForgetting = None,
    max_ability_drop: MostAbilityDrop = None,
    max_perplexity: MostPerplexity = None,
    metric: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Metric of efficacy; default: the headline metric, on edited prompts only.",
        ),
    ] = "",
    by: ComparedEnd = "mean",
    junit: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the checks to this file as JUnit XML; default: none."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check whether a run's edited model meets limits for deployment; exit code 1 if it does not.

    For runs in mode sequential it also prints the maximum number of edits within all limits.
    """
    from emend.evals.results.aggregate.gate import GateLimits, check_gate, compared_end
    from emend.evals.results.aggregate.junit import write_junit
    from emend.evals.results.aggregate.rows import report as read_report

    limits = GateLimits(
        min_efficacy=min_efficacy,
        max_forgetting=max_forgetting,
        max_ability_drop=max_ability_drop,
        max_perplexity=max_perplexity,
        metric=metric,
        by=compared_end(by),
    )
    report = read_report(folder)
    verdicts = check_gate(report, limits)
    emit(list(map(_verdict_row, verdicts)), as_json, lambda console: _show(verdicts, console))
    if junit is not None:
        checks = [check for verdict in verdicts for check in verdict.checks]
        write_junit(checks, f"emend gate {report.benchmark} {report.model}", junit)
    if not all(verdict.passes for verdict in verdicts):
        raise typer.Exit(1)


def _verdict_row(verdict: "GateVerdict") -> dict[str, Any]:
    return verdict.model_dump() | {"passes": verdict.passes, "safe_edits": verdict.safe_edits}


def _show(verdicts: "Sequence[GateVerdict]", console: "Console") -> None:
    for verdict in verdicts:
        print_text(f"{verdict.editor}, {verdict.setting}, mode {verdict.mode}")
        for check in verdict.checks:
            edits = f"after {check.edits} edits, " if check.edits else ""
            print_text(f"  {'met' if check.met else 'NOT MET'}: {edits}{check.message}")
        if verdict.safe_edits is None:
            safe = "none"
        else:
            safe = str(verdict.safe_edits)
        sequence = ""
        if verdict.checks[-1].edits:
            sequence = f"; last safe number of edits: {safe}"
        print_text(f"  {'passes' if verdict.passes else 'does NOT pass'}{sequence}")
