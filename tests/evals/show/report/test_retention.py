"""Tables of a sequence: one of all metrics at each checkpoint, and one for each metric."""

from emend.evals.case import Metric
from emend.evals.metrics.estimate import Estimate
from emend.evals.results.aggregate.rows import ForgettingRow
from emend.evals.show.report.secondary import forgetting_tables, sequence_tables


def row(editor: str, edits: int, metric: str = "EM", n: int = 2) -> ForgettingRow:
    first = Estimate(mean=100.0, n=2, unscored=0, low=None, high=None)
    return ForgettingRow(
        editor=editor,
        setting="s",
        mode="sequential",
        metric=metric,
        mean=50.0,
        n=n,
        unscored=1,
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


def test_the_curve_has_a_row_for_each_checkpoint_and_a_column_for_each_metric():
    rows = [row("ft", 2), row("ft", 4), row("ft", 2, "NS", n=6), row("ft", 4, "NS", n=6), row("ft", 2, "other")]
    metrics = [
        Metric(name=name, value="em", kinds=(), scale=100.0, protocol="exact") for name in ("EM", "NS", "unmeasured")
    ]
    ((title, table),) = sequence_tables(rows, metrics)
    assert "all cases so far" in title
    columns = {str(column.header): [str(cell) for cell in column.cells] for column in table.columns}
    assert columns == {
        "editor": ["ft", ""],
        "edits": ["2", "4"],
        "n": ["2 to 6", "2 to 6"],
        "EM\nexact": ["50.0", "50.0"],
        "NS\nexact": ["50.0", "50.0"],
        "unscored": ["1", "1"],
    }
    assert not list(sequence_tables([], metrics))
