"""Marks of a metric's best values, as used by all tables and plots.

The mark is `best` if the value is significantly better than all others, else `highest`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from emend.evals.case import Metric
from emend.evals.metrics.estimate import EXTREMES, Estimate, estimate
from emend.evals.metrics.protocols import is_best_unedited
from emend.evals.results.aggregate.columns import (
    Columns,
    MetricRow,
    ResultGroup,
    columns_of,
    scores_of,
)
from emend.evals.results.aggregate.mark_names import BEST, HIGHEST, NONE, Mark, decimals

UNEDITED = "unedited"
# Values of `Metric.per` whose difference is paired by case.
PAIRED = ("record", "case", *EXTREMES)


class Rival(NamedTuple):
    """A pair of editors of which the first is better in a metric by their paired difference."""

    setting: str
    mode: str
    metric: str
    better: str
    worse: str


class MarkedRow(NamedTuple):
    """A row's value, whether its model is broken, and the run that it is from."""

    row: MetricRow | None
    is_broken: bool = False
    run: tuple[str, ...] = ()


def marks_of(
    rows: Sequence[MarkedRow], metric: Metric, apart: Collection[Rival] = ()
) -> list[Mark]:
    """Return the mark of each value in a column.

    The highest displayed value is `best` if its interval excludes that of every other value, or if
    their paired difference excludes 0. Values over fewer probes, of a broken model or right by
    definition get no mark. Unanswered probes count as wrong, so that silence cannot win.

    Args:
        rows: rows of the column.
        metric: metric of the column.
        apart: pairs of editors of one run whose paired difference excludes 0.
    """
    values = {
        position: _shown(row.row, metric)
        for position, row in enumerate(_candidates(rows, metric))
        if row.row
    }
    if len(set(values.values())) < 2:
        return [NONE] * len(rows)
    top = (max if metric.higher_is_better else min)(values.values())
    leaders = [position for position, value in values.items() if value == top]
    others = [rows[position] for position in values if position not in leaders]
    is_best = len(leaders) == 1 and all(
        _excludes(rows[leaders[0]], other, metric, apart) for other in others
    )
    if is_best:
        mark = BEST
    else:
        mark = HIGHEST
    return [mark if position in leaders else NONE for position in range(len(rows))]


def _candidates(rows: Sequence[MarkedRow], metric: Metric) -> Iterator[MarkedRow]:
    """Yield the rows, with an empty row in place of each one that may not be marked."""
    most = max((each.row.n + each.row.unscored for each in rows if each.row), default=0)
    for each in rows:
        row = each.row
        by_definition = row is not None and row.editor == UNEDITED and is_best_unedited(metric)
        is_whole = row is not None and row.mean is not None and row.n + row.unscored == most
        yield each if is_whole and not each.is_broken and not by_definition else MarkedRow(None)


def _shown(row: MetricRow, metric: Metric) -> float:
    if row.as_wrong is None:
        mean = row.mean
    else:
        mean = row.as_wrong
    return round(mean or 0.0, decimals(metric))


def _excludes(
    leader: MarkedRow, other: MarkedRow, metric: Metric, apart: Collection[Rival]
) -> bool:
    first, second = leader.row, other.row
    if first is None or second is None:
        return False
    if leader.run == other.run and _rival(first, second) in apart:
        return True
    if None in (first.low, first.high, second.low, second.high):
        return False
    higher, lower = (first, second) if metric.higher_is_better else (second, first)
    return (higher.low or 0.0) > (lower.high or 0.0)


def _rival(better: MetricRow, worse: MetricRow) -> Rival:
    return Rival(better.setting, better.mode, better.metric, better.editor, worse.editor)


def find_rivals(
    places: Mapping[ResultGroup, Columns], rows: Sequence[MetricRow], metrics: Sequence[Metric]
) -> Iterator[Rival]:
    """Yield pairs of a leader and another editor that only their paired difference separates."""
    by_name = {metric.name: metric for metric in metrics if metric.per in PAIRED}
    tables: dict[tuple[str, str, str], list[MetricRow]] = {}
    for row in rows:
        if row.metric in by_name and row.mean is not None and row.as_wrong is None:
            tables.setdefault((row.setting, row.mode, row.metric), []).append(row)
    for (_, _, name), members in tables.items():
        metric = by_name[name]
        marks = marks_of([MarkedRow(row) for row in members], metric)
        for leader in (row for row, mark in zip(members, marks, strict=True) if mark == HIGHEST):
            others = [row for row in members if _shown(row, metric) != _shown(leader, metric)]
            if all(_is_apart(places[leader.place], places[row.place], metric) for row in others):
                yield from (_rival(leader, row) for row in others)


def _is_apart(first: Columns, second: Columns, metric: Metric) -> bool:
    """Return True if the first editor is better by a paired difference that excludes 0."""
    left, right = _case_means(first, metric), _case_means(second, metric)
    gaps = [left[case] - right[case] for case in left if case in right]
    cases = [case for case in left if case in right]
    difference = estimate(gaps, cases, share=False, difference=metric.share)
    return _excludes_zero(difference, metric.higher_is_better)


def _excludes_zero(difference: Estimate, higher_is_better: bool) -> bool:
    if difference.low is None or difference.high is None:
        return False
    if higher_is_better:
        return difference.low > 0
    return difference.high < 0


def _case_means(columns: Columns, metric: Metric) -> dict[int, float]:
    """Return the mean value by case; for extremes, the mean over attempts of the best or worst."""
    values: dict[int, list[float]] = {}
    for value, case in scores_of(columns_of(columns, metric), metric.per).values():
        values.setdefault(case, []).append(value)
    return {case: sum(each) / len(each) for case, each in values.items()}
