"""The commands `emend list` and `emend graph`: what can be named on the command line, and how a graph is wired."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from emend.evals.cli.options import Json, exclusive
from emend.evals.cli.output import emit, print_text
from emend.evals.show.lists.catalogue import KINDS, registry_of
from emend.memory.errors import BadSettings
from emend.memory.escape import one_line
from emend.memory.registry import nearest

if TYPE_CHECKING:
    from rich.console import Console

    from emend.evals.show.lists.graph_nodes import GraphNode

ALL_KINDS = {name: summary for name, (_, summary) in KINDS.items()} | {
    "settings": "Settings of editors, benchmarks and models (--set, --benchmark-option).",
    "runs": "Run folders.",
}


def list_parts(
    kind: Annotated[
        str | None,
        typer.Argument(metavar="KIND", help=f"One of {', '.join(ALL_KINDS)}; default: list the kinds."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="With settings: an editor, benchmark or model, such as rag; default: all. With runs: the folder that "
            "holds them; default: runs.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List what can be named on the command line, plug-ins included; settings; or runs."""
    if kind is None:
        kinds = [{"name": name, "summary": summary} for name, summary in ALL_KINDS.items()]
        emit(kinds, as_json, lambda console: _show_columns(kinds, console))
    elif kind not in ALL_KINDS:
        kinds_with = [each for each in KINDS if kind in registry_of(each).names()]
        remedy = f"it is one of the {kinds_with[0]}; its settings: emend list settings {kind}." if kinds_with else ""
        raise BadSettings(f"cannot list '{kind}': {remedy or nearest(kind, list(ALL_KINDS))}")
    elif kind == "settings":
        _list_settings(name, as_json)
    elif kind == "runs":
        _list_runs(Path(name or "runs"), as_json)
    elif name is not None:
        raise BadSettings(f"emend list {kind} takes no name; its settings: emend list settings {name}.")
    else:
        _list_registry(kind, as_json)


def _list_registry(kind: str, as_json: bool) -> None:
    registry = registry_of(kind)
    parts = list(registry.rows())
    if not parts and not as_json:
        print_text(f"There are no {kind} yet. A package can add some under the entry point {registry.group}.")
        return
    emit(parts, as_json, lambda console: _show_columns(parts, console))


def _list_settings(part: str | None, as_json: bool) -> None:
    from emend.evals.show.lists.settings_list import list_presets, list_settings
    from emend.evals.show.report.tables.lists import render_settings

    settings, presets = list_settings(part), list_presets(part)
    emit([*settings, *presets], as_json, lambda console: console.print(render_settings(settings, presets)))


def _list_runs(folder: Path, as_json: bool) -> None:
    from emend.evals.results.aggregate.runs import list_runs
    from emend.evals.show.report.tables.lists import render_runs

    runs = list_runs(folder)
    emit(runs, as_json, lambda console: console.print(render_runs(runs, folder)))


def graph(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="Graph, judge, editor or construction; see: emend list graphs, judges, editors or constructions.",
        ),
    ],
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Print Mermaid text.")] = False,
    as_json: Json = False,
) -> None:
    """Draw a graph: its nodes, what each does, and where each may lead."""
    from emend.evals.show.lists.graph_nodes import find_graph, nodes_of

    exclusive({"--mermaid": mermaid, "--json": as_json})
    app = find_graph(name)
    if mermaid:
        print_text(app.get_graph().draw_mermaid().strip())
        return
    nodes = nodes_of(app)
    emit(nodes, as_json, lambda console: _show_graph(str(app.name), nodes, console))


def _show_columns(rows: list[dict[str, Any]], console: "Console") -> None:
    """Print rows of equal keys in columns, without a heading."""
    table = Table.grid(padding=(0, 2))
    for place, name in enumerate(rows[0] if rows else ()):
        table.add_column(no_wrap=name != "summary", style="bold" if place == 0 else None)
    for row in rows:
        table.add_row(*(Text(one_line(str(value))) for value in row.values()))
    console.print(table)


def _show_graph(name: str, nodes: "list[GraphNode]", console: "Console") -> None:
    """Print the nodes and where each leads; a node that chooses has its targets one below the other."""
    table = Table(box=None, padding=(0, 2), show_header=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(no_wrap=True)
    table.add_column(style="dim")
    for node in nodes:
        arrows = ["or" if place and node.chooses else "->" for place, _ in enumerate(node.leads_to)]
        targets = "\n".join(f"{arrow} {target}" for arrow, target in zip(arrows, node.leads_to, strict=True))
        table.add_row(Text(node.node), Text(targets), Text(node.does))
    console.print(Text(name, style="bold"), table)
