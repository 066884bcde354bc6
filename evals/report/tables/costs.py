"""Tables of what probes and edits cost."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.text import Text

from emend.evals.aggregate.columns import MetricRow
from emend.evals.aggregate.costs import MIB, PER_EDIT, PER_PROBE, RunCost
from emend.evals.case import Metric
from emend.evals.report.escape import one_line
from emend.evals.report.tables.layout import Frame, frame


def cost_tables(rows: Sequence[MetricRow]) -> Iterator[tuple[str, Frame]]:
    """Title and table for probes and for edits, for each setting and mode."""
    for (setting, mode), group in groupby(rows, key=lambda row: (row.setting, row.mode)):
        cells = {(row.editor, row.metric): row for row in group}
        for counted, metrics in (("probe", PER_PROBE), ("edit", PER_EDIT)):
            columns = [metric for metric in metrics if any(name == metric.name for _, name in cells)]
            if columns:
                yield one_line(f"cost of one {counted}, {setting}, mode {mode}"), _table(cells, columns)


def _table(rows: dict[tuple[str, str], MetricRow], metrics: Sequence[Metric]) -> Frame:
    table = frame("editor", "n", *(metric.name for metric in metrics))
    for editor in dict.fromkeys(editor for editor, _ in rows):
        first = rows.get((editor, metrics[0].name))
        cells = [_cell(rows.get((editor, metric.name))) for metric in metrics]
        table.add_row(Text(one_line(editor)), Text(str(first.n if first else 0)), *cells)
    return table


def _cell(row: MetricRow | None) -> Text:
    """Mean in a few digits, and the interval below it."""
    if row is None or row.mean is None:
        return Text("-")
    text = Text(_short(row.mean))
    if row.low is not None and row.high is not None:
        text.append(f"\n[{_short(row.low)}, {_short(row.high)}]", style="dim")
    return text


def _short(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 1 else f"{round(value, 4):.2g}"


def spent_line(spent: RunCost) -> str:
    """Tokens, calls, time and memory of a run in one line."""
    tokens = f"{spent.input_tokens:,} tokens in, {spent.output_tokens:,} out, {spent.calls:,} calls"
    tokens += f", of which {spent.untold:,} did not report their tokens" if spent.untold else ""
    before = f" ({spent.baseline_tokens:,} tokens and {spent.baseline_calls:,} calls of them before any edit)"
    time = f"; {spent.seconds:,.1f} s, {spent.cpu_seconds:,.1f} s of CPU" if spent.processes else ""
    memory = f", at most {spent.peak_bytes / MIB:,.0f} MiB" if spent.peak_bytes else ""
    return tokens + (before if spent.baseline_calls else "") + time + memory
