"""Forgetting under sequential editing: metrics at the checkpoints beside the first evaluation of the same cases."""

from collections.abc import Sequence

from emend.evals.case import Metric
from emend.evals.metrics.estimate import Estimate
from emend.evals.results.aggregate.columns import MetricRow, RecordTable, estimate_of, only, order_by


class ForgettingRow(MetricRow):
    """A metric of an editor after `standing` edits; `first` is the same cases' score after their own edits."""

    standing: int
    first: Estimate


def forgetting_of(gathered: RecordTable, metrics: Sequence[Metric], editors: Sequence[str]) -> list[ForgettingRow]:
    """Row per result group, metric and checkpoint with results; editors in the order of the run."""
    rank = order_by(editors)
    rows = []
    for metric in metrics:
        for group, standing in sorted(gathered.again, key=lambda key: (rank(key[0]), key[1])):
            now = gathered.again[group, standing]
            row = group.row(metric, estimate_of(now, metric))
            if row.n or row.unscored:
                cases = {case for column in now.values() for case in (*column.cases.tolist(), *column.missing.tolist())}
                first = estimate_of(only(gathered.places.get(group, {}), cases), metric)
                rows.append(ForgettingRow(**dict(row), standing=standing, first=first))
    return rows
