"""The plot of `emend retrieval`: hit@1 of each strategy under each kind of probe, one panel a setting."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from emend.evals.retrieval_rows import RetrievalReport, RetrievalRow
from emend.memory.errors import BadSettings, MissingExtra

FORMATS = (".png", ".svg")


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
        raise MissingExtra("--plot needs matplotlib, which is not installed: pip install 'emend[plot]'.")


def plot_retrieval(reports: Sequence[RetrievalReport], file: Path) -> None:
    """Grouped bars of hit@1 with their 95 % intervals; probes out of scope stand for false hits, and are left out.

    Raises:
        MissingExtra, BadSettings: as `require_plotting`.
    """
    require_plotting(file)
    from matplotlib.figure import Figure  # a figure by itself needs no display

    kinds = max(len({row.kind for row in report.rows if row.in_scope}) for report in reports)
    figure = Figure(figsize=(1.5 + len(reports) * max(2.5, 1.3 * kinds), 4), layout="constrained")
    panels = figure.subplots(1, len(reports), sharey=True, squeeze=False)[0]
    for panel, report in zip(panels, reports, strict=True):
        _draw(panel, report)
    panels[0].set_ylabel("hit@1, %")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(file, dpi=150, metadata={"Date": None} if file.suffix.lower() == ".svg" else None)


def _draw(panel: Any, report: RetrievalReport) -> None:
    rows = [row for row in report.rows if row.in_scope]
    kinds, strategies = (list(dict.fromkeys(names)) for names in ([r.kind for r in rows], [r.strategy for r in rows]))
    width = 0.8 / max(1, len(strategies))
    for place, strategy in enumerate(strategies):
        chosen = [row for row in rows if row.strategy == strategy]
        at = [kinds.index(row.kind) + (place - (len(strategies) - 1) / 2) * width for row in chosen]
        heights = [100 * row.hit_at_1 for row in chosen]
        panel.bar(at, heights, width, label=_plain(strategy), yerr=_errors(chosen), capsize=2)
    panel.set_title(_plain(f"{report.benchmark}, {report.setting}"))
    panel.set_xticks(range(len(kinds)), [_plain(kind) for kind in kinds], rotation=20 if len(kinds) > 3 else 0)
    panel.set_ylim(0, 105)
    panel.spines[["top", "right"]].set_visible(False)


def _errors(rows: Sequence[RetrievalRow]) -> list[list[float]]:
    """How far the interval reaches below and above each bar."""
    below = [100 * max(0.0, row.hit_at_1 - (row.hit_at_1 if row.low is None else row.low)) for row in rows]
    above = [100 * max(0.0, (row.hit_at_1 if row.high is None else row.high) - row.hit_at_1) for row in rows]
    return [below, above]


def _plain(text: str) -> str:
    """Without the signs that matplotlib reads as mathematics; a leading underscore would leave a label out."""
    return text.replace("$", r"\$").lstrip("_")
