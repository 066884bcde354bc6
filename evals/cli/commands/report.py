"""The commands `emend report`, `papers` and `query`."""

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
    read_run,
)
from emend.evals.cli.output import emit, print_text
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings

if TYPE_CHECKING:
    from emend.evals.results.aggregate.rows import Report
    from emend.evals.results.aggregate.tables import LabelledReport, TableChoice


class ReportOutput(FrozenModel):
    """Form and content of the tables."""

    as_json: bool = Field(default=False, description='Print one JSON object, {"rows": ...}, and nothing else.')
    format: str | None = Field(default=None, description="Print csv, markdown, latex or html instead of tables.")
    columns: str | None = Field(
        default=None, description="Metrics to show, in this order, with commas between them; default: the main ones."
    )
    sort: str | None = Field(default=None, description="Sort rows by this metric, best first; default: as run.")
    all: bool = Field(default=False, description="Show all metrics, forgetting, perplexity and costs.")
    svg: Path | None = Field(default=None, description="Also draw the tables into this SVG file.")

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
        typer.Argument(
            metavar="RUN...", parser=read_run, help="Run folders or addresses of mirrors; several share tables."
        ),
    ],
    output: ReportOutput,
    against: Annotated[
        str | None,
        typer.Option(metavar="TABLE", help="Compare with a published table, such as akew:2; see: emend papers."),
    ] = None,
    scoring: ScoringId = None,
    references: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Print only CounterFact's RS, computed against the reference texts in this folder."
        ),
    ] = None,
    require: Require = None,
    junit: Junit = None,
) -> None:
    """Print metrics with 95 % intervals of one run or of several, or compare one with published ones."""
    from emend.evals.results.aggregate.tables import load_reports

    check_thresholds(require, junit)
    _check(output, {"--references": references, "--against": against, "--require": require}, folders, scoring)
    if references is not None:
        _show_consistency(folders[0], references, output.as_json)
    elif against is not None:
        _show_against(folders[0], against, scoring, output.as_json)
    else:
        reports = load_reports(folders, scoring)
        _show_reports(folders, reports, output)
        enforce_thresholds(reports[0].report, require, junit)


def _check(output: ReportOutput, special: Mapping[str, Any], folders: Sequence[Path], scoring: str | None) -> None:
    """Refuse options that do not go together.

    Raises:
        BadSettings: names the options.
    """
    name = next(iter(exclusive(special)), "")
    if name and len(folders) > 1:
        raise BadSettings(f"{name} is about one run: name one.")
    form = exclusive({"--json": output.as_json, "--format": output.format})
    tables = {"--columns": output.columns, "--sort": output.sort, "--all": output.all, "--svg": output.svg}
    further = [option for option, value in tables.items() if value] + [option for option in form if option != "--json"]
    if name in ("--references", "--against") and further:
        raise BadSettings(f"{name} prints a table of its own: leave out {', '.join(further)}.")
    if name == "--references" and scoring is not None:
        raise BadSettings("--references prints RS alone: leave out --scoring.")


def _show_consistency(folder: Path, references: Path, as_json: bool) -> None:
    from emend.evals.results.aggregate.rows import consistency_rows
    from emend.evals.show.report.secondary import consistency_table

    scores = consistency_rows(folder, references)
    emit(scores, as_json, lambda console: console.print(consistency_table(scores)))


def _show_against(folder: Path, against: str, scoring: str | None, as_json: bool) -> None:
    from emend.evals.results.papers.compare_published import against as compare_published
    from emend.evals.show.report.papers import render_against

    comparison = compare_published(folder, against, scoring)
    emit(comparison.lines, as_json, lambda console: console.print(render_against(comparison, console)))


def _show_reports(folders: Sequence[Path], reports: "Sequence[LabelledReport]", output: ReportOutput) -> None:
    from emend.evals.show.report.export import export
    from emend.evals.show.report.metrics import render_reports

    if output.svg is not None:
        from emend.evals.show.report.export import write_svg

        write_svg(lambda console: render_reports(reports, console, output.choice), output.svg)
    if output.format is not None:
        print_text(export(reports, output.format, output.choice))
        return
    rows = [dict(each.labels) | row.model_dump() for each in reports for row in _all_rows(each.report)]
    emit(rows, output.as_json, lambda console: console.print(render_reports(reports, console, output.choice)))
    if not output.as_json:
        print_text(shlex.join(["emend", "view", *map(str, folders)]) + " shows it in a browser.")


def _all_rows(report: "Report") -> "Iterator[BaseModel]":
    return chain(report.rows, report.forgetting, report.perplexity, report.ability, report.costs)


def papers(
    name: Annotated[
        str | None, typer.Argument(metavar="TABLE", help="Table, such as akew:2, or paper, such as akew.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the published result tables of the four papers, or print one."""
    from emend.evals.results.papers.tables import paper, table
    from emend.evals.results.papers.tables import papers as all_papers
    from emend.evals.show.report.papers import render_paper_table, show_list

    if name is not None and ":" in name:
        published = table(name)
        cells = [{"table": published.id} | cell.as_row() for cell in published.cells]
        emit(cells, as_json, lambda console: console.print(render_paper_table(published, console)))
        return
    listed = all_papers() if name is None else [paper(name)]
    rows = [row.as_row() for each in listed for row in each.tables]
    emit(rows, as_json, lambda console: show_list(listed, console))


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
    from emend.evals.show.report.analysis import show_query

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
