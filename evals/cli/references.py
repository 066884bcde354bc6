"""What `emend report --references` prints."""

from pathlib import Path
from typing import Annotated

import typer

from emend.evals.cli.options import print_rows

References = Annotated[
    Path | None,
    typer.Option(help="CounterFact's RS instead, against the reference texts in this folder.", metavar="FOLDER"),
]


def print_consistency(run: Path, references: Path, as_json: bool) -> None:
    """Print RS of a run on CounterFact.

    Raises:
        MissingData: a file of the references is absent.
        BadData: the run has no generated texts.
    """
    from emend.evals.aggregate.consistency import consistency_rows, consistency_table
    from emend.evals.report.table import console_for

    rows = consistency_rows(run, references)
    if as_json:
        print_rows([row.model_dump() for row in rows])
    else:
        console_for().print(consistency_table(rows))
