"""A list of runs as a table."""

from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from emend.evals.aggregate.runs import RunRow
from emend.evals.report.escape import one_line
from emend.evals.report.tables.layout import Frame, frame


def render_runs(runs: Sequence[RunRow], folder: Path) -> Frame:
    """A table with a row per run."""
    table = frame("run", "started", "benchmark", "model", "editors", "mode", "units", "failed", names=6)
    for run in runs:
        name = run.folder if run.folder == str(folder) else Path(run.folder).name
        units = f"{run.finished} of {run.units}"
        started = run.started[:16].replace("T", " ")
        cells = (
            name,
            started,
            run.benchmark,
            run.model,
            ", ".join(run.editors),
            run.mode,
            units,
            str(run.failed or ""),
        )
        table.add_row(*(Text(one_line(cell)) for cell in cells))
    return table
