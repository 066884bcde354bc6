"""The command `emend papers`, and what `emend report --against` prints."""

from pathlib import Path
from typing import Annotated

import typer

from emend.evals.cli.options import Json, print_rows

Against = Annotated[
    str | None, typer.Option(help="Beside a published table, such as akew:2; see: emend papers.", metavar="TABLE")
]


def papers(
    name: Annotated[
        str | None, typer.Argument(metavar="TABLE", help="A table, such as akew:2, or a paper, such as akew.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the published result tables of the four papers, or print one."""
    from emend.evals.papers.tables import paper, table
    from emend.evals.papers.tables import papers as all_papers
    from emend.evals.report.papers import show_list, show_paper_table
    from emend.evals.report.table import console_for

    if name is not None and ":" in name:
        found = table(name)
        if as_json:
            print_rows([{"table": found.id} | cell.as_row() for cell in found.cells])
        else:
            show_paper_table(found, console_for())
        return
    listed = all_papers() if name is None else [paper(name)]
    if as_json:
        print_rows([one.as_row() for told in listed for one in told.tables])
    else:
        show_list(listed, console_for())


def print_against(folder: Path, table: str, as_json: bool, scoring: str | None = None) -> None:
    """Print a run, with what judges said of it, beside a published table.

    Raises:
        BadData: no run there.
        BadSettings: no such table or scoring, or nothing of the run belongs beside it.
    """
    from emend.evals.papers.compare_published import against

    found = against(folder, table, scoring)
    if as_json:
        print_rows([line.model_dump() for line in found.lines])
        return
    from emend.evals.report.against_table import show_against
    from emend.evals.report.table import console_for

    show_against(found, console_for())
