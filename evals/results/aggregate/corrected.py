"""Metrics with manual corrections, beside the same metrics as scored."""

from collections.abc import Iterable, Iterator, Sequence

from emend.evals.case import Metric
from emend.evals.corrections.correction import ScoreCorrection
from emend.evals.metrics.estimate import Estimate
from emend.evals.results.aggregate.columns import MetricPlace, MetricRow


class CorrectedRow(MetricPlace):
    """A metric of an editor as scored and with manual corrections, each with its 95% interval."""

    protocol: str
    corrections: int
    """Number of answers whose score was corrected."""
    scored: Estimate
    corrected: Estimate


def corrected_rows(
    scored: Sequence[MetricRow],
    corrected: Iterable[MetricRow],
    metrics: Sequence[Metric],
    corrections: Iterable[ScoreCorrection],
) -> Iterator[CorrectedRow]:
    """Yield a row for each metric that the corrections affect.

    Args:
        scored: the rows of the report.
        corrected: rows of the corrected records.
        metrics: metrics of the report.
        corrections: corrections that are in effect.
    """
    by_name, lines = {metric.name: metric for metric in metrics}, list(corrections)
    before = {(row.place, row.metric): row for row in scored}
    for row in corrected:
        count = sum(_is_about(line, row, by_name[row.metric]) for line in lines)
        if not count:
            continue
        old = before.get((row.place, row.metric))
        yield CorrectedRow(
            editor=row.editor,
            setting=row.setting,
            mode=row.mode,
            metric=row.metric,
            protocol=row.protocol,
            corrections=count,
            scored=_estimate(old or row.model_copy(update={"mean": None, "n": 0})),
            corrected=_estimate(row),
        )


def _is_about(line: ScoreCorrection, row: MetricRow, metric: Metric) -> bool:
    return (
        (line.editor, line.setting, line.score) == (row.editor, row.setting, metric.value)
        and line.kind in (metric.kinds or (line.kind,))
    )  # fmt: skip


def _estimate(row: MetricRow) -> Estimate:
    return Estimate(**{name: getattr(row, name) for name in Estimate.model_fields})
