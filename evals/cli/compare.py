"""The command `emend compare`."""

from pathlib import Path
from typing import Annotated

import typer

from emend.evals.cli.options import Json, print_rows


def compare(
    run_a: Annotated[Path, typer.Argument(metavar="RUN_A", help="A run folder, the base of the comparison.")],
    run_b: Annotated[
        Path | None,
        typer.Argument(metavar="[RUN_B]", help="Another run on the same data; without it two editors of RUN_A."),
    ] = None,
    editor_a: Annotated[str | None, typer.Option("--editor-a", help="An editor of the first run.")] = None,
    editor_b: Annotated[str | None, typer.Option("--editor-b", help="An editor of the second.")] = None,
    checkpoint: Annotated[
        int, typer.Option(help="Compare what a sequence said when so many edits stood; 0: each case's first asking.")
    ] = 0,
    scoring: Annotated[
        str | None, typer.Option(help="Whose judgements: an id, or none; default the newest that both have.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare two runs, or two editors of one, probe by probe: difference, interval and test."""
    from emend.evals.analyses.compare import compare as compare_runs

    found = compare_runs(run_a, run_b, editor_a, editor_b, checkpoint, scoring)
    if as_json:
        rows = [row.model_dump(exclude={"paired"}) | row.paired.model_dump() for row in found.rows]
        print_rows([*rows, *(told.model_dump() for told in found.coverage)])
        return
    from emend.evals.report.comparison import show_comparison
    from emend.evals.report.table import console_for

    show_comparison(found, console_for())
