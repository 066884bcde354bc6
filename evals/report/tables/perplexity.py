"""Tables of the perplexity of held-out texts before and under edits."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import Group, RenderableType
from rich.text import Text

from emend.evals.aggregate.columns import MetricRow
from emend.evals.aggregate.perplexity import PerplexityRow
from emend.evals.metrics.estimate import Estimate
from emend.evals.report.escape import one_line
from emend.evals.report.tables.layout import frame


def perplexity_tables(rows: Sequence[PerplexityRow]) -> Iterator[tuple[str, RenderableType]]:
    """Title and table for each setting and mode."""
    for (setting, mode), group in groupby(rows, key=lambda row: (row.setting, row.mode)):
        members = list(group)
        over = "sets of edits" if any(row.over == "edits" for row in members) else "texts"
        title = f"perplexity of held-out texts, {setting}, mode {mode}, n and intervals over {over}"
        yield (
            one_line(title + (", before over texts" if over != "texts" else "")),
            _table(members, mode == "sequential"),
        )


def _table(rows: Sequence[PerplexityRow], sequence: bool) -> RenderableType:
    table = frame("editor", *(["edits"] if sequence else []), "n", "before", "edited", "unscored")
    last = ""
    for row in rows:
        standing = [Text(str(row.standing))] if sequence else []
        name = Text(one_line(row.editor) if row.editor != last else "")
        unscored = Text(str(row.unscored or ""), style="yellow")
        table.add_row(name, *standing, Text(str(row.n)), _cell(row.before), _cell(row), unscored)
        last = row.editor
    reasons = dict.fromkeys(row.reason for row in rows if row.reason)
    notes = (
        [Text("unscored: " + "; ".join(one_line(reason, 160) for reason in reasons), style="dim")] if reasons else []
    )
    return Group(table, *notes)


def _cell(value: Estimate | MetricRow) -> Text:
    """Mean, and the interval below."""
    text = Text("-" if value.mean is None else _short(value.mean))
    if value.low is not None and value.high is not None and value.low != value.high:
        text.append(f"\n[{_short(value.low)}, {_short(value.high)}]", style="dim")
    return text


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
