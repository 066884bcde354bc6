"""Columns of scores and costs over a run's records, and the estimates of metrics from them."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from emend.evals.case import Metric
from emend.evals.metrics.estimate import (
    EXTREMES,
    Estimate,
    Floats,
    Integers,
    decided,
    estimate,
    harmonic,
    macro,
)
from emend.evals.metrics.protocols import FLIP_OUTPUTS
from emend.memory.edit import FrozenModel

NO_CASES = np.empty(0, np.int64)


class GroupRow(FrozenModel):
    """A row about an editor in a setting and a mode."""

    editor: str
    setting: str
    mode: str

    @property
    def place(self) -> "ResultGroup":
        """The result group that the row is about."""
        return ResultGroup(self.setting, self.mode, self.editor)


class MetricPlace(GroupRow):
    """A row about a metric of an editor."""

    metric: str


class MetricRow(Estimate, MetricPlace):
    """A metric of an editor: its mean in the metric's own unit, with a 95 % interval."""

    judge: str = ""
    """Judge with its measured agreement with people; empty for metrics without a judge."""
    protocol: str = ""
    """Rule by which an answer counts as right, see `metrics/protocols.py`."""
    form: str = ""
    """How the model was asked: `plain`, `chat`, or `chat and plain`; empty in older runs."""
    as_wrong: float | None = None
    """Mean with unanswered probes counted as wrong, as in the papers; None if it is the same."""
    cut_off: int = 0
    """Number of replies that ended at the limit of new tokens."""
    headline: bool = False
    """True for the metric that its name without protocol stands for."""


class ColumnRows(NamedTuple):
    """Numbers of the case, the attempt and the record of each row of a column.

    An attempt is a case in one repeat. The best of several wordings is taken per attempt, not over
    all repeats.
    """

    cases: Integers
    attempts: Integers
    records: Integers

    def at(self, mask: NDArray[np.bool_]) -> "ColumnRows":
        """Return the rows where the mask is true."""
        return ColumnRows(*(numbers[mask] for numbers in self))


class Column(NamedTuple):
    """Numbers of one output over the records of a kind of probe, and the rows without a number."""

    values: Floats
    scored: ColumnRows
    missing: ColumnRows
    silent: NDArray[np.bool_]
    """True for each missing row where the model gave no answer."""
    forms: frozenset[str] = frozenset()
    cut_off: int = 0

    @classmethod
    def of(cls, values: Iterable[float], cases: Iterable[int]) -> "Column":
        """Return a column of cases with one attempt each and nothing missing."""
        numbers = np.array([*cases], np.int64)
        return cls(
            np.array([*values], np.float64),
            ColumnRows(numbers, numbers, numbers),
            NO_ROWS,
            NONE_SILENT,
        )

    @property
    def with_silent(self) -> "Column":
        """Column in which probes without an answer have the value 0."""
        silent = self.missing.at(self.silent)
        left = ~np.isin(self.missing.attempts, silent.attempts)
        return self._replace(
            values=np.concatenate([self.values, np.zeros(len(silent.cases))]),
            scored=ColumnRows(*map(np.concatenate, zip(self.scored, silent, strict=True))),
            missing=self.missing.at(left),
            silent=self.silent[left],
        )

    def only(self, cases: Collection[int]) -> "Column":
        """Return the column restricted to these cases."""
        scored, missing = (np.isin(rows.cases, [*cases]) for rows in (self.scored, self.missing))
        return self._replace(
            values=self.values[scored],
            scored=self.scored.at(scored),
            missing=self.missing.at(missing),
            silent=self.silent[missing],
        )


NO_ROWS, NONE_SILENT = ColumnRows(NO_CASES, NO_CASES, NO_CASES), np.empty(0, np.bool_)
# Columns by output and kind of probe.
Columns = dict[tuple[str, str], Column]


class ResultGroup(NamedTuple):
    """Key of a table row."""

    setting: str
    mode: str
    editor: str

    def row(self, metric: Metric, value: Estimate) -> MetricRow:
        """Return this group's row of a metric."""
        return MetricRow(
            **self._asdict(), metric=metric.name, protocol=metric.protocol, **value.model_dump()
        )


def order_by(editors: Sequence[str]) -> Callable[[ResultGroup], tuple[str, str, int]]:
    """Return a sort key of result groups: setting, mode, and position of the editor in the run."""
    places = {name: place for place, name in enumerate(editors)}
    return lambda group: (group.setting, group.mode, places.get(group.editor, len(places)))


# Outputs that also need the unedited model's answer, so that a missing value is not a wrong answer.
NOT_ANSWERS = ("correct_flip", "correct_flip_clean", "pre_edit", *FLIP_OUTPUTS.values())


