"""The command `emend query`."""

from pathlib import Path
from typing import Annotated

import typer

from emend.evals.cli.options import Json, read_run
from emend.evals.cli.output import emit, print_text


def query(
    run: Annotated[Path, typer.Argument(metavar="RUN", parser=read_run, help="Run folder.")],
    sql: Annotated[
        str | None, typer.Argument(metavar="SQL", help="A SELECT of DuckDB; without one, the tables are listed.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write the rows to a file .parquet, .csv or .json (one per line)."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Ask a run's records, scores, cases, edits and errors in SQL.

    A query reads the run's tables and nothing else: no file, no server.
    """
    from emend.evals.results.aggregate.database import check_file, open_database
    from emend.evals.show.report.query import show_query

    if out is not None:
        check_file(out)
    with open_database(run, out) as tables:
        if sql is None:
            result = tables.tables()
        elif out is not None:
            tables.write(sql, out)
            print_text(f"The rows are in {out}")
            return
        else:
            result = tables.query(sql)
    rows = [dict(zip(result.columns, row, strict=True)) for row in result.rows]
    emit(rows, as_json, lambda console: show_query(result, console))
