"""Thresholds on a report's metrics, and the release gate: whether an edited model may be shipped."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import ge, gt, le, lt
from pathlib import Path
from typing import NamedTuple, Self
from xml.etree import ElementTree

from emend.evals.metrics.estimate import Estimate
from emend.evals.results.aggregate.columns import MetricRow, ResultGroup
from emend.evals.results.aggregate.costs import AbilityRow, PerplexityRow
from emend.evals.results.aggregate.rows import ForgettingRow, Report
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest

SIGNS = {">=": ge, "<=": le, ">": gt, "<": lt}
_FORM = re.compile(
    r"(?:(?P<editor>.+):)?(?P<metric>[^:<>=]+?)\s*(?P<sign>>=|<=|>|<)\s*(?P<number>[-\d.eE]+)\s*(?P<unit>%?)"
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
        try:
            number = float(match["number"]) if match else float("nan")
        except ValueError:
            match = None
        if match is None:
            raise BadSettings(f"--require '{text}': write for example rag:efficacy>=0.9, or efficacy>=90%.")
        return cls(
            text=text.strip(),
            editor=match["editor"],
            metric=match["metric"].strip(),
            sign=match["sign"],
            number=number,
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


class JUnitCase(NamedTuple):
    """A test case of JUnit; `failure` is the message of one that failed, None of one that passed."""

    group: str
    name: str
    failure: str | None


def junit_cases(outcomes: Sequence[RequirementOutcome]) -> list[JUnitCase]:
    """A test case for each outcome."""
    return [
        JUnitCase(each.row.editor, f"{each.row.setting}: {each.requirement.text}", None if each.met else each.message)
        for each in outcomes
    ]


def write_junit(cases: Sequence[JUnitCase], name: str, path: Path) -> None:
    """Write test cases as a JUnit test suite of that name.

    Raises:
        BadSettings: the file cannot be written.
    """
    failures = str(sum(case.failure is not None for case in cases))
    suite = ElementTree.Element("testsuite", name=_plain(name), tests=str(len(cases)), failures=failures)
    for case in cases:
        element = ElementTree.SubElement(suite, "testcase", classname=_plain(case.group), name=_plain(case.name))
        if case.failure is not None:
            ElementTree.SubElement(element, "failure", message=_plain(case.failure))
    try:
        ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise BadSettings(f"cannot write '{path}': {error.strerror}. Give another --junit FILE.") from error


def _plain(text: str) -> str:
    """The text without control characters, which XML cannot hold."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


EFFICACY = "efficacy"
NONE = Estimate(mean=None, n=0)


class GateLimits(FrozenModel):
    """Limits that an edited model has to keep, in percent and percentage points; None sets no limit.

    `metric` is the metric of efficacy and of forgetting; empty for `efficacy`, or else the run's first metric.
    """

    min_efficacy: float | None = None
    max_forgetting: float | None = None
    max_ability_drop: float | None = None
    max_perplexity: float | None = None
    """Perplexity of held-out texts over that before the edits."""
    metric: str = ""


class GateCheck(FrozenModel):
    """A quantity after `edits` edits of a sequence, or in other modes under each set of edits (0), and its limit.

    Without a value it is not met, and `reason` says why there is none.
    """

    editor: str
    setting: str
    mode: str
    edits: int
    quantity: str
    value: Estimate
    limit: float
    met: bool
    reason: str = ""

    @property
    def message(self) -> str:
        """The value with its interval beside the limit."""
        value = self.value
        if value.mean is None:
            return f"{self.quantity}: {self.reason or 'no score'}"
        interval = "" if value.low is None or value.high is None else f" [{value.low:z.4g}, {value.high:z.4g}]"
        return f"{self.quantity} is {value.mean:z.4g}{interval}, n={value.n}; limit {self.limit:g}"


class GateVerdict(FrozenModel):
    """The checks of an editor in a setting, in the order of the numbers of edits."""

    editor: str
    setting: str
    mode: str
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
    places = dict.fromkeys(ResultGroup(row.setting, row.mode, row.editor) for row in rows)
    if not places:
        raise BadSettings("the run has no edited model with a value of " + metric)
    return [
        GateVerdict(editor=place.editor, setting=place.setting, mode=place.mode, checks=tuple(checks))
        for place in places
        if (
            checks := [
                check for edits in _numbers(report, place) for check in _checks(report, place, edits, metric, limits)
            ]
        )
    ]


