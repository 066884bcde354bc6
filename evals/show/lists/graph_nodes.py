"""A graph as rows: every node, what it does, and where it may lead; and the graph behind a name."""

import inspect
from typing import TYPE_CHECKING, Any

from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings

if TYPE_CHECKING:
    from emend.graphs.execution import Graph
    from emend.memory.registry import Registry

START, END = "__start__", "__end__"


class GraphNode(FrozenModel):
    """A node, the first sentence of what it does, the nodes that may follow, and whether it chooses among them."""

    node: str
    does: str
    leads_to: tuple[str, ...]
    chooses: bool


def nodes_of(app: Any) -> list[GraphNode]:
    """The nodes of a compiled graph, in the order in which it was built."""
    graph = app.get_graph()
    edges: dict[str, list[Any]] = {}
    for edge in graph.edges:
        edges.setdefault(edge.source, []).append(edge)
    return [
        GraphNode(
            node=_plain(name),
            does=_summary(app, name),
            leads_to=tuple(_plain(edge.target) for edge in edges.get(name, ())),
            chooses=any(edge.conditional for edge in edges.get(name, ())),
        )
        for name in graph.nodes
        if name != END
    ]


def _plain(name: str) -> str:
    return {START: "start", END: "end"}.get(name, name)


def _summary(app: Any, name: str) -> str:
    """First line of the docstring of the node's function."""
    if name == START:
        return ""
    runnable = app.nodes[name].bound
    function = getattr(runnable, "func", None) or getattr(runnable, "afunc", None) or runnable
    return (inspect.getdoc(function) or "").partition("\n")[0]


def find_graph(name: str) -> "Graph":
    """The graph of that name, a judge's or an editor's, or the one at that `module:attribute`.

    Raises:
        BadSettings: the name is unknown, the part cannot be made, or it has no graph.
    """
    from emend.editors.registry import EDITORS
    from emend.graphs.registry import CONSTRUCTIONS, GRAPHS, JUDGES

    registries: tuple[Registry[Any], ...] = (JUDGES, GRAPHS, EDITORS, CONSTRUCTIONS)
    registry = next((each for each in registries if name in (*each.names(), *each.aliases)), GRAPHS)
    part = registry.load(name)
    with registry.plugin_errors(name):
        app = _graph_of(part)
    if app is None:
        raise BadSettings(
            f"{registry.kind} '{name}' has no graph (got {part!r:.60}): name a compiled LangGraph graph, a "
            "StateGraph, a function without arguments that makes one, a judge, or an editor with a compiled graph in "
            f"its attribute app. Known graphs: {', '.join(GRAPHS.names())}."
        )
    return app


def _graph_of(part: Any) -> "Graph | None":
    """The graph that a part is, has, makes, or names."""
    from emend.graphs.execution import graph_in
    from emend.graphs.registry import GRAPHS

    app, named = graph_in(part), getattr(part, "graph", None)
    if app is None and named not in GRAPHS.names() and callable(part):
        instance = _instance(part)
        app, named = graph_in(instance), dict(getattr(instance, "fingerprint", {})).get("graph")
    return GRAPHS.load(str(named))() if app is None and named in GRAPHS.names() else app


def _instance(factory: Any) -> object:
    """Result of a function that builds a graph, or of an editor, which gets a model that is never asked."""
    required = [each for each in inspect.signature(factory).parameters.values() if each.default is each.empty]
    if any(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in required):
        from langchain_core.language_models import FakeListChatModel

        from emend.editors.base import EditorContext

        return factory(EditorContext(FakeListChatModel(responses=[""])))
    return factory()
