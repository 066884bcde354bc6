"""Output of the command line: rows as one JSON object or as a table, and safe texts."""

import json
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from emend.memory.escape import safe

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console

# Exit code after an interruption from the keyboard, as in shells.
INTERRUPTED = 130


def print_text(text: str, err: bool = False) -> None:
    """Print a text with keys hidden and control characters made visible.

    All output other than tables is printed by this function.
    """
    typer.echo(safe(text), err=err)


class SafeFormatter(logging.Formatter):
    """Formatter of log messages, which may quote files and servers, as safe as `print_text`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the formatted message."""
        return safe(super().format(record))


def emit(
    rows: "Iterable[BaseModel | Mapping[str, Any]]",
    as_json: bool,
    show: "Callable[[Console], None]",
    **lists: list[dict[str, Any]],
) -> None:
    """Print the rows as one JSON object with the given lists, or call `show` with a console."""
    if as_json:
        plain = [dict(row) if isinstance(row, Mapping) else row.model_dump() for row in rows]
        content = without_infinite({"rows": plain} | lists)
        print_text(json.dumps(content, ensure_ascii=True, indent=1, allow_nan=False))
        return
    print_rich(show)


def plain_rows(rows: "Iterable[BaseModel]") -> list[dict[str, Any]]:
    """Return rows as plain values, for the lists given to `emit`."""
    return [row.model_dump(mode="json") for row in rows]


def without_infinite(value: Any) -> Any:
    """Return a value with null for each number that is not finite, as JSON requires."""
    if isinstance(value, Mapping):
        return {name: without_infinite(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_infinite(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


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


def end_at_signal(*_: object) -> None:
    """Handle SIGTERM, which schedulers send first, like Ctrl-C.

    Commands that work on a run replace this handler by one that tells what they wait for.
    """
    raise KeyboardInterrupt
