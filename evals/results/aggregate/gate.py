"""The release gate: limits on what an edited model may lose, and its verdict on each editor."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from math import inf, isfinite
from typing import Literal

from emend.evals.case import Metric
from emend.evals.metrics.estimate import Estimate, ends_text
from emend.evals.metrics.protocols import plain_name
from emend.evals.metrics.published.akew import EDITED
from emend.evals.metrics.requirement import labelled
from emend.evals.results.aggregate.columns import GroupRow, MetricRow, ResultGroup
from emend.evals.results.aggregate.requirement_outcomes import refuse_unfinished
from emend.evals.results.aggregate.rows import ForgettingRow, Report
from emend.evals.results.aggregate.side_effects import AbilityRow, PerplexityRow
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest

NONE = Estimate(mean=None, n=0)


class GateLimits(FrozenModel):
    """Limits for an edited model, in percent and percentage points; None sets no limit.

    `min_efficacy` up to 1 is a share of a metric in percent, as in thresholds of `--require`.
    `metric` is the metric of efficacy and of forgetting; a name without protocol stands for its
    headline. By default it is the first share metric that covers edited prompts alone, such as
    CounterFact's ES, or else the run's first metric.
    """

    min_efficacy: float | None = None
    max_forgetting: float | None = None
    max_ability_drop: float | None = None
    max_perplexity: float | None = None
    """Upper limit of the ratio of held-out texts' perplexity to that before the edits."""
    metric: str = ""
    by: Literal["mean", "low"] = "mean"
    """Number to compare with the limits: the mean, or the end of the interval that is worse."""

    def compared(self, value: Estimate, is_least: bool) -> float | None:
        """Return the number that is compared with the limit: the mean, or by `low` the worse end.

        The number is rounded, since 29 of 50 is 57.99999999999999 percent.
        """
        end = value.mean
        if self.by == "low" and is_least:
            end = value.low
        if self.by == "low" and not is_least and value.high is not None:
            end = value.high
        if end is None:
            return None
        return round(end, 9)

    def is_met(self, value: Estimate, limit: float, is_least: bool) -> bool:
        """Return True if the value is at least the limit, or at most unless `is_least`."""
        number = self.compared(value, is_least)
        if number is None:
            return False
        if is_least:
            return number >= limit
        return number <= limit

    def in_percent(self, scale: float) -> "GateLimits":
        """Return the limits with a share as `min_efficacy` in percent, if the metric is."""
        share = self.min_efficacy
        if scale != 100 or share is None or not 0 < share <= 1:
            return self
        return self.model_copy(update={"min_efficacy": 100 * share})

    def check(self, scale: float) -> None:
        """Check that each limit is a finite number in the range of its quantity.

        Args:
            scale: scale of the gated metric; 100 for a metric in percent.

        Raises:
            BadSettings: a limit is not finite or outside the range of its quantity.
        """
        bounds = {
            "min_efficacy": (-inf, inf),
            "max_forgetting": (-inf, inf),
            "max_ability_drop": (-100.0, 100.0),
            "max_perplexity": (0.0, inf),
        }
        if scale == 100:
            bounds |= {"min_efficacy": (0.0, 100.0), "max_forgetting": (-100.0, 100.0)}
        for name, (least, most) in bounds.items():
            limit = getattr(self, name)
            if limit is None or (isfinite(limit) and least <= limit <= most):
                continue
            expected_number = "a finite number"
            if isfinite(most):
                expected_number = f"a number from {least:g} to {most:g}"
            raise BadSettings(f"--{name.replace('_', '-')} is {limit:g}: give {expected_number}.")


class GateCheck(GroupRow):
    """A quantity after `edits` edits of a sequence, with its limit.

    In other modes `edits` is 0, and the quantity covers all sets of edits. A check without a value
    is not met, and `reason` says why the value is missing.
    """

    edits: int
    quantity: str
    value: Estimate
    limit: float
    met: bool
    reason: str = ""

    @property
    def name(self) -> str:
        """Setting and quantity of the check, and its number of edits in a sequence."""
        if self.edits:
            return f"{self.setting}: {self.quantity} at {self.edits}"
        return f"{self.setting}: {self.quantity}"

    @property
    def message(self) -> str:
        """Sentence with the value, its interval and the limit."""
        value = self.value
        if value.mean is None:
            return f"{self.quantity}: {self.reason or 'no score'}"
        interval = ends_text(value.low, value.high, "z.4g")
        return f"{self.quantity} is {value.mean:z.4g}{interval}, n={value.n}; limit {self.limit:g}"


class GateVerdict(GroupRow):
    """The checks of an editor in a setting, ordered by number of edits."""

    checks: tuple[GateCheck, ...]

    @property
    def passes(self) -> bool:
        """True if every limit is kept after the last edit."""
        last = self.checks[-1].edits
        return all(check.met for check in self.checks if check.edits == last)

    @property
    def safe_edits(self) -> int | None:
        """Largest number of edits up to which all limits are kept; None if there is none."""
        safe = None
        for edits, checks in groupby(self.checks, key=lambda check: check.edits):
            if not all(check.met for check in checks):
                break
            safe = edits
        return safe


