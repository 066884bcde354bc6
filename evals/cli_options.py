"""What the commands of the command line share: options, and how rows are printed."""

import json
from typing import Annotated, Any

import typer

from emend.memory.errors import BadSettings

Json = Annotated[bool, typer.Option("--json", help='One JSON object {"rows": [...]} and nothing else.')]


def print_rows(rows: list[dict[str, Any]]) -> None:
    """The rows as one JSON object."""
    typer.echo(json.dumps({"rows": rows}, ensure_ascii=True, indent=1))


def pair(text: str, option: str) -> tuple[str, str]:
    """`key=value` in two.

    Raises:
        BadSettings: it is none.
    """
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise BadSettings(f"{option} '{text}' is no key=value: write for example {option} split=seen.")
    return key, value
