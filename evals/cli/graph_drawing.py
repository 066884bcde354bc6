"""A graph as rows: every node, what it does, and where it may lead."""

import inspect
from typing import Any

from rich.table import Table
from rich.text import Text

from emend.evals.report.table import console_for
from emend.memory.edit import FrozenModel

START, END = "__start__", "__end__"


class Node(FrozenModel):
    """A node, the first sentence of what it does, the nodes that may follow, and whether it chooses among them."""

    node: str
    does: str
    leads_to: tuple[str, ...]
    chooses: bool


def drawn(app: Any) -> list[Node]:
    """The nodes in the order in which the graph was built."""
    graph = app.get_graph()
    follows: dict[str, list[Any]] = {}
    for edge in graph.edges:
        follows.setdefault(edge.source, []).append(edge)
    return [
        Node(
            node=_plain(name),
            does=_does(app, name),
            leads_to=tuple(_plain(edge.target) for edge in follows.get(name, ())),
            chooses=any(edge.conditional for edge in follows.get(name, ())),
        )
        for name in graph.nodes
        if name != END
    ]


def _plain(name: str) -> str:
    return {START: "start", END: "end"}.get(name, name)


def _does(app: Any, name: str) -> str:
    """The first line of the docstring of the node's function."""
    if name == START:
        return ""
    runnable = app.nodes[name].bound
    function = getattr(runnable, "func", None) or getattr(runnable, "afunc", None) or runnable
    return (inspect.getdoc(function) or "").partition("\n")[0]


def show_graph(app: Any) -> None:
    """Print the nodes and where each leads; a node that chooses has its ways one under the other."""
    console = console_for()
    table = Table(box=None, padding=(0, 2), show_header=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(no_wrap=True)
    table.add_column(style="dim")
    for row in drawn(app):
        marks = "or" if row.chooses else ""
        ways = "\n".join(f"{'or' if place and marks else '->'} {target}" for place, target in enumerate(row.leads_to))
        table.add_row(Text(row.node), Text(ways), Text(row.does))
    console.print(Text(str(app.name), style="bold"), table)
