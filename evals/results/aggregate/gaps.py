"""Gaps between protocols: the same answers, scored by two rules."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from emend.evals.case import Metric
from emend.evals.metrics.estimate import EXTREMES, Estimate, estimate
from emend.evals.metrics.protocols import RIGHT_VALUES
from emend.evals.results.aggregate.columns import Column, Columns, RecordTable, columns_of, order_by
from emend.memory.edit import FrozenModel


class ProtocolGap(FrozenModel):
    """The second metric less the first, paired by probe (by case for a metric of `any` or `all`), in their unit.

    `n` is the number of probes that both have a score for; the interval is of 95 %, by bootstrap over cases.
    """

    editor: str
    setting: str
    mode: str
    first: str
    second: str
    protocols: tuple[str, str]
    mean: float
    n: int
    low: float | None
    high: float | None


def gaps_of(gathered: RecordTable, metrics: Sequence[Metric], editors: Sequence[str]) -> Iterator[ProtocolGap]:
    """The gaps between neighbouring protocols of each metric, in the order of the table."""
    pairs = [pair for pair in pairwise(metrics) if _are_counterparts(*pair)]
    for group in sorted(gathered.places, key=order_by(editors)):
        for first, second in pairs:
            gap = _difference(gathered.places[group], first, second)
            if gap is not None and gap.mean is not None:
                yield ProtocolGap(
                    **group._asdict(),
                    first=first.name,
                    second=second.name,
                    protocols=(first.protocol, second.protocol),
                    **gap.model_dump(exclude={"unscored"}),
                )


def _are_counterparts(first: Metric, second: Metric) -> bool:
    alike = (first.group, first.kinds, first.per) == (second.group, second.kinds, second.per)
    return alike and first.protocol != second.protocol and first.value in RIGHT_VALUES and second.value in RIGHT_VALUES


def _difference(columns: Columns, first: Metric, second: Metric) -> Estimate | None:
    """The mean difference; None for a metric that is no mean over probes or cases."""
    if first.per not in ("record", "case", *EXTREMES):
        return None
    left, right = (_scores(columns_of(columns, metric), metric.per) for metric in (first, second))
    both = [key for key in left if key in right]
    values, cases = [right[key][0] - left[key][0] for key in both], [left[key][1] for key in both]
    per = "case" if first.per == "case" else "record"
    return estimate(values, cases, per=per, share=False).scaled(first.scale)


def _scores(columns: Sequence[Column], per: str) -> dict[int, tuple[float, int]]:
    """Score and case of each record, or of each attempt at a case where its best or worst counts."""
    scores: dict[int, tuple[float, int]] = {}
    for column in columns:
        keys = column.attempts if per in EXTREMES else column.records
        for key, value, case in zip(keys.tolist(), column.values.tolist(), column.cases.tolist(), strict=True):
            known = scores.get(key)
            scores[key] = (value if known is None else EXTREMES[per](known[0], value), case)
    return scores
