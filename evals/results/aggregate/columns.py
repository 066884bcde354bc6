"""Columns of scores and costs, collected while a run's records stream by."""

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emend.evals.case import Metric, Record
from emend.evals.metrics.estimate import EXTREMES, Estimate, Floats, Integers, decided, estimate, harmonic, macro
from emend.evals.metrics.scores import FLIP_OUTPUTS
from emend.memory.edit import FrozenModel, content_id

NO_CASES = np.empty(0, np.int64)
REASONS = 200
"""Number of distinct reasons that are counted; the rest count as one."""
OTHER_REASONS = "other reasons"


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
    """Judge and its measured agreement with people; empty for metrics without a judge."""
    protocol: str = ""
    """Rule by which an answer counts as right, see `metrics/protocols.py`."""
    form: str = ""
    """How the model was asked: `plain`, `chat`, or `chat and plain`; empty in older runs."""
    as_wrong: float | None = None
    """The mean with probes that the model did not answer as wrong ones, the papers' count, where it differs."""
    cut_off: int = 0
    """Number of replies that ended at the limit of new tokens."""


class ColumnRows(NamedTuple):
    """Number of the case, of the attempt and of the record of each row of a column.

    An attempt is a case in one of its repeats: the best of several wordings is that of one attempt, not of all repeats.
    """

    cases: Integers
    attempts: Integers
    records: Integers

    def at(self, mask: NDArray[np.bool_]) -> "ColumnRows":
        """The rows where the mask is true."""
        return ColumnRows(*(numbers[mask] for numbers in self))


class Column(NamedTuple):
    """The numbers of one output over the records of one kind, and the rows that have none."""

    values: Floats
    scored: ColumnRows
    missing: ColumnRows
    silent: NDArray[np.bool_]
    """True for what is missing because the model gave no answer."""
    forms: frozenset[str] = frozenset()
    cut_off: int = 0

    @classmethod
    def of(cls, values: Iterable[float], cases: Iterable[int]) -> "Column":
        """A column of cases that have one attempt each, in which nothing is missing."""
        numbers = np.array([*cases], np.int64)
        return cls(np.array([*values], np.float64), ColumnRows(numbers, numbers, numbers), NO_ROWS, NONE_SILENT)

    @property
    def with_silent(self) -> "Column":
        """The column in which probes without an answer have the value 0."""
        silent = self.missing.at(self.silent)
        left = ~np.isin(self.missing.attempts, silent.attempts)
        return self._replace(
            values=np.concatenate([self.values, np.zeros(len(silent.cases))]),
            scored=ColumnRows(*map(np.concatenate, zip(self.scored, silent, strict=True))),
            missing=self.missing.at(left),
            silent=self.silent[left],
        )

    def only(self, cases: Collection[int]) -> "Column":
        """The part of these cases."""
        scored, missing = (np.isin(rows.cases, [*cases]) for rows in (self.scored, self.missing))
        return self._replace(
            values=self.values[scored],
            scored=self.scored.at(scored),
            missing=self.missing.at(missing),
            silent=self.silent[missing],
        )


NO_ROWS, NONE_SILENT = ColumnRows(NO_CASES, NO_CASES, NO_CASES), np.empty(0, np.bool_)
DIGITS = 14
"""Hexadecimal ones of a case's number: two of a million cases are alike once in a hundred thousand such runs."""
Columns = dict[tuple[str, str], Column]
"""Columns by output and kind of probe."""


class ColumnKey(NamedTuple):
    """Fields that records have in common; `values` and `unscored` name the outputs with and without a number."""

    setting: str
    mode: str
    editor: str
    checkpoint: int
    kind: str
    form: str
    is_cut_off: bool
    no_answer: bool
    values: tuple[str, ...]
    unscored: tuple[str, ...]


