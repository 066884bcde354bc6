"""Plots of analyses with units, n and 95 % intervals, drawn by matplotlib (optional)."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

from emend.evals.measure.retrieval import RetrievalReport, RetrievalRow
from emend.evals.metrics.estimate import Estimate
from emend.evals.results.analyses.base import Analysis, AnalysisRow, PlotStyle, row_of
from emend.memory.distribution import install_command
from emend.memory.errors import BadData, BadSettings, MissingExtra
from emend.memory.files import write_export

FORMATS = (".png", ".svg")
# Colours that the colour-blind can distinguish (Tol's bright scheme).
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#777777")
MARKERS = "osD^vPX"


def require_plotting(file: Path) -> None:
    """Raise an error if a plot could not be drawn; called before any measurement.

    Raises:
        MissingExtra: matplotlib is not installed.
        BadSettings: the file does not end in .png or .svg, or its folder does not exist.
    """
    if file.suffix.lower() not in FORMATS:
        raise BadSettings(f"--plot {file}: the ending must be {' or '.join(FORMATS)}.")
    if not file.parent.is_dir():
        raise BadSettings(
            f"--plot {file}: the folder '{file.parent}' does not exist. Create it first."
        )
    if find_spec("matplotlib") is None:
        raise MissingExtra(
            f"--plot needs matplotlib, which is not installed: {install_command('plot')}."
        )


@contextmanager
def drawing(file: Path, width: float, height: float) -> Iterator[Any]:
    """Yield an empty figure, and write it to a file at the end of the context.

    Files are reproducible: the same drawing gives the same bytes.

    Args:
        file: PNG or SVG file.
        width: width of the figure in inches.
        height: height of the figure in inches.

    Raises:
        MissingExtra, BadSettings: see `require_plotting`.
        BadSettings: the file cannot be written.
    """
    require_plotting(file)
    from matplotlib import rc_context
    from matplotlib.figure import Figure  # unlike pyplot, it needs no display

    # texts are kept as text in SVG: as outlines they would be most of the file
    style: dict[Any, Any] = {
        "svg.hashsalt": "emend",
        "svg.fonttype": "none",
        "font.size": 9,
        "axes.titlesize": 9,
    }
    with rc_context(style):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        drawn, ending = BytesIO(), file.suffix.lower().removeprefix(".")
        metadata = {"Date": None} if ending == "svg" else None
        figure.savefig(drawn, format=ending, dpi=150, metadata=metadata)
        write_export(file, drawn.getvalue(), "Give another --plot FILE.")


def plain(text: str) -> str:
    """Escape dollar signs (mathematics in matplotlib) and remove leading underscores.

    Matplotlib leaves labels with a leading underscore out of the legend.
    """
    return text.replace("$", r"\$").lstrip("_")


def bare(panel: Any) -> None:
    """Remove the top and right frame lines of a panel."""
    panel.spines[["top", "right"]].set_visible(False)


def reach(mean: float, low: float | None, high: float | None) -> tuple[float, float]:
    """Return the distances from the mean to both ends of its interval.

    Without an interval they are NaN, which matplotlib does not draw.
    """
    if low is None or high is None:
        return math.nan, math.nan
    return max(0.0, mean - low), max(0.0, high - mean)


# Maximum number of panels per row; four panels are drawn as 2 x 2.
ACROSS = 3
# Distance between the points of two series, relative to the smallest distance between positions on
# the axis.
APART = 0.08
# Labels with more characters are rotated.
LONG = 9


def plot_analysis(analysis: Analysis, file: Path) -> None:
    """Draw an analysis into a PNG or SVG file.

    Raises:
        MissingExtra, BadSettings: see `require_plotting`.
        BadData: no row has a value.
    """
    form = analysis.picture.form
    panels = _panels(analysis)
    if not panels:
        raise BadData(
            f"{file}: nothing to draw, all {len(analysis.rows)} rows of '{analysis.title}' are "
            "unscored: leave --plot out and see the table."
        )
    if len(panels) == 4:
        columns = 2
    else:
        columns = min(ACROSS, len(panels))
    lines = -(-len(panels) // columns)
    width, height = _size(analysis, panels, columns)
    shared = form in ("bars", "curve") and analysis.picture.alike
    with drawing(file, columns * width + 0.4, lines * height + 0.7) as figure:
        grid = figure.subplots(lines, columns, squeeze=False, sharey=shared).ravel()
        for panel, name in zip(grid, panels, strict=False):
            DRAW[form](panel, analysis, name)
            bare(panel)
        for panel in grid[len(panels) :]:
            panel.set_visible(False)
        _frame(figure, grid[: len(panels)], columns, analysis)


def plot_retrieval(reports: Sequence[RetrievalReport], file: Path) -> None:
    """Draw hit@1 of each strategy on each kind of in-scope probe, with one panel per setting.

    Raises:
        MissingExtra, BadSettings: see `require_plotting`.
    """
    rows = []
    for report in reports:
        for row in (row for row in report.rows if row.in_scope):
            questions = _count(
                [other for other in report.rows if other.in_scope and other.kind == row.kind]
            )
            value = Estimate(mean=row.hit_at_1, n=row.n, low=row.low, high=row.high).scaled(100)
            key = (
                f"{report.benchmark}, {report.setting}",
                f"{row.kind}\n{questions.strip(' ()')}",
                row.strategy,
            )
            rows.append(row_of(key, value))
    picture = PlotStyle(x="kind of probe", y="hit@1, %", limits=(0, 105))
    plot_analysis(
        Analysis(kind="retrieval", title="Retrieval", unit="%", rows=tuple(rows), picture=picture),
        file,
    )


def _panels(analysis: Analysis) -> list[str]:
    """Return the names of the panels in order."""
    if analysis.picture.form == "scatter":
        return list(dict.fromkeys(dot.panel for dot in analysis.dots))
    if analysis.picture.form == "plane":
        return [""]
    return list(dict.fromkeys(row.panel for row in analysis.rows if row.mean is not None))


def _size(analysis: Analysis, panels: Sequence[str], columns: int) -> tuple[float, float]:
    """Return width and height of a panel in inches."""
    if analysis.picture.form in ("scatter", "plane"):
        if columns > 1:
            return (3.4, 3.2)
        return (4.6, 3.8)
    names = {name: set[str]() for name in panels}
    for row in analysis.rows:
        if row.panel in names:
            names[row.panel].add(row.label)
    labels = max(map(len, names.values()))
    series = len({row.series for row in analysis.rows})
    if analysis.picture.form == "across":
        return 3.8, max(2.4, 0.16 * labels * (series + 0.6))
    return min(9.0, max(2.6 if columns > 1 else 4.2, 0.75 + 0.3 * labels * series)), 3.0


def _frame(figure: Any, panels: Sequence[Any], columns: int, analysis: Analysis) -> None:
    """Add the title, the axis labels and a common legend to a figure."""
    figure.suptitle(plain(analysis.title), fontsize=10)
    for panel in panels[-columns:]:
        panel.set_xlabel(plain(analysis.picture.x), fontsize=8)
    if analysis.picture.y:
        figure.supylabel(plain(analysis.picture.y), fontsize=9)
    named = {
        label: handle
        for p in panels
        for handle, label in zip(*p.get_legend_handles_labels(), strict=True)
    }
    if named:
        columns = 4
        if max(map(len, named)) > 24:
            columns = 2
        figure.legend(
            list(named.values()),
            list(named),
            loc="outside lower center",
            ncols=columns,
            frameon=False,
            fontsize=8,
        )


def _series(analysis: Analysis) -> dict[str, int]:
    """Return the index of each series, which is the same in all panels."""
    names = dict.fromkeys(row.series for row in analysis.rows)
    return {name: number for number, name in enumerate(names)}


def _shown(analysis: Analysis, panel: str) -> list[AnalysisRow]:
    return [row for row in analysis.rows if row.panel == panel and row.mean is not None]


def _bars(panel: Any, analysis: Analysis, name: str) -> None:
    rows, series = _shown(analysis, name), _series(analysis)
    labels = list(dict.fromkeys(row.label for row in rows))
    with_rows = {row.series for row in rows}
    here = [series_name for series_name in series if series_name in with_rows]
    width = min(0.4, 0.8 / max(1, len(here)))
    for number, series_name in enumerate(here):
        chosen = [row for row in rows if row.series == series_name]
        at = [labels.index(row.label) + (number - (len(here) - 1) / 2) * width for row in chosen]
        _columns(
            panel, chosen, at, width, series[series_name], across=analysis.picture.form == "across"
        )
    if analysis.picture.form == "across":
        panel.set_yticks(range(len(labels)), [plain(label) for label in labels], fontsize=8)
        panel.invert_yaxis()
        panel.set_xlim(analysis.picture.limits)
    else:
        panel.set_xlim(-0.6, len(labels) - 0.4)
        turned = len(labels) > 2 and max(map(len, labels)) > LONG
        turn: dict[str, Any] = {}
        if turned:
            turn = {"rotation": 25, "ha": "right", "rotation_mode": "anchor"}
        panel.set_xticks(range(len(labels)), [plain(label) for label in labels], fontsize=8, **turn)
        if analysis.picture.limits is not None:
            panel.set_ylim(analysis.picture.limits)
        else:
            panel.axhline(0, color="#444444", linewidth=0.6)
    _levels(panel, analysis, name)
    panel.set_title(plain(f"{name}{_count(rows)}"))


def _columns(
    panel: Any,
    rows: Sequence[AnalysisRow],
    at: Sequence[float],
    width: float,
    colour: int,
    across: bool,
) -> None:
    """Draw the bars of one series with their intervals."""
    draw, ends = panel.bar, "yerr"
    if across:
        draw, ends = panel.barh, "xerr"
    draw(
        at,
        [row.mean for row in rows],
        width,
        **{ends: _reaches(rows)},
        color=COLOURS[colour % len(COLOURS)],
        label=plain(rows[0].series),
        capsize=2,
        error_kw={"elinewidth": 0.9, "ecolor": "#333333"},
    )


def _reaches(rows: Sequence[Estimate]) -> list[tuple[float, ...]]:
    """Return the distances from the means to the lower and the upper ends of their intervals."""
    return list(zip(*(reach(row.mean or 0.0, row.low, row.high) for row in rows), strict=True))


def _curve(panel: Any, analysis: Analysis, name: str) -> None:
    rows, series = _shown(analysis, name), _series(analysis)
    places = sorted({row.x or 0.0 for row in rows})
    gap = min((b - a for a, b in pairwise(places)), default=1.0)
    for series_name, number in series.items():
        chosen = sorted(
            (row for row in rows if row.series == series_name), key=lambda row: row.x or 0.0
        )
        if not chosen:
            continue
        # points of different series are shifted, so that their intervals do not overlap
        beside = APART * (number - (len(series) - 1) / 2)
        panel.errorbar(
            [
                (row.x or 0.0) + beside * ((row.x or 0.0) if analysis.picture.log else gap)
                for row in chosen
            ],
            [row.mean for row in chosen],
            yerr=_reaches(chosen),
            color=COLOURS[number % len(COLOURS)],
            marker=MARKERS[number % len(MARKERS)],
            markersize=4,
            linewidth=1.2,
            capsize=2,
            label=plain(series_name),
        )
    if analysis.picture.log:
        panel.set_xscale("log")
        panel.minorticks_off()
    # sorted, so that the row with the largest n determines the label
    ticks = {row.x: row for row in sorted(rows, key=lambda row: row.n)}
    names = {
        at: f"{row.label}, {row.x:g}" if analysis.picture.log else row.label
        for at, row in ticks.items()
    }
    panel.set_xticks(
        list(ticks), [f"{plain(names[at])}\nn={row.n}" for at, row in ticks.items()], fontsize=8
    )
    if analysis.picture.limits is not None:
        panel.set_ylim(analysis.picture.limits)
    _levels(panel, analysis, name)
    panel.set_title(plain(name))


def _levels(panel: Any, analysis: Analysis, name: str) -> None:
    for at, line in enumerate(line for line in analysis.lines if line.panel == name):
        style = ("--", ":", "-.")[at % 3]
        panel.axhline(
            line.value, color="#222222", linestyle=style, linewidth=1, label=plain(line.label)
        )


def _count(rows: Sequence[AnalysisRow | RetrievalRow]) -> str:
    """Format the number of records per bar: a single number, or the range."""
    counts = sorted({row.n for row in rows})
    if not counts:
        return ""
    if len(counts) == 1:
        return f" (n={counts[0]})"
    return f" (n={counts[0]} to {counts[-1]})"


def _scatter(panel: Any, analysis: Analysis, name: str) -> None:
    dots = [dot for dot in analysis.dots if dot.panel == name]
    for marked, label, colour in (
        (True, "effective edit", COLOURS[0]),
        (False, "not effective", COLOURS[1]),
    ):
        chosen = [dot for dot in dots if dot.marked == marked]
        x, y = [dot.x for dot in chosen], [dot.y for dot in chosen]
        # rasterized even in SVG: one path per dot would make a file of several megabytes
        panel.scatter(
            x, y, s=9, color=colour, alpha=0.6, linewidths=0, label=label, rasterized=True
        )
    panel.set_xscale("symlog", linthresh=1)
    panel.set_yscale("symlog", linthresh=1)
    reached = max((abs(value) for dot in dots for value in (dot.x, dot.y)), default=1.0) * 1.5
    ticks = _ticks(reached)
    panel.set(xlim=(-reached, reached), ylim=(-reached, reached), xticks=ticks, yticks=ticks)
    panel.minorticks_off()
    panel.axhline(0, color="#444444", linewidth=0.6)
    panel.axvline(0, color="#444444", linewidth=0.6)
    panel.plot(
        [-reached, reached], [-reached, reached], color="#444444", linewidth=0.6, linestyle=":"
    )
    panel.tick_params(labelsize=7)
    share = 100 * sum(dot.marked for dot in dots) / len(dots)
    panel.set_title(plain(f"{name} (n={len(dots)}, {share:.0f} % effective)"))


def _by_series_and_label(analysis: Analysis, axis: str) -> dict[tuple[str, str], AnalysisRow]:
    """Return the rows of an axis of a plane, by series and label."""
    rows = [row for row in analysis.rows if row.panel.endswith(axis)]
    return {(row.series, row.label): row for row in rows}


def _ticks(reached: float) -> list[float]:
    """Return a few powers of ten on either side of 0, so that labels do not overlap."""
    top = max(1, math.floor(math.log10(max(reached, 10.0))))
    if top > 2:
        powers = [10.0**top, 10.0 ** (top // 2)]
    else:
        powers = [10.0**top]
    return sorted([*(-power for power in powers), 0.0, *powers])


def _plane(panel: Any, analysis: Analysis, name: str) -> None:
    """Draw a point for each editor and label, with its two means as coordinates."""
    across, up = (_by_series_and_label(analysis, axis) for axis in analysis.picture.axes)
    series = _series(analysis)
    labels = list(dict.fromkeys(label for _, label in across))
    for (series_name, label), row in across.items():
        other = up.get((series_name, label))
        if other is None or row.mean is None or other.mean is None:
            continue
        panel.errorbar(
            row.mean,
            other.mean,
            xerr=_reaches([row]),
            yerr=_reaches([other]),
            color=COLOURS[series[series_name] % len(COLOURS)],
            marker=MARKERS[labels.index(label) % len(MARKERS)],
            markersize=5,
            linewidth=0.7,
            label=plain(f"{series_name}, {label} (n={row.n})"),
        )
    panel.set(xlim=analysis.picture.limits, ylim=analysis.picture.limits)


# Function that draws a panel, by form of the plot.
DRAW = {"bars": _bars, "across": _bars, "curve": _curve, "scatter": _scatter, "plane": _plane}
