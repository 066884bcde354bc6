"""The command `emend graph`."""

from typing import Annotated

import typer

from emend.evals.cli_options import Json, print_rows


def graph(
    name: Annotated[str, typer.Argument(help="See: emend list graphs, and emend list judges.")],
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As Mermaid text, for a page or a pull request.")] = False,
    as_json: Json = False,
) -> None:
    """Draw a graph: its nodes, what each does, and where each may lead."""
    from emend.evals.drawing import drawn, show_graph
    from emend.graphs.registry import GRAPHS, JUDGES

    app = JUDGES.load(name).graph if name in JUDGES.names() else GRAPHS.load(name)()
    if mermaid:
        typer.echo(app.get_graph().draw_mermaid().strip())
    elif as_json:
        print_rows([row.model_dump() for row in drawn(app)])
    else:
        show_graph(app)
