"""The command `emend papers`."""

from typing import Annotated

import typer

from emend.evals.cli.options import Json
from emend.evals.cli.output import emit


def papers(
    name: Annotated[
        str | None,
        typer.Argument(metavar="TABLE", help="Table, such as akew:2, or paper, such as akew."),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the published result tables of the four papers, or print one."""
    show_published(name, as_json)


def show_published(name: str | None, as_json: bool) -> None:
    """Print a published table, or list those of a paper or of all.

    Raises:
        BadSettings: there is no such table or paper.
    """
    from emend.evals.papers.show.published import render_paper_table, show_list
    from emend.evals.papers.tables import paper, table
    from emend.evals.papers.tables import papers as all_papers

    if name is not None and ":" in name:
        published = table(name)
        cells = [{"table": published.id} | cell.as_row() for cell in published.cells]
        emit(cells, as_json, lambda console: console.print(render_paper_table(published, console)))
        return
    if name is None:
        listed = all_papers()
    else:
        listed = [paper(name)]
    rows = [row.as_row() for each in listed for row in each.tables]
    emit(rows, as_json, lambda console: show_list(listed, console))
