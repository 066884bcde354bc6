"""Plots of analyses, each with units, n and 95 % intervals, and of causal tracing; matplotlib is optional."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from emend.editors.tracing.causal_trace import KINDS, window
from emend.editors.tracing.mean_effects import LAST_SUBJECT, ROLES, LayerChoice, MeanEffects
from emend.evals.measure.retrieval import RetrievalReport, RetrievalRow
from emend.evals.metrics.estimate import Estimate
from emend.evals.results.analyses.base import Analysis, AnalysisRow, PlotStyle, row_of
from emend.evals.show.report.layout import dim, frame
from emend.memory.distribution import install_command
from emend.memory.errors import BadData, BadSettings, MissingExtra

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
    draw, ends = (panel.barh, "xerr") if across else (panel.bar, "yerr")
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
    """Distances from the means to the lower ends of their intervals, and to the upper ones."""
    return list(zip(*(reach(row.mean or 0.0, row.low, row.high) for row in rows), strict=True))


def _curve(panel: Any, analysis: Analysis, name: str) -> None:
    rows, series = _shown(analysis, name), _series(analysis)
    places = sorted({row.x or 0.0 for row in rows})
    gap = min((b - a for a, b in pairwise(places)), default=1.0)
    for series_name, place in series.items():
        chosen = sorted((row for row in rows if row.series == series_name), key=lambda row: row.x or 0.0)
        if not chosen:
            continue
        beside = APART * (place - (len(series) - 1) / 2)  # so that intervals do not hide each other
        panel.errorbar(
            [(row.x or 0.0) + beside * ((row.x or 0.0) if analysis.picture.log else gap) for row in chosen],
            [row.mean for row in chosen],
            yerr=_reaches(chosen),
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
    ticks = _ticks(reached)
    panel.set(xlim=(-reached, reached), ylim=(-reached, reached), xticks=ticks, yticks=ticks)
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
    across, up = (
        {(row.series, row.label): row for row in analysis.rows if row.panel.endswith(axis)}
        for axis in analysis.picture.axes
    )
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


DRAW = {"bars": _bars, "across": _bars, "curve": _curve, "scatter": _scatter, "plane": _plane}
"""Function that draws each form."""
TITLES = {"state": "one hidden state", "mlp": "MLPs of ten layers", "attention": "attention of ten layers"}
COLOUR_MAPS = {"state": "Purples", "mlp": "Greens", "attention": "Reds"}


def effect_rows(effects: MeanEffects) -> list[dict[str, Any]]:
    """One row for each kind, role and layer; `effect` is None where no fact has a token of the role."""
    return [
        {"kind": kind, "token": role, "layer": layer, "effect": None if value != value else value, "n": effects.facts}
        for kind in KINDS
        for role, values in zip(ROLES, effects.indirect[kind].tolist(), strict=True)
        for layer, value in enumerate(values)
    ]


def render_effects(effects: MeanEffects, layers: LayerChoice, unknown: int) -> RenderableType:
    """The effects at the subject's last and the prompt's last token by layer, and the suggestion."""
    table = frame("layer", *(f"{kind}, {where}" for where in ("last subject", "last token") for kind in KINDS))
    for layer in range(effects.indirect["mlp"].shape[1]):
        places = (LAST_SUBJECT, len(ROLES) - 1)
        values = [float(effects.indirect[kind][place, layer]) for place in places for kind in KINDS]
        mark = " <" if layer == layers.rome else ""
        table.add(f"{layer}{mark}", *("" if value != value else f"{100 * value:z.1f}" for value in values))
    left_out = f"; {unknown} facts that the model does not know are left out" if unknown else ""
    notes = [
        f"n = {effects.facts} facts{left_out}; mean probability of the answer that comes back, in points, of the "
        f"{100 * effects.total:.1f} that a blurred subject costs.",
        "state: one hidden state is restored; mlp and attention: the outputs of ten layers together.",
    ]
    restored = window(layers.rome, effects.indirect["mlp"].shape[1])
    suggestion = (
        f"Most comes back by the MLPs of layers {restored[0]} to {restored[-1]} at the last subject token, round layer "
        f"{layers.rome}. Try rome.layers=[{layers.rome}] and memit.layers={list(layers.memit)}, and compare: edits "
        "need not take best there."
    )
    return Group(table, *dim(notes), Text(suggestion))


def plot_effects(effects: MeanEffects, file: Path) -> None:
    """Draw the mean indirect effects into a PNG or SVG file.

    Raises:
        MissingExtra: matplotlib is not installed.
        BadSettings: the file's ending is another, or its folder is absent.
    """
    with drawing(file, 11, 2.6) as figure:
        panels = figure.subplots(1, len(KINDS), sharey=True)
        for panel, kind in zip(panels, KINDS, strict=True):
            image = panel.imshow(effects.indirect[kind].numpy(), aspect="auto", cmap=COLOUR_MAPS[kind], vmin=0)
            panel.set_title(f"restored: {TITLES[kind]}")
            panel.set_xlabel("layer")
            figure.colorbar(image, ax=panel, label="mean indirect effect")
        panels[0].set_yticks(range(len(ROLES)), ROLES)
        figure.suptitle(f"probability of the answer that comes back, {effects.facts} facts", fontsize=9)
