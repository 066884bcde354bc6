"""The plot of an analysis: bars, curves, scatter or plane, each with its units, n and 95 % intervals."""

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from emend.evals.measure.retrieval import RetrievalReport, RetrievalRow
from emend.evals.metrics.estimate import Estimate
from emend.evals.results.analyses.base import Analysis, AnalysisRow, PlotStyle, row_of
from emend.evals.show.report.plots.plotting import COLOURS, MARKERS, bare, drawing, plain, reach
from emend.memory.errors import BadData

ACROSS = 3
"""Largest number of panels side by side; four are drawn two by two."""
APART = 0.08
"""Distance between the points of two series, as a share of the least distance on the axis."""
LONG = 9
"""Labels longer than this are turned."""


def plot_analysis(analysis: Analysis, file: Path) -> None:
    """Draw an analysis into a PNG or SVG file.

    Raises:
        MissingExtra, BadSettings: as `plotting.require_plotting`.
        BadData: no row has a value.
    """
    form = analysis.picture.form
    panels = _panels(analysis)
    if not panels:
        raise BadData(
            f"{file}: there is nothing to draw, all {len(analysis.rows)} rows of '{analysis.title}' are unscored: "
            "leave --plot out and see the table."
        )
    columns = 2 if len(panels) == 4 else min(ACROSS, len(panels))
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
    """Draw hit@1 of each strategy under each kind of probe in scope, a panel per setting.

    Raises:
        MissingExtra, BadSettings: as `plotting.require_plotting`.
    """
    rows = []
    for report in reports:
        for row in (row for row in report.rows if row.in_scope):
            questions = _count([other for other in report.rows if other.in_scope and other.kind == row.kind])
            value = Estimate(mean=row.hit_at_1, n=row.n, low=row.low, high=row.high).scaled(100)
            key = f"{report.benchmark}, {report.setting}", f"{row.kind}\n{questions.strip(' ()')}", row.strategy
            rows.append(row_of(key, value))
    picture = PlotStyle(x="kind of probe", y="hit@1, %", limits=(0, 105))
    plot_analysis(Analysis(kind="retrieval", title="Retrieval", unit="%", rows=tuple(rows), picture=picture), file)


def _panels(analysis: Analysis) -> list[str]:
    """Names of the panels, in order."""
    if analysis.picture.form == "scatter":
        return list(dict.fromkeys(dot.panel for dot in analysis.dots))
    if analysis.picture.form == "plane":
        return [""]
    return list(dict.fromkeys(row.panel for row in analysis.rows if row.mean is not None))


def _size(analysis: Analysis, panels: Sequence[str], columns: int) -> tuple[float, float]:
    """Inches of one panel."""
    if analysis.picture.form in ("scatter", "plane"):
        return (3.4, 3.2) if columns > 1 else (4.6, 3.8)
    labels = max(len({row.label for row in analysis.rows if row.panel == name}) for name in panels)
    series = len({row.series for row in analysis.rows})
    if analysis.picture.form == "across":
        return 3.8, max(2.4, 0.16 * labels * (series + 0.6))
    return min(9.0, max(2.6 if columns > 1 else 4.2, 0.75 + 0.3 * labels * series)), 3.0


def _frame(figure: Any, panels: Sequence[Any], columns: int, analysis: Analysis) -> None:
    """Title, axes and one legend for all panels."""
    figure.suptitle(plain(analysis.title), fontsize=10)
    for panel in panels[-columns:]:
        panel.set_xlabel(plain(analysis.picture.x), fontsize=8)
    if analysis.picture.y:
        figure.supylabel(plain(analysis.picture.y), fontsize=9)
    named = {label: handle for p in panels for handle, label in zip(*p.get_legend_handles_labels(), strict=True)}
    if named:
        columns = 2 if max(map(len, named)) > 24 else 4
        figure.legend(
            list(named.values()), list(named), loc="outside lower center", ncols=columns, frameon=False, fontsize=8
        )


def _series(analysis: Analysis) -> dict[str, int]:
    """The place of each series, the same in every panel."""
    return {name: at for at, name in enumerate(dict.fromkeys(row.series for row in analysis.rows))}