def metric_row(group: ResultGroup, columns: Columns, metric: Metric) -> MetricRow:
    """Return a group's row of a metric, with probe forms and the mean if silence is wrong."""
    chosen = columns_of(columns, metric)
    row = group.row(metric, estimate_of(columns, metric))
    forms = " and ".join(sorted({form for column in chosen for form in column.forms}))
    as_wrong = None
    if (
        metric.protocol
        and metric.share
        and metric.value not in NOT_ANSWERS
        and any(c.silent.any() for c in chosen)
    ):
        answered = {
            key: column.with_silent for key, column in columns.items() if key[0] == metric.value
        }
        mean = estimate_of(answered, metric).mean
        if mean != row.mean:
            as_wrong = mean
    reads_texts = metric.protocol not in ("", "likelihood", "teacher_forced")
    if reads_texts:
        cut_off = sum(column.cut_off for column in chosen)
    else:
        cut_off = 0
    return row.model_copy(
        update={"form": forms if metric.protocol else "", "as_wrong": as_wrong, "cut_off": cut_off}
    )


def columns_of(columns: Columns, metric: Metric) -> list[Column]:
    """Return the columns of a metric's kinds of probe; those of all kinds if it names none."""
    return [
        column
        for (name, kind), column in columns.items()
        if name == metric.value and (kind in metric.kinds or not metric.kinds)
    ]


def estimate_of(columns: Columns, metric: Metric) -> Estimate:
    """Return the metric's estimate over its kinds of probe; over all kinds if it names none."""
    if metric.per == "kind":
        alone = [
            metric.model_copy(update={"kinds": (kind,), "per": "record", "scale": 1.0})
            for kind in metric.kinds
        ]
        return macro([estimate_of(columns, alone_metric) for alone_metric in alone]).scaled(
            metric.scale
        )
    if metric.per == "harmonic":
        per_kind = [columns.get((metric.value, kind), Column.of((), ())) for kind in metric.kinds]
        whole = harmonic(
            [(column.values.tolist(), column.scored.cases.tolist()) for column in per_kind]
        )
        return whole.scaled(metric.scale).model_copy(update={"unscored": _missing(per_kind)})
    chosen = columns_of(columns, metric)
    if metric.per in EXTREMES:
        return _by_attempt(chosen, metric.per).scaled(metric.scale)
    values = np.concatenate([np.empty(0), *(column.values for column in chosen)])
    cases = np.concatenate([NO_CASES, *(column.scored.cases for column in chosen)])
    if metric.per == "case_kinds":
        values, cases = _case_means(chosen)
        whole = estimate(values, cases, per="case", share=metric.share)
        whole = whole.model_copy(update={"n": sum(len(column.values) for column in chosen)})
    else:
        whole = estimate(values, cases, per=metric.per, share=metric.share)
    return whole.scaled(metric.scale).model_copy(update={"unscored": _missing(chosen)})


def _case_means(columns: Sequence[Column]) -> tuple[Floats, Integers]:
    """Return the mean of each case in each column, and the cases of these means."""
    means, owners = [np.empty(0)], [NO_CASES]
    for column in columns:
        cases, position = np.unique(column.scored.cases, return_inverse=True)
        sums = np.bincount(position, weights=column.values, minlength=len(cases))
        means.append(sums / np.bincount(position, minlength=len(cases)))
        owners.append(cases)
    return np.concatenate(means), np.concatenate(owners)


def _missing(columns: Sequence[Column]) -> int:
    return sum(len(column.missing.cases) for column in columns)


def _by_attempt(chosen: Sequence[Column], per: str) -> Estimate:
    """Return the mean over attempts of each one's best or worst value.

    An attempt is unscored if a missing value could still change its outcome.
    """
    outcomes: list[tuple[int, float | None]] = []
    case_of: dict[int, int] = {}
    for column in chosen:
        outcomes += zip(column.scored.attempts.tolist(), column.values.tolist(), strict=True)
        for rows in (column.scored, column.missing):
            case_of |= zip(rows.attempts.tolist(), rows.cases.tolist(), strict=True)
    outcomes += [
        (attempt, None) for column in chosen for attempt in column.missing.attempts.tolist()
    ]
    every = decided(outcomes, per)
    return estimate(list(every.values()), [case_of[attempt] for attempt in every])


def scores_of(columns: Sequence[Column], per: str) -> dict[int, tuple[float, int]]:
    """Return score and case by record, or by attempt if a case's best or worst counts."""
    scores: dict[int, tuple[float, int]] = {}
    for column in columns:
        cases, attempts, records = (numbers.tolist() for numbers in column.scored)
        if per in EXTREMES:
            keys = attempts
        else:
            keys = records
        for key, value, case in zip(keys, column.values.tolist(), cases, strict=True):
            known = scores.get(key)
            scores[key] = (value if known is None else EXTREMES[per](known[0], value), case)
    return scores


def only(columns: Columns, cases: Collection[int]) -> Columns:
    """Return the columns restricted to these cases."""
    return {name: column.only(cases) for name, column in columns.items()}
