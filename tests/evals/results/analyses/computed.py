"""Analyses of finished runs, and the numbers that are in them."""

from pathlib import Path
from typing import Any

from emend.evals.judging.judged_run import open_run
from emend.evals.results.analyses.base import Analysis, AnalysisRequest
from emend.evals.results.analyses.registry import analyse_runs


def analysed(kind: str, *folders: Path, **asked: Any) -> Analysis:
    """The analysis of these run folders, its axis of percentages whole; `asked` are its options."""
    found = analyse_runs(kind, [open_run(folder) for folder in folders], AnalysisRequest(**asked))
    assert found.picture.limits in (None, (0, 105))
    return found


def numbers(found: Analysis, panel: str = "") -> dict[tuple[str, str], tuple[float | None, int]]:
    """Mean and count by label and series, in the panels whose name has `panel` in it."""
    return {(row.label, row.series): (row.mean, row.n) for row in found.rows if panel in row.panel}
