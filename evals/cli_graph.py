"""The command `emend graph`."""

from typing import Annotated

import typer

from emend.evals.cli_options import Json, print_rows
from emend.memory.errors import BadSettings


def graph(
    name: Annotated[str, typer.Argument(help="See: emend list graphs, and emend list judges; or an editor's.")],
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As Mermaid text, for a page or a pull request.")] = False,
    as_json: Json = False,
) -> None:
    """Draw a graph: its nodes, what each does, and where each may lead."""
    if mermaid and as_json:
        raise BadSettings("--mermaid and --json do not go together: give one of them.")
    from emend.evals.drawing import drawn, show_graph
    from emend.graphs.registry import GRAPHS, JUDGES

    app = JUDGES.load(name).graph if name in JUDGES.names() else GRAPHS.load(_graph_of(name))()
    if mermaid:
        typer.echo(app.get_graph().draw_mermaid().strip())
    elif as_json:
        print_rows([row.model_dump() for row in drawn(app)])
    else:
        show_graph(app)


def _graph_of(name: str) -> str:
    """The graph that an editor of that name runs, where no graph is called so."""
    from emend.editors.registry import EDITORS
    from emend.graphs.registry import GRAPHS

    if name in GRAPHS.names() or name not in (*EDITORS.names(), *EDITORS.also):
        return name
    graph = getattr(EDITORS.load(name), "graph", None)
    if graph is None:
        raise BadSettings(f"editor '{name}' runs no graph; these are there: {', '.join(GRAPHS.names())}.")
    return str(graph)
