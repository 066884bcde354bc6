"""Tables of a sequence name an editor once, above its checkpoints."""

from emend.evals.case import Metric
from emend.evals.metrics.estimate import Estimate
from emend.evals.results.aggregate.rows import ForgettingRow
from emend.evals.show.report.secondary import forgetting_tables


def row(editor: str, edits: int) -> ForgettingRow:
    first = Estimate(mean=100.0, n=2, unscored=0, low=None, high=None)
    return ForgettingRow(
        editor=editor,
        setting="s",
        mode="sequential",
        metric="EM",
        mean=50.0,
        n=2,
        unscored=0,
        low=None,
        high=None,
        standing=edits,
        first=first,
    )


def test_an_editor_is_named_at_its_first_checkpoint_only():
    rows = [row("ft", 2), row("ft", 4), row("rome", 2)]
    ((title, table),) = forgetting_tables(rows, [Metric(name="EM", value="em", kinds=())])
    assert "EM by number of applied edits" in title
    assert [str(cell) for cell in table.columns[0].cells] == ["ft", "", "rome"]
