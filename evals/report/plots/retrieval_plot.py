"""The plot of `emend retrieval`: hit@1 of each strategy under each kind of probe, one panel a setting."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from emend.evals.components.retrieval_rows import RetrievalReport, RetrievalRow
from emend.evals.report.plots.plotting import bare, drawing, plain, reach


def plot_retrieval(reports: Sequence[RetrievalReport], file: Path) -> None:
    """Grouped bars of hit@1 with their 95 % intervals; probes out of scope stand for false hits, and are left out.

    Raises:
        MissingExtra, BadSettings: as `plotting.require_plotting`.
    """
    kinds = max(len({row.kind for row in report.rows if row.in_scope}) for report in reports)
    with drawing(file, 1.5 + len(reports) * max(2.5, 1.3 * kinds), 4) as figure:
        panels = figure.subplots(1, len(reports), sharey=True, squeeze=False)[0]
        for panel, report in zip(panels, reports, strict=True):
            _draw(panel, report)
        panels[0].set_ylabel("hit@1, %")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)


def _draw(panel: Any, report: RetrievalReport) -> None:
    rows = [row for row in report.rows if row.in_scope]
    kinds, strategies = (list(dict.fromkeys(names)) for names in ([r.kind for r in rows], [r.strategy for r in rows]))
    width = 0.8 / max(1, len(strategies))
    for place, strategy in enumerate(strategies):
        chosen = [row for row in rows if row.strategy == strategy]
        at = [kinds.index(row.kind) + (place - (len(strategies) - 1) / 2) * width for row in chosen]
        heights = [100 * row.hit_at_1 for row in chosen]
        panel.bar(at, heights, width, label=plain(strategy), yerr=_errors(chosen), capsize=2)
    panel.set_title(plain(f"{report.benchmark}, {report.setting}"))
    labels = [f"{plain(kind)}\n{_count([row.n for row in rows if row.kind == kind])}" for kind in kinds]
    panel.set_xticks(range(len(kinds)), labels, rotation=20 if len(kinds) > 3 else 0)
    panel.set_ylim(0, 105)
    bare(panel)


def _count(sizes: Sequence[int]) -> str:
    """The questions behind the bars of one kind; a range where the strategies were not asked the same number."""
    low, high = min(sizes), max(sizes)
    return f"n {low:,}" if low == high else f"n {low:,} to {high:,}"


def _errors(rows: Sequence[RetrievalRow]) -> list[list[float]]:
    """Distances from each bar's value to both ends of its interval."""
    sides = [reach(row.hit_at_1, row.low, row.high) for row in rows]
    return [[100 * below for below, _ in sides], [100 * above for _, above in sides]]
