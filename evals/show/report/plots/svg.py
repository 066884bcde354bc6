"""The report as a picture, for a README or a slide; it asks no server for a font."""

import io
import re
from collections.abc import Callable
from pathlib import Path

from rich.console import Console, RenderableType

from emend.memory.errors import BadSettings

WIDTH = 118
_REMOTE_FONTS = re.compile(r"@font-face\s*\{.*?\}\s*", re.DOTALL)
_INDENTED = re.compile(r'x="([\d.]+)" (y="[\d.]+") textLength="([\d.]+)"([^>]*)>((?:&#160;)+)')
_CELL = 12.2  # width of one character in what rich draws


def write_svg(
    render: Callable[[Console], RenderableType], path: Path, title: str = "emend", width: int = WIDTH
) -> None:
    """Draw tables as a terminal of `width` columns would show them.

    Raises:
        BadSettings: the file's ending does not say SVG, or it cannot be written.
    """
    if path.suffix.lower() != ".svg":
        raise BadSettings(f"--svg {path}: the ending must be .svg.")
    console = Console(record=True, file=io.StringIO(), width=width, force_terminal=True, color_system="truecolor")
    console.print(render(console))
    drawn = _INDENTED.sub(_moved, _REMOTE_FONTS.sub("", console.export_svg(title=title)))
    try:
        path.write_text(drawn, encoding="utf-8")
    except OSError as error:
        raise BadSettings(f"cannot write the picture '{path}': {error.strerror}. Name another file.") from error


def _moved(text: re.Match[str]) -> str:
    """The text at its place instead of behind blanks, which some viewers leave out."""
    x, y, length, rest, blanks = text.groups()
    shift = _CELL * blanks.count("&#160;")
    return f'x="{float(x) + shift:.1f}" {y} textLength="{float(length) - shift:.1f}"{rest}>'