SECONDS, TOKENS_IN, TOKENS_OUT = "cost: seconds", "cost: tokens in", "cost: tokens out"
RETRIES = "cost: retries"
"""Columns beside those of the scorers."""
NUMBER, ATTEMPT, KEPT, WIDTH = 0, 1, 8, 9
"""Places in a row: number of the record, position of its attempt, whether it is the baseline's; the scores follow."""
COSTS = {SECONDS: 2, RETRIES: 3, TOKENS_IN: 4, TOKENS_OUT: 5}
SPENT = {"input_tokens": 4, "output_tokens": 5, "calls": 6, "untold": 7}
NO_USAGE = SPENT["untold"]
_ALIKE: Callable[[Record], tuple[Any, ...]] = attrgetter(*ColumnKey._fields[:-2])
_NUMBERS: Callable[[Record], tuple[Any, ...]] = attrgetter(
    "seconds", *(f"usage.{name}" for name in ("retries", *SPENT)), "from_baseline"
)


class ResultGroup(NamedTuple):
    """Key of a table row."""

    setting: str
    mode: str
    editor: str

    def row(self, metric: Metric, value: Estimate) -> MetricRow:
        """The metric's row of this group."""
        return MetricRow(**self._asdict(), metric=metric.name, protocol=metric.protocol, **value.model_dump())


def order_by(editors: Sequence[str]) -> Callable[[ResultGroup], tuple[str, str, int]]:
    """Sort key of result groups: setting, mode, and the place of the editor in the run."""
    places = {name: place for place, name in enumerate(editors)}
    return lambda group: (group.setting, group.mode, places.get(group.editor, len(places)))


class RecordTable:
    """Scores and costs of a run by result group: a row of numbers for each record, beside those of its like."""

    def __init__(self) -> None:
        self.rows: defaultdict[ColumnKey, array[float]] = defaultdict(lambda: array("d"))
        self.cases: dict[str, int] = {}
        self.attempts: dict[tuple[str, int], int] = {}
        """Number of each case in each of its repeats, in the order of their positions in rows."""
        self.units: set[str] = set()
        self.reasons: Counter[str] = Counter()
        self.excluded: Counter[str] = Counter()
        """Why records are left out of all figures."""
        self.records = self.cut = 0
        self._positions: dict[tuple[str, int], int] = {}

    def add(self, record: Record) -> None:
        """Take one record in."""
        values, unscored = ({}, {}) if record.excluded else (record.values, record.unscored)
        key = ColumnKey._make((*_ALIKE(record), tuple(values), tuple(unscored)))
        position = self.position(record.case, record.repeat)
        self.rows[key].extend((self.records, position, *_NUMBERS(record), *values.values()))
        if record.excluded:
            self.excluded[record.excluded] += 1
        for reason in sorted(set(unscored.values())):
            known = reason in self.reasons or len(self.reasons) < REASONS
            self.reasons[reason if known else OTHER_REASONS] += 1
        self.units.add(record.unit)
        self.records += 1
        self.cut += record.cut_tokens > 0

    def position(self, case: str, repeat: int) -> int:
        """Position of a case in one of its repeats.

        Each has a number, whatever the order in which records were written: by them cases are drawn, so that runs with
        the same records have the same intervals.
        """
        key = case, repeat
        position = self._positions.get(key)
        if position is None:
            position = self._positions[key] = len(self._positions)
            self.attempts[key] = _number(*key)
            self.cases.setdefault(case, _number(case))
        return position

    @property
    def places(self) -> dict[ResultGroup, Columns]:
        """Columns by result group: of the first evaluation, and of the costs of all."""
        return {group: columns for (group, checkpoint), columns in self._columns.items() if not checkpoint}

    @property
    def again(self) -> dict[tuple[ResultGroup, int], Columns]:
        """Columns of re-evaluations, by the number of edits at the checkpoint."""
        return {key: columns for key, columns in self._columns.items() if key[1]}

    @property
    def spent(self) -> Counter[str]:
        """Tokens and calls, without those of kept answers."""
        sums = Counter[str]()
        for rows in map(_by_row, self.rows.items()):
            fresh = rows[rows[:, KEPT] == 0]
            sums.update({name: int(fresh[:, at].sum()) for name, at in SPENT.items()})
        return sums

    @cached_property
    def _columns(self) -> dict[tuple[ResultGroup, int], Columns]:
        """Columns by result group and checkpoint, in the order in which they first came."""
        parts: dict[tuple[ResultGroup, int], dict[tuple[str, str], list[_Part]]] = {}
        for alike, packed in self.rows.items():
            group, rows = ResultGroup(alike.setting, alike.mode, alike.editor), _by_row((alike, packed))
            first = parts.setdefault((group, 0), {})
            columns = parts.setdefault((group, alike.checkpoint), {})
            for at, name in enumerate(alike.values, WIDTH):
                columns.setdefault((name, alike.kind), []).append(_Part(rows, rows[:, at], alike))
            for name in alike.unscored:
                columns.setdefault((name, alike.kind), []).append(_Part(rows, None, alike))
            has_tokens = rows[:, NO_USAGE] == 0
            with_tokens = rows if has_tokens.all() else rows[has_tokens]
            for name, at in COSTS.items():
                counted = rows if name in (SECONDS, RETRIES) else with_tokens
                first.setdefault((name, ""), []).append(_Part(counted, counted[:, at], alike))
                if len(counted) < len(rows):
                    first[name, ""].append(_Part(rows[~has_tokens], None, alike))
        join = _Joiner(self)
        return {key: {name: join.column(those) for name, those in columns.items()} for key, columns in parts.items()}


