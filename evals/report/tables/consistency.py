"""Table of CounterFact's RS by editor."""

from rich.text import Text

from emend.evals.aggregate.columns import MetricRow
from emend.evals.report.escape import one_line
from emend.evals.report.tables.layout import Frame, frame


def consistency_table(rows: list[MetricRow]) -> Frame:
    """Table with a row per editor: RS with its interval, n and unscored."""
    table = frame("editor", "RS", "95 % interval", "n", "unscored")
    table.title, table.title_justify = "RS: generated texts against reference texts, cosine of tf-idf (percent)", "left"
    for row in rows:
        scored = row.mean is not None and row.low is not None and row.high is not None
        cells = (f"{row.mean:.1f}", f"[{row.low:.1f}, {row.high:.1f}]") if scored else ("-", "")
        table.add_row(Text(one_line(row.editor)), *cells, str(row.n), str(row.unscored))
    return table
