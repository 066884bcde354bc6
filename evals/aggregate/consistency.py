"""CounterFact's RS of a finished run, which needs reference texts that no run holds."""

from pathlib import Path

from rich.text import Text

from emend.evals.aggregate.columns import Row
from emend.evals.log.records import read_records
from emend.evals.metrics.consistency import References, consistency
from emend.evals.report.escape import one_line
from emend.evals.report.figures import Frame, frame
from emend.memory.errors import BadData

CASES = 100.0
"""RS is printed in percent, as the paper does."""


def consistency_rows(run: Path, references: Path) -> list[Row]:
    """RS by editor, over all settings and modes of the run, in percent.

    Raises:
        MissingData: a file of the references is absent.
        BadData: the run has no generated texts, or a file is not what it should be.
    """
    found = consistency(read_records(run), References.read(references))
    if not found:
        raise BadData(
            f"'{run}' has no generated texts: run it with --benchmark counterfact --benchmark-option generation=100."
        )
    return [
        Row(
            editor=editor,
            setting="all",
            mode="all",
            metric="RS",
            mean=None if told.mean is None else CASES * told.mean,
            n=told.n,
            unscored=told.unscored,
            low=None if told.low is None else CASES * told.low,
            high=None if told.high is None else CASES * told.high,
        )
        for editor, told in found.items()
    ]


def consistency_table(rows: list[Row]) -> Frame:
    """One row per editor: RS with its interval, n and what could not be scored."""
    table = frame("editor", "RS", "95 % interval", "n", "unscored")
    table.title, table.title_justify = "RS: generated texts against reference texts, cosine of tf-idf (percent)", "left"
    for row in rows:
        scored = row.mean is not None and row.low is not None and row.high is not None
        told = (f"{row.mean:.1f}", f"[{row.low:.1f}, {row.high:.1f}]") if scored else ("-", "")
        table.add_row(Text(one_line(row.editor)), *told, str(row.n), str(row.unscored))
    return table
