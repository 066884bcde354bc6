"""Lookup of graphs by name, and the list of their nodes."""

import inspect
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from emend.evals.show.lists import DRAWN, LISTS, registry_of
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings, EmendError
from emend.memory.registry import summary_of

if TYPE_CHECKING:
    from emend.graphs.execution import Graph

START, END = "__start__", "__end__"
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class GraphNode(FrozenModel):
    """A node of a graph.

    `does` is the first sentence of its docstring, `leads_to` are its possible successors, and
    `chooses` is True if a router chooses among them.
    """

    node: str
    does: str
    leads_to: tuple[str, ...]
    chooses: bool


def nodes_of(app: Any) -> list[GraphNode]:
    """Return the nodes of a compiled graph, in the order of construction."""
    graph = app.get_graph()
    leads_to: dict[str, list[str]] = {name: [] for name in graph.nodes}
    choosing = set[str]()
    for edge in graph.edges:
        leads_to[edge.source].append(_plain(edge.target))
        if edge.conditional:
            choosing.add(edge.source)
    nodes = list[GraphNode]()
    for name in graph.nodes:
        if name != END:
            following, chooses = tuple(leads_to[name]), name in choosing
            does = _summary(app, name)
            node = GraphNode(node=_plain(name), does=does, leads_to=following, chooses=chooses)
            nodes.append(node)
    return nodes


def _plain(name: str) -> str:
    return {START: "start", END: "end"}.get(name, name)


def _summary(app: Any, name: str) -> str:
    """Return the summary of the docstring of the node's function."""
    if name == START:
        return ""
    runnable = app.nodes[name].bound
    function = getattr(runnable, "func", None) or getattr(runnable, "afunc", None) or runnable
    return summary_of(function)


def find_graph(name: str) -> "Graph":
    """Return the graph of a judge, editor or other component, given by name or `module:attribute`.

    Raises:
        BadSettings: the name is unknown, or the component cannot be created or has no graph.
    """
    registries = [registry_of(kind) for kind in DRAWN if LISTS.installed(kind)]
    fitting = (registry for registry in registries if name in registry.names())
    registry = next(fitting, registry_of("graphs"))
    part = registry.load(name)
    with registry.plugin_errors(name):
        app = _graph_of(part)
    if app is None:
        raise BadSettings(
            f"{registry.kind} '{name}' has no graph (got {part!r:.60}): name a compiled LangGraph "
            "graph, a StateGraph, a function without arguments that makes one, a judge, or an "
            "editor with a compiled graph in its attribute app. Known graphs: "
            f"{', '.join(registry_of('graphs').names())}."
        )
    return app


def _graph_of(part: Any) -> "Graph | None":
    """Return the graph of a component: itself, an attribute, its result, or a registered name."""
    from emend.graphs.execution import graph_in
    from emend.graphs.registry import GRAPHS

    app, named = graph_in(part), getattr(part, "graph", None)
    is_inherited = inspect.isclass(part) and "graph" not in vars(part)
    if app is None and is_inherited and named in GRAPHS.names():
        with suppress(EmendError):  # a weight editor cannot be created without a local model
            app = graph_in(_instance(part))
    if app is None and named not in GRAPHS.names() and callable(part):
        instance = _instance(part)
        app, named = graph_in(instance), dict(getattr(instance, "fingerprint", {})).get("graph")
    if app is None and named in GRAPHS.names():
        return GRAPHS.load(str(named))()
    return app


def _instance(factory: Any) -> object:
    """Call a function that builds a graph, or create an editor with a stand-in model and memory."""
    required = [
        parameter
        for parameter in inspect.signature(factory).parameters.values()
        if parameter.default is parameter.empty
    ]
    if any(parameter.kind in POSITIONAL for parameter in required):
        from langchain_core.language_models import FakeListChatModel

        from emend.editors.base import EditorContext
        from emend.memory.retrieval.registry import RETRIEVERS

        model, unread = FakeListChatModel(responses=[""]), cast("Any", object())
        return factory(EditorContext(model, unread, RETRIEVERS.load("bm25")))
    return factory()
