"""The commands `emend report` and `query`."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import BaseModel, Field

from emend.evals.cli.options import (
    Json,
    Junit,
    Require,
    ScoringId,
    check_thresholds,
    enforce_thresholds,
    exclusive,
    grouped,
)
from emend.evals.cli.output import emit, print_text
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings

if TYPE_CHECKING:
    from emend.evals.results.aggregate.rows import Report
    from emend.evals.results.aggregate.tables import LabelledReport, TableChoice


QueryFile = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="Write the rows of the query to a .parquet, .csv or .json file (one row per line).",
    ),
]


Sql = Annotated[
    str | None,
    typer.Option(
        "--sql",
        metavar="SQL",
        help="Query the run's records, scores, cases, edits and errors with a DuckDB SELECT; an "
        "empty text lists the tables.",
    ),
]


class ReportOutput(FrozenModel):
    """Options on form and content of the tables."""

    as_json: bool = Field(
        default=False, description='Print one JSON object, {"rows": ...}, and nothing else.'
    )
    format: str | None = Field(
        default=None, description="Print csv, markdown, latex or html instead of tables."
    )
    columns: str | None = Field(
        default=None,
        description="Metrics to show, in this order, separated by commas; default: the main ones.",
    )
    sort: str | None = Field(
        default=None, description="Sort rows by this metric, best first; default: order of the run."
    )
    all: bool = Field(
        default=False, description="Also show secondary metrics, forgetting, perplexity and costs."
    )
    svg: Path | None = Field(default=None, description="Also write the tables to this SVG file.")

    @property
    def choice(self) -> "TableChoice":
        """Content of the tables."""
        from emend.evals.results.aggregate.tables import TableChoice

        columns = tuple(name.strip() for name in (self.columns or "").split(",") if name.strip())
        return TableChoice(columns, self.sort, self.all)


@grouped
def report(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="RUN", help="Run folders; several are shown in the same tables."),
    ],
    output: ReportOutput,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE",
            help="Compare with a published table, such as akew:2; see: emend reproduce.",
        ),
    ] = None,
    scoring: ScoringId = None,
    sql: Sql = None,
    out: QueryFile = None,
    references: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Print only CounterFact's RS, computed against the reference "
            "texts in this folder.",
        ),
    ] = None,
    require: Require = None,
    junit: Junit = None,
) -> None:
    """Print metrics of one or several runs with 95 % intervals, or compare a run with published
    figures.
    """
    from emend.evals.results.aggregate.tables import load_reports

    check_thresholds(require, junit)
    special = {"--references": references, "--against": against, "--sql": sql}
    _check(output, special | {"--require": require}, folders, scoring)
    if out is not None and sql is None:
        raise BadSettings("--out is the file of --sql: give a query, or use --format.")
    if sql is not None:
        _ask(folders[0], sql, out, output.as_json)
    elif references is not None:
        _show_consistency(folders[0], references, output.as_json)
    elif against is not None:
        _show_against(folders[0], against, scoring, output.as_json)
    else:
        reports = load_reports(folders, scoring)
        _show_reports(folders, reports, output)
        enforce_thresholds(reports[0].report, require, junit)


def _check(
    output: ReportOutput, special: Mapping[str, Any], folders: Sequence[Path], scoring: str | None
) -> None:
    """Refuse options that do not go together.

    Raises:
        BadSettings: options do not go together; the message names them.
    """
    name = next(iter(exclusive(special)), "")
    if name and len(folders) > 1:
        raise BadSettings(f"{name} accepts one run: name only one.")
    form = exclusive({"--json": output.as_json, "--format": output.format})
    tables = {
        "--columns": output.columns,
        "--sort": output.sort,
        "--all": output.all,
        "--svg": output.svg,
    }
    further = [option for option, value in tables.items() if value] + [
        option for option in form if option != "--json"
    ]
    if name in ("--references", "--against", "--sql") and further:
        raise BadSettings(f"{name} prints its own table: leave out {', '.join(further)}.")
    if name in ("--references", "--sql") and scoring is not None:
        raise BadSettings(f"{name} does not use --scoring: leave it out.")


def _show_consistency(folder: Path, references: Path, as_json: bool) -> None:
    from emend.evals.results.aggregate.rows import consistency_rows
    from emend.evals.show.report.secondary import consistency_table

    scores = consistency_rows(folder, references)
    emit(scores, as_json, lambda console: console.print(consistency_table(scores)))


def _show_against(folder: Path, against: str, scoring: str | None, as_json: bool) -> None:
    from emend.evals.show.report.report_parts import REPORT_PARTS

    view = REPORT_PARTS.load("against")(folder, against, scoring)
    emit(view.rows, as_json, lambda console: console.print(view.render(console)))


def _show_reports(
    folders: Sequence[Path], reports: "Sequence[LabelledReport]", output: ReportOutput
) -> None:
    from emend.evals.results.aggregate.tables import metric_tables
    from emend.evals.show.report.export import export
    from emend.evals.show.report.metrics import render_reports

    metric_tables(reports, output.choice)  # raises the error about an unknown metric
    if output.svg is not None:
        from emend.evals.show.report.export import write_svg

        write_svg(lambda console: render_reports(reports, console, output.choice), output.svg)
    if output.format is not None:
        print_text(export(reports, output.format, output.choice))
        return
    rows = [
        dict(each.labels) | row.model_dump() for each in reports for row in _all_rows(each.report)
    ]
    emit(
        rows,
        output.as_json,
        lambda console: console.print(render_reports(reports, console, output.choice)),
        **_corrected(reports),
    )
    if not output.as_json:
        print_text(shlex.join(["emend", "view", *map(str, folders)]) + " shows it in a browser.")


def _corrected(reports: "Sequence[LabelledReport]") -> dict[str, list[dict[str, Any]]]:
    """Return the metrics with manual corrections as a list for `emit`; empty if there are none."""
    rows = [
        dict(labelled.labels) | row.model_dump()
        for labelled in reports
        for row in labelled.report.corrected
    ]
    return {"corrected": rows} if rows else {}


def _all_rows(report: "Report") -> "Iterator[BaseModel]":
    return chain(report.rows, report.forgetting, report.perplexity, report.ability, report.costs)


def query(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.")],
    sql: Annotated[
        str | None,
        typer.Argument(metavar="SQL", help="DuckDB SELECT; default: list the tables."),
    ] = None,
    out: QueryFile = None,
    as_json: Json = False,
) -> None:
    """Query a run's records, scores, cases, edits and errors with SQL.

    A query can only read the run's tables, no files or servers.
    """
    _ask(run, sql or "", out, as_json)


def _ask(run: Path, sql: str, out: Path | None, as_json: bool) -> None:
    """Print or write the rows of a query; without a query, print the tables."""
    from emend.evals.results.aggregate.database import check_file, open_database
    from emend.evals.show.report.analysis import show_query

    if out is not None:
        check_file(out)
    with open_database(run, out) as tables:
        if not sql.strip():
            result = tables.tables()
        elif out is not None:
            tables.write(sql, out)
            print_text(f"The rows are in {out}")
            return
        else:
            result = tables.query(sql)
    rows = [dict(zip(result.columns, row, strict=True)) for row in result.rows]
    emit(rows, as_json, lambda console: show_query(result, console))
