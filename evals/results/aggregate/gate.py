"""Thresholds on a report's metrics, and the release gate: whether an edited model may be shipped."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import ge, gt, le, lt
from pathlib import Path
from typing import Self
from xml.etree import ElementTree

from emend.evals.metrics.estimate import Estimate
from emend.evals.metrics.paper_scores import EDITED
from emend.evals.results.aggregate.columns import GroupRow, MetricRow, ResultGroup
from emend.evals.results.aggregate.costs import AbilityRow, PerplexityRow
from emend.evals.results.aggregate.rows import ForgettingRow, Report
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest

SIGNS = {">=": ge, "<=": le, ">": gt, "<": lt}
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_FORM = re.compile(
    rf"(?:(?P<editor>.+):)?(?P<metric>[^:<>=]+?)\s*(?P<sign>>=|<=|>|<)\s*(?P<number>{_NUMBER})\s*(?P<unit>%?)"
)


class Requirement(FrozenModel):
    """A threshold on a metric of one editor, or of every editor but `unedited`."""

    text: str
    editor: str | None
    metric: str
    sign: str
    number: float
    percent: bool

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `EDITOR:METRIC>=NUMBER` or `METRIC>=NUMBER`.

        A number is a share (0.9) or has a percent sign (90%) for metrics in percent, and is in the metric's own unit
        for others.

        Raises:
            BadSettings: the text has another form.
        """
        match = _FORM.fullmatch(text.strip())
        if match is None:
            raise BadSettings(f"--require '{text}': write for example rag:efficacy>=0.9, or efficacy>=90%.")
        return cls(
            text=text.strip(),
            editor=match["editor"],
            metric=match["metric"].strip(),
            sign=match["sign"],
            number=float(match["number"]),
            percent=bool(match["unit"]),
        )


class RequirementOutcome(FrozenModel):
    """A requirement and the row that it is about; `met` is false without a score too."""

    requirement: Requirement
    row: MetricRow
    threshold: float
    """In the metric's own unit."""
    met: bool

    @property
    def editor(self) -> str:
        """The editor that the row is about."""
        return self.row.editor

    @property
    def name(self) -> str:
        """The requirement, and where it applies."""
        return f"{self.row.setting}: {self.requirement.text}"

    @property
    def message(self) -> str:
        """The value with its interval, beside what is required."""
        row = self.row
        value = "no score" if row.mean is None else f"{row.mean:.4g}"
        interval = "" if row.low is None or row.high is None else f" [{row.low:.4g}, {row.high:.4g}]"
        where = f"{row.editor} {row.setting}: {row.metric}"
        required = f"required {self.requirement.sign} {self.threshold:g}"
        return f"{where} is {value}{interval}, n={row.n}, unscored {row.unscored}; {required}"


def check_requirements(report: Report, texts: Sequence[str]) -> list[RequirementOutcome]:
    """The outcome of each requirement, on each row that it is about.

    Raises:
        BadSettings: a text has another form, no row is meant by it, or the run is unfinished.
    """
    if texts:
        _refuse_unfinished(report.missing, "--require")
    return [outcome for text in texts for outcome in _outcomes(report, Requirement.parse(text))]


def _outcomes(report: Report, requirement: Requirement) -> list[RequirementOutcome]:
    option = f"--require '{requirement.text}'"
    metric = next((metric for metric in report.metrics if metric.name == requirement.metric), None)
    if metric is None:
        known = [metric.name for metric in report.metrics]
        raise BadSettings(f"{option}: no metric '{requirement.metric}': {nearest(requirement.metric, known)}")
    editors = list(dict.fromkeys(row.editor for row in report.rows))
    if requirement.editor is not None and requirement.editor not in editors:
        raise BadSettings(f"{option}: no editor '{requirement.editor}': {nearest(requirement.editor, editors)}")
    if requirement.percent and metric.scale != 100:
        raise BadSettings(f"{option}: {requirement.metric} is not in percent: leave out the percent sign.")
    as_share = metric.scale == 100 and not requirement.percent
    threshold = requirement.number * 100 if as_share else requirement.number
    chosen = [requirement.editor] if requirement.editor else [name for name in editors if name != "unedited"] or editors
    rows = [row for row in report.rows if row.metric == metric.name and row.editor in chosen]
    if not rows:
        raise BadSettings(f"{option}: the run has no value of {requirement.metric} for {', '.join(chosen)}.")
    return [
        RequirementOutcome(
            requirement=requirement,
            row=row,
            threshold=threshold,
            met=row.mean is not None and bool(SIGNS[requirement.sign](round(row.mean, 9), round(threshold, 9))),
        )
        for row in rows
    ]


