"""Output of the command line: rows as one JSON object or as a table, and what all commands print alike."""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from emend.memory.escape import safe

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console

INTERRUPTED = 130
"""Exit code of a command that was ended from the keyboard, as shells have it."""


def print_text(text: str, err: bool = False) -> None:
    """Print a text without keys, its control characters made visible; all that is no table goes through here."""
    typer.echo(safe(text), err=err)


class SafeFormatter(logging.Formatter):
    """Formats log messages, which may quote files and servers, as `print_text` does."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the message."""
        return safe(super().format(record))


def emit(
    rows: "Iterable[BaseModel | Mapping[str, Any]]",
    as_json: bool,
    show: "Callable[[Console], None]",
    **lists: list[dict[str, Any]],
) -> None:
    """Print the rows as one JSON object, with further lists beside them, or call `show` with a console."""
    if as_json:
        plain = [dict(row) if isinstance(row, Mapping) else row.model_dump() for row in rows]
        print_text(json.dumps({"rows": plain} | lists, ensure_ascii=True, indent=1))
        return
    print_rich(show)


def print_rich(show: "Callable[[Console], None]") -> None:
    """Call a function with the console of standard output."""
    from emend.evals.show.report.layout import console_for

    show(console_for())


@contextmanager
def interrupts_as_exit(message: str) -> Iterator[None]:
    """Turn Ctrl-C into a message on stderr and exit code 130.

    Raises:
        typer.Exit: the command was interrupted.
    """
    try:
        yield
    except KeyboardInterrupt:
        print_text(f"\ninterrupted: {message}", err=True)
        raise typer.Exit(INTERRUPTED) from None
