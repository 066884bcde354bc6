"""The table and the plot of `emend judge calibrate`."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from emend.evals.judges.calibration import Calibration
from emend.evals.metrics.agreement import Agreement, Coefficient
from emend.evals.metrics.estimate import Estimate
from emend.evals.report.escape import one_line
from emend.evals.report.plots.plotting import drawing, plain
from emend.evals.report.tables.layout import INTERVALS, Frame, frame

PUBLISHED = {
    "tendency": "ELKEN's judge, gpt-4-1106-preview, on 120 answers that one person marked: Spearman 0.744, Kendall "
    "0.698, mean mark 4.34 against 4.15 (section 4.4)"
}
"""By kind, what a paper says of its own judge."""
MOST_LABELS = 12
"""Shares have many values; they are drawn as dots, and their table of counts is left out."""
NAMES = {
    "raw": "equal labels",
    "kappa": "Cohen's kappa",
    "spearman": "Spearman",
    "kendall": "Kendall tau-b",
    "mae": "mean absolute error",
    "base_rate": "always the most frequent label: equal labels",
    "constant_mae": "always the median label: mean absolute error",
    "mean_first": "mean label of people",
    "mean_second": "mean label of the judge",
}
ALONE = ("base_rate", "constant_mae", "mean_first", "mean_second")
"""Says nothing about repeats, which have no first rater."""


def render_calibration(found: Calibration) -> RenderableType:
    """The measures, the counts of labels, the repeats, and what must be known."""
    title = f"{found.judge} on {found.kind}, {found.labelled} labels of {found.cases} cases"
    parts: list[RenderableType] = [Text(one_line(title), style="bold"), _measures(found)]
    if found.labels and len(found.labels) <= MOST_LABELS:
        parts += [Text("labels of people (rows) and of the judge", style="bold"), _counts(found)]
    if found.retest is not None:
        parts += [Text(f"agreement of {found.repeats} repeats with each other", style="bold"), _measures(found.retest)]
    return Group(*parts, *(Text(one_line(note), style="dim") for note in _notes(found)))


def _measures(found: Agreement) -> Frame:
    table = frame("", "value", "95 %", "n")
    alone = not isinstance(found, Calibration)
    for name, told in NAMES.items():
        value: Estimate | Coefficient | None = getattr(found, name)
        if value is None or (alone and name in ALONE):
            continue
        weighted = " (quadratic weights)" if name == "kappa" and found.spearman is not None else ""
        table.add_row(Text(told + weighted), *_cells(value), str(found.n))
    return table


def _cells(value: Estimate | Coefficient) -> tuple[Text, Text]:
    number = value.mean if isinstance(value, Estimate) else value.value
    if number is None:
        why = value.why if isinstance(value, Coefficient) else "nothing was scored"
        return Text("-"), Text(why, style="yellow")
    certain = value.low is None or value.high is None or value.low == value.high  # where nothing varies, none is known
    reach = "-" if certain else f"[{value.low:.2f}, {value.high:.2f}]"
    return Text(f"{number + 0.0:.2f}"), Text(reach, style="dim")


def _counts(found: Calibration) -> Frame:
    names = _label_names(found)
    table = frame("", *names)
    for name, row in zip(names, found.confusion, strict=True):
        table.add_row(name, *map(str, row))
    return table


def _label_names(found: Calibration) -> list[str]:
    if found.scale == "yes or no":
        return ["yes" if label else "no" for label in found.labels]
    return [f"{label:g}" for label in found.labels]


def _notes(found: Calibration) -> Iterator[str]:
    yield INTERVALS
    if found.kind in PUBLISHED:
        yield PUBLISHED[found.kind]
    if found.missing:
        yield f"{found.missing} items have no label and are left out"
    for reason, count in found.reasons.items():
        yield f"{count} unscored: {reason}"


def plot_calibrations(found: Sequence[Calibration], file: Path) -> None:
    """A panel per kind: counts of labels, people's against the judge's; shares as dots.

    Raises:
        MissingExtra, BadSettings: as `plotting.require_plotting`.
    """
    with drawing(file, 4.2 * len(found), 4.0) as figure:
        for panel, one in zip(figure.subplots(1, len(found), squeeze=False)[0], found, strict=True):
            if not one.n:
                panel.set_axis_off()
            elif len(one.labels) > MOST_LABELS or one.scale == "share":
                _dots(panel, one)
            else:
                _squares(panel, one)
            panel.set_title(plain(_headline(one)))
            panel.set_xlabel(f"the judge, {one.scale}")
            panel.set_ylabel(f"people, {one.scale}")


def _headline(found: Calibration) -> str:
    chosen = found.kappa or found.spearman
    name = "kappa" if found.kappa is not None else "Spearman"
    told = "undefined" if chosen is None or chosen.value is None else f"{chosen.value:.2f}"
    if chosen is not None and chosen.low is not None and chosen.high is not None:
        told += f" [{chosen.low:.2f}, {chosen.high:.2f}]"
    return f"{found.kind}, {found.judge}\nn={found.n}, {name} {told}"


def _squares(panel: Any, found: Calibration) -> None:
    """Counts as a grid of squares, each with its number."""
    names, size = _label_names(found), len(found.labels)
    panel.imshow(found.confusion, cmap="Blues", vmin=0)
    most = max(max(row) for row in found.confusion)
    for row, counts in enumerate(found.confusion):
        for column, count in enumerate(counts):
            panel.text(
                column, row, str(count), ha="center", va="center", color="white" if 2 * count > most else "black"
            )
    panel.set_xticks(range(size), names)
    panel.set_yticks(range(size), names)


def _dots(panel: Any, found: Calibration) -> None:
    """Pairs of labels; the larger a dot, the more pairs."""
    pairs = [
        (found.labels[column], found.labels[row], count)
        for row, counts in enumerate(found.confusion)
        for column, count in enumerate(counts)
        if count
    ]
    across, up, counts = zip(*pairs, strict=True)
    panel.plot([0, 1], [0, 1], color="#777777", linewidth=0.7, linestyle=":")
    panel.scatter(across, up, s=[18 * count for count in counts], color="#4477aa", alpha=0.6, linewidths=0)
    panel.set_xlim(-0.05, 1.05)
    panel.set_ylim(-0.05, 1.05)
