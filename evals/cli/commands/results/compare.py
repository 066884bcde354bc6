"""The command `emend compare`."""

from pathlib import Path
from typing import Annotated

import typer

from emend.evals.cli.options import Json, ScoringId, read_run
from emend.evals.cli.output import emit


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
    from emend.evals.show.report.tables.comparison import render_comparison

    comparison = compare_runs(run_a, run_b, editor_a, editor_b, checkpoint, scoring)
    rows = [row.model_dump(exclude={"paired"}) | row.paired.model_dump() for row in comparison.rows]
    rows += [coverage.model_dump() for coverage in comparison.coverage]
    emit(rows, as_json, lambda console: console.print(render_comparison(comparison)))