def _shown(analysis: Analysis, panel: str) -> list[AnalysisRow]:
    return [row for row in analysis.rows if row.panel == panel and row.mean is not None]


def _bars(panel: Any, analysis: Analysis, name: str) -> None:
    rows, series = _shown(analysis, name), _series(analysis)
    labels = list(dict.fromkeys(row.label for row in rows))
    here = [series_name for series_name in series if any(row.series == series_name for row in rows)]
    width = min(0.4, 0.8 / max(1, len(here)))
    for place, series_name in enumerate(here):
        chosen = [row for row in rows if row.series == series_name]
        at = [labels.index(row.label) + (place - (len(here) - 1) / 2) * width for row in chosen]
        _columns(panel, chosen, at, width, series[series_name], across=analysis.picture.form == "across")
    if analysis.picture.form == "across":
        panel.set_yticks(range(len(labels)), [plain(label) for label in labels], fontsize=8)
        panel.invert_yaxis()
        panel.set_xlim(analysis.picture.limits)
    else:
        panel.set_xlim(-0.6, len(labels) - 0.4)
        turned = len(labels) > 2 and max(map(len, labels)) > LONG
        turn: dict[str, Any] = {"rotation": 25, "ha": "right", "rotation_mode": "anchor"} if turned else {}
        panel.set_xticks(range(len(labels)), [plain(label) for label in labels], fontsize=8, **turn)
        if analysis.picture.limits is not None:
            panel.set_ylim(analysis.picture.limits)
        else:
            panel.axhline(0, color="#444444", linewidth=0.6)
    _levels(panel, analysis, name)
    panel.set_title(plain(f"{name}{_count(rows)}"))


def _columns(
    panel: Any, rows: Sequence[AnalysisRow], at: Sequence[float], width: float, colour: int, across: bool
) -> None:
    """The bars of one series, with their intervals."""
    means = [row.mean or 0.0 for row in rows]
    error = list(zip(*(reach(row.mean or 0.0, row.low, row.high) for row in rows), strict=True))
    style: dict[str, Any] = {
        "color": COLOURS[colour % len(COLOURS)],
        "label": plain(rows[0].series),
        "capsize": 2,
        "error_kw": {"elinewidth": 0.9, "ecolor": "#333333"},
    }
    if across:
        panel.barh(at, means, width, xerr=error, **style)
    else:
        panel.bar(at, means, width, yerr=error, **style)


def _curve(panel: Any, analysis: Analysis, name: str) -> None:
    rows, series = _shown(analysis, name), _series(analysis)
    places = sorted({row.x or 0.0 for row in rows})
    gap = min((b - a for a, b in pairwise(places)), default=1.0)
    for series_name, place in series.items():
        chosen = sorted((row for row in rows if row.series == series_name), key=lambda row: row.x or 0.0)
        if not chosen:
            continue
        error = list(zip(*(reach(row.mean or 0.0, row.low, row.high) for row in chosen), strict=True))
        beside = APART * (place - (len(series) - 1) / 2)  # so that intervals do not hide each other
        panel.errorbar(
            [_aside(row.x or 0.0, beside, gap, analysis.picture.log) for row in chosen],
            [row.mean for row in chosen],
            yerr=error,
            color=COLOURS[place % len(COLOURS)],
            marker=MARKERS[place % len(MARKERS)],
            markersize=4,
            linewidth=1.2,
            capsize=2,
            label=plain(series_name),
        )
    if analysis.picture.log:
        panel.set_xscale("log")
        panel.minorticks_off()
    ticks = {row.x: row for row in sorted(rows, key=lambda row: row.n)}  # the label with the largest n
    names = {at: f"{row.label}, {row.x:g}" if analysis.picture.log else row.label for at, row in ticks.items()}
    panel.set_xticks(list(ticks), [f"{plain(names[at])}\nn={row.n}" for at, row in ticks.items()], fontsize=8)
    if analysis.picture.limits is not None:
        panel.set_ylim(analysis.picture.limits)
    _levels(panel, analysis, name)
    panel.set_title(plain(name))