def row_width(alike: ColumnKey) -> int:
    """How many numbers the row of a record has."""
    return WIDTH + len(alike.values)


def _by_row(of: "tuple[ColumnKey, array[float]]") -> Floats:
    return np.frombuffer(of[1]).reshape(-1, row_width(of[0]))


class _Part(NamedTuple):
    """Rows of records that are alike, and their numbers in a column; None where these are missing."""

    rows: Floats
    values: Floats | None
    alike: ColumnKey


class _Joiner:
    """Makes columns of their parts; those of the same rows share their cases.

    Args:
        table: whose rows these are.
    """

    def __init__(self, table: RecordTable) -> None:
        self._cases = np.array([table.cases[case] for case, _ in table.attempts], np.int64)
        self._attempts = np.array([*table.attempts.values()], np.int64)
        self._known: dict[tuple[int, ...], tuple[Integers, ColumnRows]] = {}

    def column(self, parts: Sequence[_Part]) -> Column:
        """Make a column of its parts, in the order of the records."""
        scored = [(part.rows, part.values) for part in parts if part.values is not None]
        missing = [part for part in parts if part.values is None]
        order, rows = self._in_order([rows for rows, _ in scored])
        missing_order, missing_rows = self._in_order([part.rows for part in missing])
        silent = [np.full(len(part.rows), part.alike.no_answer) for part in missing]
        return Column(
            values=np.concatenate([np.empty(0), *(values for _, values in scored)])[order],
            scored=rows,
            missing=missing_rows,
            silent=np.concatenate([NONE_SILENT, *silent])[missing_order],
            forms=frozenset(part.alike.form for part in parts if part.alike.form),
            cut_off=sum(len(part.rows) for part in parts if part.alike.is_cut_off),
        )

    def _in_order(self, parts: Sequence[Floats]) -> tuple[Integers, ColumnRows]:
        """The order of the parts' records, and their rows in it."""
        key = tuple(map(id, parts))  # of arrays that all live until every column is made
        if key not in self._known:
            # Stable, which is fast where they are sorted.
            numbers = np.concatenate([NO_CASES, *(part[:, NUMBER] for part in parts)]).astype(np.int64)
            order = np.argsort(numbers, kind="stable")
            at = np.concatenate([NO_CASES, *(part[:, ATTEMPT] for part in parts)])[order].astype(np.int64)
            self._known[key] = order, ColumnRows(self._cases[at], self._attempts[at], numbers[order])
        return self._known[key]


