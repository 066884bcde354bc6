"""The command `emend graph`."""

import inspect
from typing import TYPE_CHECKING, Annotated, Any

import typer

from emend.evals.cli.options import Json, print_rows
from emend.memory.errors import BadSettings

if TYPE_CHECKING:
    from emend.graphs.running import Graph
    from emend.memory.registry import Registry


def graph(
    name: Annotated[str, typer.Argument(help="See: emend list graphs, and emend list judges; or an editor's.")],
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As Mermaid text, for a page or a pull request.")] = False,
    as_json: Json = False,
) -> None:
    """Draw a graph: its nodes, what each does, and where each may lead."""
    if mermaid and as_json:
        raise BadSettings("--mermaid and --json do not go together: give one of them.")
    from emend.evals.cli.graph_drawing import drawn, show_graph

    app = _graph_of(name)
    if mermaid:
        typer.echo(app.get_graph().draw_mermaid().strip())
    elif as_json:
        print_rows([row.model_dump() for row in drawn(app)])
    else:
        show_graph(app)


def _graph_of(name: str) -> "Graph":
    """The graph of that name, a judge's or an editor's, or the one at that `module:attribute`.

    Raises:
        BadSettings: nothing is called so, what is called so cannot be made, or it has no graph.
    """
    from emend.editors.registry import EDITORS
    from emend.graphs.registry import GRAPHS, JUDGES

    known: tuple[Registry[Any], ...] = (JUDGES, GRAPHS, EDITORS)
    registry = next((one for one in known if name in (*one.names(), *one.aliases)), GRAPHS)
    found = registry.load(name)
    with registry.plugin_errors(name):
        app = _drawable(found)
    if app is None:
        raise BadSettings(
            f"{registry.kind} '{name}' has no graph (seen: {found!r:.60}): name a compiled LangGraph graph, a "
            "StateGraph, a function without arguments that makes one, a judge, or an editor with a compiled graph in "
            f"its attribute app. These are there: {', '.join(GRAPHS.names())}."
        )
    return app


def _drawable(found: Any) -> "Graph | None":
    """The graph that something is, has, makes, or names."""
    from emend.graphs.registry import GRAPHS
    from emend.graphs.running import graph_in

    app, named = graph_in(found), getattr(found, "graph", None)
    if app is None and named not in GRAPHS.names() and callable(found):
        made = _made(found)
        app, named = graph_in(made), dict(getattr(made, "fingerprint", {})).get("graph")
    return GRAPHS.load(str(named))() if app is None and named in GRAPHS.names() else app


def _made(found: Any) -> object:
    """What a function that builds a graph makes, or an editor, which is given a model that is never asked."""
    needed = [one for one in inspect.signature(found).parameters.values() if one.default is one.empty]
    if [one.name for one in needed if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]:
        from langchain_core.language_models import FakeListChatModel

        from emend.editors.base import Materials

        return found(Materials(FakeListChatModel(responses=[""])))
    return found()