def _aside(x: float, beside: float, gap: float, log: bool) -> float:
    """The place a little beside x: a share of the least distance on the axis, or of x itself on a logarithmic one."""
    return x * (1 + beside) if log else x + beside * gap


def _levels(panel: Any, analysis: Analysis, name: str) -> None:
    for at, line in enumerate(line for line in analysis.lines if line.panel == name):
        style = ("--", ":", "-.")[at % 3]
        panel.axhline(line.value, color="#222222", linestyle=style, linewidth=1, label=plain(line.label))


def _count(rows: Sequence[AnalysisRow | RetrievalRow]) -> str:
    """The number of records behind a bar: one, or from the fewest to the most."""
    counts = sorted({row.n for row in rows})
    if not counts:
        return ""
    return f" (n={counts[0]})" if len(counts) == 1 else f" (n={counts[0]} to {counts[-1]})"


def _scatter(panel: Any, analysis: Analysis, name: str) -> None:
    dots = [dot for dot in analysis.dots if dot.panel == name]
    for marked, label, colour in ((True, "effective edit", COLOURS[0]), (False, "not effective", COLOURS[1])):
        chosen = [dot for dot in dots if dot.marked == marked]
        x, y = [dot.x for dot in chosen], [dot.y for dot in chosen]
        # as a picture, also inside an SVG: a path per dot would make a file of megabytes
        panel.scatter(x, y, s=9, color=colour, alpha=0.6, linewidths=0, label=label, rasterized=True)
    panel.set_xscale("symlog", linthresh=1)
    panel.set_yscale("symlog", linthresh=1)
    reached = max((abs(value) for dot in dots for value in (dot.x, dot.y)), default=1.0) * 1.5
    panel.set_xlim(-reached, reached)
    panel.set_ylim(-reached, reached)
    ticks = _ticks(reached)
    panel.set_xticks(ticks)
    panel.set_yticks(ticks)
    panel.minorticks_off()
    panel.axhline(0, color="#444444", linewidth=0.6)
    panel.axvline(0, color="#444444", linewidth=0.6)
    panel.plot([-reached, reached], [-reached, reached], color="#444444", linewidth=0.6, linestyle=":")
    panel.tick_params(labelsize=7)
    share = 100 * sum(dot.marked for dot in dots) / len(dots)
    panel.set_title(plain(f"{name} (n={len(dots)}, {share:.0f} % effective)"))


def _ticks(reached: float) -> list[float]:
    """Few powers of ten on either side of 0, so that their labels keep apart."""
    top = max(1, math.floor(math.log10(max(reached, 10.0))))
    powers = [10.0**top, 10.0 ** (top // 2)] if top > 2 else [10.0**top]
    return sorted([*(-power for power in powers), 0.0, *powers])


def _plane(panel: Any, analysis: Analysis, name: str) -> None:
    """One point per editor and label, its two means on the two axes."""
    across, up = ({(r.series, r.label): r for r in _axis(analysis, axis)} for axis in analysis.picture.axes)
    series = _series(analysis)
    labels = list(dict.fromkeys(label for _, label in across))
    for (series_name, label), row in across.items():
        other = up.get((series_name, label))
        if other is None or row.mean is None or other.mean is None:
            continue
        panel.errorbar(
            row.mean,
            other.mean,
            xerr=[[side] for side in reach(row.mean, row.low, row.high)],
            yerr=[[side] for side in reach(other.mean, other.low, other.high)],
            color=COLOURS[series[series_name] % len(COLOURS)],
            marker=MARKERS[labels.index(label) % len(MARKERS)],
            markersize=5,
            linewidth=0.7,
            label=plain(f"{series_name}, {label} (n={row.n})"),
        )
    panel.set_xlim(analysis.picture.limits)
    panel.set_ylim(analysis.picture.limits)


def _axis(analysis: Analysis, axis: str) -> list[AnalysisRow]:
    return [row for row in analysis.rows if row.panel.endswith(axis)]


DRAW = {"bars": _bars, "across": _bars, "curve": _curve, "scatter": _scatter, "plane": _plane}
"""Function that draws each form."""