def write_gate_junit(verdicts: Sequence[GateVerdict], report: Report, path: Path) -> None:
    """Write each check as a test case of JUnit.

    Raises:
        BadSettings: the file cannot be written.
    """
    cases = [
        JUnitCase(
            check.editor, f"{check.setting}: {check.quantity} at {check.edits}", None if check.met else check.message
        )
        for verdict in verdicts
        for check in verdict.checks
    ]
    write_junit(cases, f"emend gate {report.benchmark} {report.model}", path)


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
    return name or (EFFICACY if EFFICACY in names else names[0])


def _numbers(report: Report, place: ResultGroup) -> list[int]:
    """Numbers of edits after which something was measured, in a sequence; else 0 alone."""
    rows: tuple[ForgettingRow | AbilityRow | PerplexityRow, ...] = (
        *report.forgetting, *report.ability, *report.perplexity
    )  # fmt: skip
    return sorted({row.standing for row in rows if _is_at(row, place)}) or [0]


def _checks(report: Report, place: ResultGroup, edits: int, metric: str, limits: GateLimits) -> Iterator[GateCheck]:
    for quantity, limit, values in (
        (metric, limits.min_efficacy, _efficacy(report, place, edits, metric)),
        (f"forgetting of {metric}", limits.max_forgetting, _forgetting(report, place, edits, metric)),
        ("drop of ability", limits.max_ability_drop, _ability_drops(report, place, edits)),
        ("ratio of perplexity", limits.max_perplexity, _perplexity(report, place, edits)),
    ):
        if limit is not None:
            for name, value, reason in values:
                # Rounded, as 29 of 50 is 57.99999999999999 percent.
                mean = None if value.mean is None else round(value.mean, 9)
                yield GateCheck(
                    **place._asdict(),
                    edits=edits,
                    quantity=f"{quantity}, {name}" if name else quantity,
                    value=value,
                    limit=limit,
                    met=mean is not None and (mean >= limit if quantity == metric else mean <= limit),
                    reason=reason,
                )


Values = list[tuple[str, Estimate, str]]
"""Name of the task or empty, the value, and why it has none."""


def _efficacy(report: Report, place: ResultGroup, edits: int, metric: str) -> Values:
    rows = [row for row in report.forgetting if row.standing == edits] if edits else report.rows
    values = [_estimate(row) for row in rows if row.metric == metric and _is_at(row, place)]
    return [("", value, "") for value in values] or [("", NONE, "it was not measured")]


def _forgetting(report: Report, place: ResultGroup, edits: int, metric: str) -> Values:
    rows = [row for row in report.forgetting if row.metric == metric and row.standing == edits and _is_at(row, place)]
    if not rows:
        return [("", NONE, "it is measured in mode sequential, at the checkpoints of --reevaluate-at")]
    (row,) = rows
    lost = None if row.mean is None or row.first.mean is None else row.first.mean - row.mean
    return [("", Estimate(mean=lost, n=row.n), "")]


def _ability_drops(report: Report, place: ResultGroup, edits: int) -> Values:
    rows = [row for row in report.ability if row.standing == edits and _is_at(row, place)]
    if not rows:
        return [("", NONE, "it is measured with --ability")]
    return [(f"{row.task} {row.metric}", _dropped(row.change_estimate), row.reason) for row in rows]


def _perplexity(report: Report, place: ResultGroup, edits: int) -> Values:
    rows = [row for row in report.perplexity if row.standing == edits and _is_at(row, place)]
    if not rows:
        return [("", NONE, "no perplexity was measured")]
    return [("", Estimate(mean=row.ratio, n=row.n), row.reason) for row in rows]


def _dropped(change: Estimate) -> Estimate:
    """The loss of a change: its sign turned, and with it the ends of its interval."""
    return change.scaled(-1).model_copy(
        update={
            "low": None if change.high is None else -change.high,
            "high": None if change.low is None else -change.low,
        }
    )


def _is_at(row: MetricRow, place: ResultGroup) -> bool:
    return (row.setting, row.mode, row.editor) == place


def _estimate(row: MetricRow) -> Estimate:
    return Estimate(mean=row.mean, n=row.n, unscored=row.unscored, low=row.low, high=row.high)