def compared_end(text: str) -> Literal["mean", "low"]:
    """Return which number is compared with a limit, `mean` or `low`, from its name.

    Raises:
        BadSettings: the name is neither `mean` nor `low`.
    """
    if text == "mean":
        return "mean"
    if text == "low":
        return "low"
    raise BadSettings(f"--by '{text}': {nearest(text, ['mean', 'low'])}")


def check_gate(report: Report, limits: GateLimits) -> list[GateVerdict]:
    """Return a verdict on each editor except `unedited` in each setting.

    Raises:
        BadSettings: no limit is set, a limit is impossible, the metric does not exist, or the run
            has no edited model or unfinished units.
    """
    refuse_unfinished(report.missing + report.failed, "emend gate")
    if not any(limit is not None for name, limit in limits if name not in ("metric", "by")):
        raise BadSettings("no limit is set: give for example --min-efficacy 90 --max-forgetting 5.")
    metric = _gated_metric(report, limits.metric)
    limits.check(metric.scale)
    limits = limits.in_percent(metric.scale)
    rows = [row for row in report.rows if row.metric == metric.name and row.editor != "unedited"]
    places = dict.fromkeys(row.place for row in rows)
    if not places:
        raise BadSettings(
            f"the run has no edited model with a value of {metric.name}: run an editor beside "
            "'unedited', or name another metric with --metric."
        )
    verdicts = []
    for place in places:
        checks: list[GateCheck] = []
        for edits in _numbers(report, place):
            checks += _checks(report, place, edits, metric, limits)
        verdicts.append(GateVerdict(**place._asdict(), checks=tuple(checks)))
    return verdicts


def _gated_metric(report: Report, name: str) -> Metric:
    by_name = {metric.name: metric for metric in report.metrics}
    if name and report.resolve(name) not in by_name:
        raise BadSettings(
            f"--metric '{name}': "
            f"{nearest(name, list(dict.fromkeys([*report.headlines, *by_name])))}"
        )
    of_edits = (
        metric for metric in report.metrics if metric.share and set(metric.kinds) <= set(EDITED)
    )
    chosen = name or plain_name(next(of_edits, report.metrics[0]))
    return by_name[report.resolve(chosen)]


def _numbers(report: Report, place: ResultGroup) -> list[int]:
    """Return the numbers of edits with measurements in a sequence; [0] in other modes."""
    rows: tuple[ForgettingRow | AbilityRow | PerplexityRow, ...] = (
        *report.forgetting, *report.ability, *report.perplexity
    )  # fmt: skip
    return sorted({row.standing for row in rows if row.place == place}) or [0]


def _checks(
    report: Report, place: ResultGroup, edits: int, metric: Metric, limits: GateLimits
) -> Iterator[GateCheck]:
    efficacy = labelled(metric)
    without_ability = NO_ABILITY
    if report.ability:
        without_ability = OF_WEIGHTS
    for quantity, limit, measure, reason in (
        (efficacy, limits.min_efficacy, _efficacy, "it was not measured"),
        (f"forgetting of {efficacy}", limits.max_forgetting, _forgetting, NOT_SEQUENTIAL),
        ("loss of ability", limits.max_ability_drop, _ability_drops, without_ability),
        ("ratio of perplexity", limits.max_perplexity, _perplexity, "no perplexity was measured"),
    ):
        if limit is None:
            continue
        is_least = quantity == efficacy
        values = list(measure(report, place, edits, metric.name))
        for name, value, why in values or [("", NONE, reason)]:
            yield GateCheck(
                **place._asdict(),
                edits=edits,
                quantity=", ".join(filter(None, (quantity, name))),
                value=value,
                limit=limit,
                met=limits.is_met(value, limit, is_least),
                reason=why,
            )


NOT_SEQUENTIAL = "it is measured in mode sequential, at the checkpoints of --reevaluate-at"
NO_ABILITY = "it is measured with --ability"
OF_WEIGHTS = "it is only measured for editors that change weights"
# Task name (or an empty text), value, and the reason for a missing value.
Values = Iterator[tuple[str, Estimate, str]]


def _efficacy(report: Report, place: ResultGroup, edits: int, metric: str) -> Values:
    rows: Sequence[MetricRow] = report.rows
    if edits:
        rows = [row for row in report.forgetting if row.standing == edits]
    return (("", row, "") for row in rows if row.metric == metric and row.place == place)


def _forgetting(report: Report, place: ResultGroup, edits: int, metric: str) -> Values:
    for row in report.forgetting:
        if (row.metric, row.standing, row.place) == (metric, edits, place):
            if row.mean is None or row.first.mean is None:
                lost = None
            else:
                lost = row.first.mean - row.mean
            yield "", Estimate(mean=lost, n=row.n), ""


def _ability_drops(report: Report, place: ResultGroup, edits: int, metric: str) -> Values:
    for row in report.ability:
        if (row.standing, row.place) == (edits, place):
            lost = row.change_estimate.scaled(-1)  # swaps the ends of the interval
            value = lost.model_copy(update={"low": lost.high, "high": lost.low})
            yield f"{row.task} {row.metric}", value, row.reason


def _perplexity(report: Report, place: ResultGroup, edits: int, metric: str) -> Values:
    rows = (row for row in report.perplexity if (row.standing, row.place) == (edits, place))
    return (("", Estimate(mean=row.ratio, n=row.n), row.reason) for row in rows)
