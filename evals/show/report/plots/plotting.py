"""Shared parts of plots: the optional matplotlib, reproducible files, and colours."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from emend.memory.distribution import install_command
from emend.memory.errors import BadSettings, MissingExtra

FORMATS = (".png", ".svg")
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#777777")
"""Colours that the colour-blind can distinguish (Tol's bright scheme)."""
MARKERS = "osD^vPX"


def require_plotting(file: Path) -> None:
    """Tell before anything is measured that a plot cannot be made.

    Raises:
        MissingExtra: matplotlib is not installed.
        BadSettings: the file's ending says neither PNG nor SVG, or its folder is absent.
    """
    if file.suffix.lower() not in FORMATS:
        raise BadSettings(f"--plot {file}: the ending must be {' or '.join(FORMATS)}.")
    if not file.parent.is_dir():
        raise BadSettings(f"--plot {file}: there is no folder '{file.parent}'. Make it first.")
    if find_spec("matplotlib") is None:
        raise MissingExtra(f"--plot needs matplotlib, which is not installed: {install_command('plot')}.")


@contextmanager
def drawing(file: Path, width: float, height: float) -> Iterator[Any]:
    """An empty figure of so many inches, written to the file at the end; the same drawing gives the same file.

    Raises:
        MissingExtra, BadSettings: as `require_plotting`.
    """
    require_plotting(file)
    from matplotlib import rc_context
    from matplotlib.figure import Figure  # a figure by itself needs no display

    # texts stay texts: as outlines they would be most of the file
    style: dict[Any, Any] = {"svg.hashsalt": "emend", "svg.fonttype": "none", "font.size": 9, "axes.titlesize": 9}
    with rc_context(style):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        vector = file.suffix.lower() == ".svg"
        figure.savefig(file, dpi=150, metadata={"Date": None} if vector else None)


def plain(text: str) -> str:
    """Escape the signs that matplotlib reads as mathematics, and a leading underscore, which would hide a label."""
    return text.replace("$", r"\$").lstrip("_")


def bare(panel: Any) -> None:
    """No frame above and on the right."""
    panel.spines[["top", "right"]].set_visible(False)


def reach(mean: float, low: float | None, high: float | None) -> tuple[float, float]:
    """Distances from the mean to both ends of its interval; NaN, which draws nothing, without an interval."""
    if low is None or high is None:
        return math.nan, math.nan
    return max(0.0, mean - low), max(0.0, high - mean)
