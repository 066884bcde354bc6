"""Forgetting under sequential editing: metrics at the checkpoints beside the first evaluation of the same cases."""

from collections.abc import Iterator, Sequence

from emend.evals.aggregate.columns import Columns, MetricRow, RecordTable, ResultGroup, estimate_of, only
from emend.evals.case import Metric
from emend.evals.metrics.estimate import Estimate


class ForgettingRow(MetricRow):
    """A metric of an editor after `standing` edits; `first` is the same cases' score after their own edits."""

    standing: int
    first: Estimate


def forgetting_of(gathered: RecordTable, metrics: Sequence[Metric], editors: Sequence[str]) -> list[ForgettingRow]:
    """Row per result group, metric and checkpoint with results; editors in the order of the run."""
    order = {name: number for number, name in enumerate(editors)}

    def rank(key: tuple[ResultGroup, int]) -> tuple[str, str, int, int]:
        place, standing = key
        return place.setting, place.mode, order.get(place.editor, len(order)), standing

    return [
        row
        for metric in metrics
        for place, standing in sorted(gathered.again, key=rank)
        for row in _rows(place, standing, metric, gathered.again[place, standing], gathered.places.get(place, {}))
    ]


def _rows(place: ResultGroup, standing: int, metric: Metric, now: Columns, first: Columns) -> Iterator[ForgettingRow]:
    value = estimate_of(now, metric)
    if not value.n and not value.unscored:
        return
    cases = {case for column in now.values() for case in (*column.cases, *column.missing)}
    yield ForgettingRow(
        editor=place.editor,
        setting=place.setting,
        mode=place.mode,
        metric=metric.name,
        **value.model_dump(),
        standing=standing,
        first=estimate_of(only(first, cases), metric),
    )