def write_junit(outcomes: "Sequence[RequirementOutcome | GateCheck]", name: str, path: Path) -> None:
    """Write a JUnit test suite of that name, with a test case for each outcome.

    Raises:
        BadSettings: the file cannot be written.
    """
    failures = str(sum(not each.met for each in outcomes))
    suite = ElementTree.Element("testsuite", name=_plain(name), tests=str(len(outcomes)), failures=failures)
    for each in outcomes:
        element = ElementTree.SubElement(suite, "testcase", classname=_plain(each.editor), name=_plain(each.name))
        if not each.met:
            ElementTree.SubElement(element, "failure", message=_plain(each.message))
    try:
        ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise BadSettings(f"cannot write '{path}': {error.strerror}. Give another --junit FILE.") from error


def _plain(text: str) -> str:
    """The text without control characters, which XML cannot hold."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


NONE = Estimate(mean=None, n=0)


class GateLimits(FrozenModel):
    """Limits that an edited model has to keep, in percent and percentage points; None sets no limit.

    `metric` is the metric of efficacy and of forgetting; empty for the first share of edited prompts alone, such as
    CounterFact's ES, or else the run's first metric.
    """

    min_efficacy: float | None = None
    max_forgetting: float | None = None
    max_ability_drop: float | None = None
    max_perplexity: float | None = None
    """Perplexity of held-out texts over that before the edits."""
    metric: str = ""


class GateCheck(GroupRow):
    """A quantity after `edits` edits of a sequence, or in other modes under each set of edits (0), and its limit.

    Without a value it is not met, and `reason` says why there is none.
    """

    edits: int
    quantity: str
    value: Estimate
    limit: float
    met: bool
    reason: str = ""

    @property
    def name(self) -> str:
        """The quantity, and where it was measured."""
        return f"{self.setting}: {self.quantity} at {self.edits}"

    @property
    def message(self) -> str:
        """The value with its interval beside the limit."""
        value = self.value
        if value.mean is None:
            return f"{self.quantity}: {self.reason or 'no score'}"
        interval = "" if value.low is None or value.high is None else f" [{value.low:z.4g}, {value.high:z.4g}]"
        return f"{self.quantity} is {value.mean:z.4g}{interval}, n={value.n}; limit {self.limit:g}"


class GateVerdict(GroupRow):
    """The checks of an editor in a setting, in the order of the numbers of edits."""

    checks: tuple[GateCheck, ...]

    @property
    def passes(self) -> bool:
        """True if every limit is kept after the last edit."""
        last = self.checks[-1].edits
        return all(check.met for check in self.checks if check.edits == last)

    @property
    def safe_edits(self) -> int | None:
        """The last number of edits up to which every limit is kept; None where not even the first one is."""
        safe = None
        for edits, checks in groupby(self.checks, key=lambda check: check.edits):
            if not all(check.met for check in checks):
                break
            safe = edits
        return safe


def check_gate(report: Report, limits: GateLimits) -> list[GateVerdict]:
    """The verdict on each editor but `unedited` in each setting.

    Raises:
        BadSettings: no limit is set, no such metric, the run has no edited model, or lacks units.
    """
    _refuse_unfinished(report.missing + report.failed, "emend gate")
    if not any(limit is not None for name, limit in limits if name != "metric"):
        raise BadSettings("no limit is set: give for example --min-efficacy 90 --max-forgetting 5.")
    metric = _metric_name(report, limits.metric)
    rows = [row for row in report.rows if row.metric == metric and row.editor != "unedited"]
    places = dict.fromkeys(row.place for row in rows)
    if not places:
        raise BadSettings("the run has no edited model with a value of " + metric)
    return [
        GateVerdict(
            **place._asdict(),
            checks=tuple(
                check for edits in _numbers(report, place) for check in _checks(report, place, edits, metric, limits)
            ),
        )
        for place in places
    ]


def _refuse_unfinished(units: int, what: str) -> None:
    if units:
        raise BadSettings(
            f"{what}: {units} units of the run are not done, and what was not measured does not pass: "
            "finish it with emend resume."
        )


def _metric_name(report: Report, name: str) -> str:
    names = [metric.name for metric in report.metrics]
    if name and name not in names:
        raise BadSettings(f"--metric '{name}': {nearest(name, names)}")
    of_edits = (metric.name for metric in report.metrics if metric.share and set(metric.kinds) <= set(EDITED))
    return name or next(of_edits, names[0])


def _numbers(report: Report, place: ResultGroup) -> list[int]:
    """Numbers of edits after which something was measured, in a sequence; else 0 alone."""
    rows: tuple[ForgettingRow | AbilityRow | PerplexityRow, ...] = (
        *report.forgetting, *report.ability, *report.perplexity
    )  # fmt: skip
    return sorted({row.standing for row in rows if row.place == place}) or [0]


def _checks(report: Report, place: ResultGroup, edits: int, metric: str, limits: GateLimits) -> Iterator[GateCheck]:
    for quantity, limit, values, reason in (
        (metric, limits.min_efficacy, _efficacy, "it was not measured"),
        (f"forgetting of {metric}", limits.max_forgetting, _forgetting, NOT_SEQUENTIAL),
        ("drop of ability", limits.max_ability_drop, _ability_drops, OF_WEIGHTS if report.ability else NO_ABILITY),
        ("ratio of perplexity", limits.max_perplexity, _perplexity, "no perplexity was measured"),
    ):
        if limit is not None:
            for name, value, why in list(values(report, place, edits, metric)) or [("", NONE, reason)]:
                # Rounded, as 29 of 50 is 57.99999999999999 percent.
                mean = None if value.mean is None else round(value.mean, 9)
                yield GateCheck(
                    **place._asdict(),
                    edits=edits,
                    quantity=f"{quantity}, {name}" if name else quantity,
                    value=value,
                    limit=limit,
                    met=mean is not None and (mean >= limit if quantity == metric else mean <= limit),
                    reason=why,
                )


NOT_SEQUENTIAL = "it is measured in mode sequential, at the checkpoints of --reevaluate-at"
NO_ABILITY = "it is measured with --ability"
OF_WEIGHTS = "it is measured for editors of weights alone, and this one leaves them as they are"
Values = Iterator[tuple[str, Estimate, str]]
"""Name of the task or empty, the value, and why it has none."""


def _efficacy(report: Report, place: ResultGroup, edits: int, metric: str) -> Values:
    rows = [row for row in report.forgetting if row.standing == edits] if edits else report.rows
    return (("", row, "") for row in rows if row.metric == metric and row.place == place)


def _forgetting(report: Report, place: ResultGroup, edits: int, metric: str) -> Values:
    for row in report.forgetting:
        if (row.metric, row.standing, row.place) == (metric, edits, place):
            lost = None if row.mean is None or row.first.mean is None else row.first.mean - row.mean
            yield "", Estimate(mean=lost, n=row.n), ""


def _ability_drops(report: Report, place: ResultGroup, edits: int, metric: str) -> Values:
    for row in report.ability:
        if (row.standing, row.place) == (edits, place):
            lost = row.change_estimate.scaled(-1)  # which turns the ends of its interval too
            value = lost.model_copy(update={"low": lost.high, "high": lost.low})
            yield f"{row.task} {row.metric}", value, row.reason


def _perplexity(report: Report, place: ResultGroup, edits: int, metric: str) -> Values:
    rows = (row for row in report.perplexity if (row.standing, row.place) == (edits, place))
    return (("", Estimate(mean=row.ratio, n=row.n), row.reason) for row in rows)
