"""Requirements on a report's metrics, each with the rows that it applies to and its outcome."""

from collections.abc import Sequence

from emend.evals.metrics.estimate import ends_text
from emend.evals.metrics.requirement import SIGNS, Requirement, labelled
from emend.evals.results.aggregate.columns import MetricRow
from emend.evals.results.aggregate.rows import Report
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings


class RequirementOutcome(FrozenModel):
    """Outcome of a requirement on a row; `met` is also false if the row has no score."""

    requirement: Requirement
    row: MetricRow
    metric: str
    """Name of the metric with its protocol."""
    threshold: float
    """Threshold in the metric's own unit."""
    met: bool

    def __str__(self) -> str:
        """Return whether it is met, with the sentence."""
        return f"{'met' if self.met else 'NOT MET'}: {self.message}"

    @property
    def editor(self) -> str:
        """Name of the row's editor."""
        return self.row.editor

    @property
    def name(self) -> str:
        """Setting of the row and text of the requirement."""
        return f"{self.row.setting}: {self.requirement.text}"

    @property
    def message(self) -> str:
        """Sentence with the value, its interval and the required threshold."""
        row = self.row
        if row.mean is None:
            value = "no score"
        else:
            value = f"{row.mean:.4g}"
        interval = ends_text(row.low, row.high, ".4g")
        where = f"{row.editor} {row.setting}: {self.metric}"
        required = f"required {self.requirement.sign} {self.threshold:g}"
        return f"{where} is {value}{interval}, n={row.n}, unscored {row.unscored}; {required}"


def check_requirements(report: Report, texts: Sequence[str]) -> list[RequirementOutcome]:
    """Return the outcome of each requirement on each row that it applies to.

    Raises:
        BadSettings: a text has a wrong form or matches no row, or the run is unfinished.
    """
    if texts:
        refuse_unfinished(report.missing, "--require")
    return [outcome for text in texts for outcome in _outcomes(report, Requirement.parse(text))]


def _outcomes(report: Report, requirement: Requirement) -> list[RequirementOutcome]:
    editors = list(dict.fromkeys(row.editor for row in report.rows))
    requirement.check_names(report.metrics, editors)
    name = report.resolve(requirement.metric)
    metric = next(metric for metric in report.metrics if metric.name == name)
    threshold = requirement.threshold(metric)
    if requirement.editor:
        chosen = [requirement.editor]
    else:
        chosen = [name for name in editors if name != "unedited"] or editors
    rows = [row for row in report.rows if row.metric == metric.name and row.editor in chosen]
    if not rows:
        raise BadSettings(
            f"{requirement.option}: the run has no value of {requirement.metric} for "
            f"{', '.join(chosen)}: name another metric or editor, which emend report shows."
        )
    return [
        RequirementOutcome(
            requirement=requirement,
            row=row,
            metric=labelled(metric),
            threshold=threshold,
            met=row.mean is not None
            and bool(SIGNS[requirement.sign](round(row.mean, 9), round(threshold, 9))),
        )
        for row in rows
    ]


def refuse_unfinished(units: int, what: str) -> None:
    """Refuse to judge a run of which units are missing; `what` is the option or command.

    Raises:
        BadSettings: there are such units.
    """
    if units:
        raise BadSettings(
            f"{what}: {units} units of the run are missing, and unmeasured values do not pass: "
            "finish the run with emend resume."
        )
