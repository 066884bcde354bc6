"""Thresholds on metrics: parsing, and the check of their names before a run begins."""

import re
from collections.abc import Collection, Sequence
from math import isfinite
from operator import ge, gt, le, lt
from typing import Self

from emend.evals.case import Metric
from emend.evals.metrics.headline import ProbeKinds, headlines_of
from emend.evals.metrics.protocols import plain_name
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest

SIGNS = {">=": ge, "<=": le, ">": gt, "<": lt}
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_FORM = re.compile(
    rf"(?:(?P<editor>.+):)?(?P<metric>[^:<>=]+?)\s*(?P<sign>>=|<=|>|"
    rf"<)\s*(?P<number>{_NUMBER})\s*(?P<unit>%?)"
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

        For a metric in percent, a number up to 1 is a share (0.9), and a larger one percent (90,
        90%); for other metrics it is in the metric's unit.

        Raises:
            BadSettings: the text has another form.
        """
        match = _FORM.fullmatch(text.strip())
        if match is None:
            raise BadSettings(
                f"--require '{text}': write for example rag:efficacy>=0.9, or efficacy>=90%."
            )
        if not isfinite(float(match["number"])):
            raise BadSettings(f"--require '{text}': {match['number']} is too large.")
        return cls(
            text=text.strip(),
            editor=match["editor"],
            metric=match["metric"].strip(),
            sign=match["sign"],
            number=float(match["number"]),
            percent=bool(match["unit"]),
        )

    def check_names(self, metrics: Sequence[Metric], editors: Collection[str]) -> None:
        """Check that a run with these metrics and editors has the threshold's metric and editor.

        Raises:
            BadSettings: it does not, the number is in percent but the metric is not, or the number
                is above 100 percent.
        """
        headlines = headlines_of(metrics, ProbeKinds())
        by_name = {metric.name: metric for metric in metrics}
        metric = by_name.get(headlines.resolve(self.metric))
        if metric is None:
            known = list(dict.fromkeys([*headlines.metrics, *by_name]))
            raise BadSettings(
                f"{self.option}: no metric '{self.metric}': {nearest(self.metric, known)}"
            )
        if self.editor is not None and self.editor not in editors:
            raise BadSettings(
                f"{self.option}: no editor '{self.editor}': {nearest(self.editor, list(editors))}"
            )
        if self.percent and metric.scale != 100:
            raise BadSettings(
                f"{self.option}: {self.metric} is not in percent: leave out the percent sign."
            )
        if metric.scale == 100 and abs(self.number) > 100:
            raise BadSettings(
                f"{self.option}: {self.metric} is in percent: give a number up to 100."
            )

    def threshold(self, metric: Metric) -> float:
        """The number in the metric's own unit."""
        is_share = metric.scale == 100 and not self.percent and abs(self.number) <= 1
        if is_share:
            return self.number * 100
        return self.number

    @property
    def option(self) -> str:
        """The option with its text."""
        return f"--require '{self.text}'"


def check_requirement_names(
    texts: Sequence[str], metrics: Sequence[Metric], editors: Collection[str]
) -> None:
    """Check the names in thresholds before a run makes its first call.

    Raises:
        BadSettings: a text has another form, or a name is unknown.
    """
    for text in texts:
        Requirement.parse(text).check_names(metrics, editors)


def labelled(metric: Metric) -> str:
    """Name of a metric with its protocol in brackets: `efficacy (contains)`."""
    if metric.protocol:
        return f"{plain_name(metric)} ({metric.protocol})"
    return metric.name