def _number(*key: str | int) -> int:
    return int(content_id(*key)[:DIGITS], 16)


def gather(records: Iterable[Record]) -> RecordTable:
    """Stream through the records."""
    gathered = RecordTable()
    for record in records:
        gathered.add(record)
    return gathered


NOT_ANSWERS = ("correct_flip", "correct_flip_clean", "pre_edit", *FLIP_OUTPUTS.values())
"""Outputs that need an answer of the unedited model too, so that a missing one is not a wrong answer."""


def metric_row(group: ResultGroup, columns: Columns, metric: Metric) -> MetricRow:
    """The metric's row of a group, with the forms in which the model was asked and what silence would cost."""
    chosen = columns_of(columns, metric)
    row = group.row(metric, estimate_of(columns, metric))
    forms = " and ".join(sorted({form for column in chosen for form in column.forms}))
    as_wrong = None
    if metric.protocol and metric.share and metric.value not in NOT_ANSWERS and any(c.silent.any() for c in chosen):
        answered = {key: column.with_silent for key, column in columns.items() if key[0] == metric.value}
        mean = estimate_of(answered, metric).mean
        as_wrong = None if mean == row.mean else mean
    reads_texts = metric.protocol not in ("", "likelihood", "teacher_forced")
    cut_off = sum(column.cut_off for column in chosen) if reads_texts else 0
    return row.model_copy(update={"form": forms if metric.protocol else "", "as_wrong": as_wrong, "cut_off": cut_off})


def columns_of(columns: Columns, metric: Metric) -> list[Column]:
    """The columns that a metric is made up of; those of all kinds where it names none."""
    return [
        column
        for (name, kind), column in columns.items()
        if name == metric.value and (kind in metric.kinds or not metric.kinds)
    ]


def estimate_of(columns: Columns, metric: Metric) -> Estimate:
    """The metric over its kinds; all kinds where it names none."""
    if metric.per == "kind":
        alone = [metric.model_copy(update={"kinds": (kind,), "per": "record", "scale": 1.0}) for kind in metric.kinds]
        return macro([estimate_of(columns, alone_metric) for alone_metric in alone]).scaled(metric.scale)
    if metric.per == "harmonic":
        per_kind = [columns.get((metric.value, kind), Column.of((), ())) for kind in metric.kinds]
        whole = harmonic([(column.values.tolist(), column.scored.cases.tolist()) for column in per_kind])
        return whole.scaled(metric.scale).model_copy(update={"unscored": _missing(per_kind)})
    chosen = columns_of(columns, metric)
    if metric.per in EXTREMES:
        return _by_attempt(chosen, metric.per).scaled(metric.scale)
    values = np.concatenate([np.empty(0), *(column.values for column in chosen)])
    cases = np.concatenate([NO_CASES, *(column.scored.cases for column in chosen)])
    whole = estimate(values, cases, per=metric.per, share=metric.share)
    return whole.scaled(metric.scale).model_copy(update={"unscored": _missing(chosen)})


def _missing(columns: Sequence[Column]) -> int:
    return sum(len(column.missing.cases) for column in columns)


def _by_attempt(chosen: Sequence[Column], per: str) -> Estimate:
    """The mean of each attempt's best or worst; those that what is missing could still turn are unscored."""
    outcomes: list[tuple[int, float | None]] = []
    case_of: dict[int, int] = {}
    for column in chosen:
        outcomes += zip(column.scored.attempts.tolist(), column.values.tolist(), strict=True)
        for rows in (column.scored, column.missing):
            case_of |= zip(rows.attempts.tolist(), rows.cases.tolist(), strict=True)
    outcomes += [(attempt, None) for column in chosen for attempt in column.missing.attempts.tolist()]
    every = decided(outcomes, per)
    return estimate(list(every.values()), [case_of[attempt] for attempt in every])


def only(columns: Columns, cases: Collection[int]) -> Columns:
    """Columns restricted to these cases."""
    return {name: column.only(cases) for name, column in columns.items()}
