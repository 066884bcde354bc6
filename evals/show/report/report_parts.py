"""Registry of further views of a run that `emend report` can print, by name of the option."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console, RenderableType

from emend.memory.registry import Registry


class ReportPart(NamedTuple):
    """A view of a run: its rows for JSON, and a function that renders it for a console."""

    rows: Sequence[Any]
    render: Callable[[Console], RenderableType]


# Functions of the run folder, the value of the option, and the id of the scoring to show (None for
# the newest).
REPORT_PARTS: Registry[Callable[[Path, str, str | None], ReportPart]] = Registry(
    kind="report part", group="emend.report_parts"
)
