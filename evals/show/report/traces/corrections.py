"""Tables of manual score corrections, and of the corrected metrics."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from emend.evals.case import Metric
from emend.evals.corrections.correction import ScoreCorrection
from emend.evals.metrics.protocols import plain_name
from emend.evals.show.report.layout import Frame, frame, with_interval
from emend.memory.escape import one_line

if TYPE_CHECKING:
    # both import numpy, which traces with corrections do not need
    from emend.evals.metrics.estimate import Estimate
    from emend.evals.results.aggregate.corrected import CorrectedRow

NONE_YET = "no score of the run has been corrected; see: emend judge correct --help"


def corrections_table(lines: Sequence[ScoreCorrection]) -> RenderableType:
    """Return a table of the corrections of a run."""
    if not lines:
        return Text(NONE_YET)
    table = frame("case", "editor", "kind", "score", "was", "corrected", "by", "note")
    for line in lines:
        was = score_text(line.was)
        texts = (line.editor, line.kind, line.score, was, score_text(line.value), line.by)
        table.add(line.case, *map(one_line, texts), one_line(line.note, 200))
    return table


def score_text(value: float | None) -> str:
    """Format a score, or `unscored` for None."""
    if value is None:
        return "unscored"
    return f"{value:g}"


def correction_text(line: ScoreCorrection) -> str:
    """Format a correction as one line: `contains 0 is 1 by Ada: a river of that name`."""
    by = f" by {line.by}" if line.by else ""
    note = f": {line.note}" if line.note else ""
    return f"{line.score} {score_text(line.was)} is {score_text(line.value)}{by}{note}"


def corrected_tables(
    rows: Sequence["CorrectedRow"], metrics: Sequence[Metric]
) -> Iterator[tuple[str, Frame]]:
    """Yield the title and table of the metrics with corrections, if there are any."""
    if not rows:
        return
    by_name = {metric.name: metric for metric in metrics}
    table = frame("editor", "setting", "metric", "corrections", "n", "as scored", "corrected")
    for row in rows:
        metric = by_name[row.metric]
        cell = partial(_cell, metric=metric)
        name = f"{plain_name(metric)} {row.protocol}".rstrip()
        counts = (str(row.corrections), str(row.corrected.n))
        table.add(row.editor, row.setting, name, *counts, cell(row.scored), cell(row.corrected))
    yield "with manual corrections; all other figures use the original scores", table


def _cell(value: "Estimate", metric: Metric) -> str:
    return with_interval(value.mean, value.low, value.high, metric)
