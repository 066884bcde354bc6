"""Thresholds on a report's metrics, for continuous integration, and their outcome as JUnit XML."""

import re
from collections.abc import Sequence
from operator import ge, gt, le, lt
from pathlib import Path
from typing import NamedTuple, Self
from xml.etree import ElementTree

from emend.evals.results.aggregate.rows import MetricRow, Report
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
        BadSettings: a text has another form, or no row is meant by it.
    """
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
            met=row.mean is not None and bool(SIGNS[requirement.sign](row.mean, threshold)),
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
