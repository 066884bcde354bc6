"""The report as a picture, for a README or a slide; it asks no server for a font."""

import io
import re
from pathlib import Path

from rich.console import Console

from emend.evals.report.rows import Report
from emend.evals.report.table import NARROW, render
from emend.memory.errors import BadSettings

WIDTH = 118
_REMOTE_FONTS = re.compile(r"@font-face\s*\{.*?\}\s*", re.DOTALL)


def write_svg(report: Report, path: Path, title: str = "emend", width: int = WIDTH) -> None:
    """Draw the report as a terminal of `width` columns would show it.

    Raises:
        BadSettings: the file cannot be written.
    """
    console = Console(
        record=True, file=io.StringIO(), width=max(width, NARROW), force_terminal=True, color_system="truecolor"
    )
    console.print(render(report, console))
    drawn = _REMOTE_FONTS.sub("", console.export_svg(title=title))
    try:
        path.write_text(drawn, encoding="utf-8")
    except OSError as error:
        raise BadSettings(f"cannot write the picture '{path}': {error.strerror}. Name another file.") from error
