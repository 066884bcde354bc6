"""The commands `emend report` and `emend papers`."""

from pathlib import Path
from typing import Annotated

import typer

from emend.evals.cli.options import Json, Junit, ReadRun, Require, ScoringId
from emend.evals.cli.output import emit
from emend.evals.cli.thresholds import check_thresholds, enforce_thresholds
from emend.memory.errors import BadSettings


def report(
    folder: ReadRun,
    as_json: Json = False,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Also draw the table into this SVG file.")] = None,
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
    """Print a run's metrics with 95 % intervals, or compare them with published ones."""
    from emend.evals.aggregate.rows import report as report_of
    from emend.evals.report.tables.metrics import show

    if references is not None:
        if svg is not None or against is not None or scoring is not None or require:
            raise BadSettings("--references prints RS alone: leave out --svg, --against, --scoring and --require.")
        from emend.evals.aggregate.consistency import consistency_rows
        from emend.evals.report.tables.secondary import consistency_table

        scores = consistency_rows(folder, references)
        emit(scores, as_json, lambda console: console.print(consistency_table(scores)))
        return
    check_thresholds(require, junit)
    result = report_of(folder, scoring)
    if svg is not None:
        from emend.evals.report.plots.svg import write_svg

        write_svg(result, svg)
    if against is not None and require:
        raise BadSettings("--against compares with a table, and --require checks this run's: give one of them.")
    if against is not None:
        from emend.evals.papers.compare_published import against as compare_published
        from emend.evals.report.tables.published import render_against

        comparison = compare_published(folder, against, scoring)
        emit(comparison.lines, as_json, lambda console: console.print(render_against(comparison, console)))
        return
    rows = (*result.rows, *result.forgetting, *result.perplexity, *result.costs)
    emit(rows, as_json, lambda console: show(result, console))
    enforce_thresholds(result, require, junit)


def papers(
    name: Annotated[
        str | None, typer.Argument(metavar="TABLE", help="Table, such as akew:2, or paper, such as akew.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the published result tables of the four papers, or print one."""
    from emend.evals.papers.tables import paper, table
    from emend.evals.papers.tables import papers as all_papers
    from emend.evals.report.tables.papers import render_paper_table, show_list

    if name is not None and ":" in name:
        published = table(name)
        cells = [{"table": published.id} | cell.as_row() for cell in published.cells]
        emit(cells, as_json, lambda console: console.print(render_paper_table(published, console)))
        return
    listed = all_papers() if name is None else [paper(name)]
    rows = [row.as_row() for each in listed for row in each.tables]
    emit(rows, as_json, lambda console: show_list(listed, console))
