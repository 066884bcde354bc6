"""The table of `emend retrieval`: strategies under each kind of probe."""

from collections.abc import Iterator
from decimal import ROUND_FLOOR, Decimal

from rich.console import Console, Group, RenderableType
from rich.text import Text

from emend.evals.measure.retrieval import DEPTH, RetrievalReport, RetrievalRow, ThresholdRow
from emend.evals.show.report.tables.layout import INTERVALS, Frame, bounds, decimal, dim, frame
from emend.memory.escape import one_line

COLUMNS = ("kind", "strategy", "n", "hit@1", "95 %", "hit@5", "MRR", "false hits", "ms")
WIDE = 100
"""Columns of a terminal from which on the intervals stand beside their figures, not under them."""


def render_retrieval(report: RetrievalReport, console: Console) -> RenderableType:
    """The table in percent (MRR in 0..1) and its notes; in a narrow console, intervals stand under their figures."""
    narrow = console.width < WIDE
    title = one_line(f"{report.benchmark}, {report.setting}: {report.edits} edits, {report.entries} entries")
    table = frame(*_heads([name for name in COLUMNS if not (narrow and name == "95 %")], narrow), names=2)
    for row in report.rows:
        table.add(row.kind, *_narrowed(list(_cells(row)), narrow))
    parts: list[RenderableType] = [Text(title, style="bold"), table]
    if report.thresholds:
        notes = f"thresholds that keep {100 * report.keep:g} % of the right first hits"
        parts += [Text(notes, style="bold"), _threshold_table(report, narrow)]
    return Group(*parts, *dim(retrieval_notes(report)))


def _heads(names: list[str], narrow: bool) -> list[str]:
    """The words of a heading under each other, where there is no room beside each other."""
    return [name.replace(" ", "\n") if narrow and name != "95 %" else name for name in names]


def _narrowed(cells: list[Text], narrow: bool) -> list[Text]:
    """The interval under its figure, where there is no room beside it."""
    if not narrow:
        return cells
    strategy, n, hit, interval, *rest = cells
    return [strategy, n, hit if interval.plain == "-" else Text("\n").join([hit, interval]), *rest]


def _threshold_table(report: RetrievalReport, narrow: bool) -> Frame:
    """The thresholds that were calibrated, and what they let through."""
    table = frame(*_heads(["strategy", "by", "kind", "least", "n", "false hits", "95 %"], narrow), names=3)
    for row in report.thresholds:
        table.add_row(*_threshold_cells(row))
    return table


def _threshold_cells(row: ThresholdRow) -> Iterator[Text]:
    yield from (Text(one_line(text)) for text in (row.strategy, row.by, row.kind, _least(row.least), str(row.n)))
    yield Text(_percent(row.false_hits))
    yield _bounds(row)


def _least(value: float) -> str:
    """Six digits, never above the value: typed as a setting, it keeps what it was found to keep."""
    notes = Decimal(value)
    digits = 5 - notes.adjusted() if value else 5
    return f"{float(notes.quantize(Decimal(1).scaleb(-digits), ROUND_FLOOR)):.6g}"


def retrieval_notes(report: RetrievalReport) -> list[str]:
    """Notes that explain the numbers."""
    notes = [
        f"embedding {one_line(report.embedding)}; [{INTERVALS}]; MRR over {DEPTH} entries",
        "ms: mean time of a search, without the time that the embedding took",
    ]
    notes += [f"{name} returned something for every probe that is out of scope" for name in _unbounded(report)]
    if report.skipped:
        notes.append(f"{report.skipped} probes do not say which edit bears on them, and are in no number")
    return notes


def _unbounded(report: RetrievalReport) -> Iterator[str]:
    """Strategies that answered every probe that is out of scope."""
    for name in dict.fromkeys(row.strategy for row in report.rows):
        rates = [row.false_hits for row in report.rows if row.strategy == name and row.false_hits is not None]
        if rates and min(rates) == 1:
            yield one_line(name)


def _cells(row: RetrievalRow) -> Iterator[Text]:
    yield Text(one_line(row.strategy))
    yield Text(str(row.n))
    yield Text(_percent(row.hit_at_1 if row.in_scope else None))
    yield _bounds(row) if row.in_scope else Text("-", "dim")
    yield Text(_percent(row.hit_at_5 if row.in_scope else None))
    yield Text(f"{row.mrr:.3f}" if row.in_scope else "-")
    yield Text(_percent(row.false_hits))
    yield Text(f"{row.ms:.2f}")


def _percent(share: float | None) -> str:
    return decimal(None if share is None else 100 * share, 1)


def _bounds(row: RetrievalRow | ThresholdRow) -> Text:
    return Text("-", "dim") if row.low is None or row.high is None else bounds(100 * row.low, 100 * row.high, 1)
