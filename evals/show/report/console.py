"""The console that tables are printed to."""

import os
import sys
from typing import TextIO

from rich.console import Console


def console_for(file: TextIO | None = None) -> Console:
    """A console for reports: a pipe is as wide as the report, a terminal as wide as it is."""
    stream = file or sys.stdout
    if stream.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return Console(file=stream, highlight=False)
    return Console(file=stream, highlight=False, width=400, soft_wrap=True)
