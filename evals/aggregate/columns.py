"""Columns of scores and costs, collected while a run's records stream by."""

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from emend.evals.case import Metric, Record
from emend.evals.metrics.estimate import EXTREMES, Estimate, decided, estimate, harmonic, macro
from emend.memory.edit import FrozenModel, content_id
from emend.memory.probe import Usage

REASONS = 200
"""Number of distinct reasons that are counted; the rest count as one."""


class MetricRow(FrozenModel):
    """A metric of an editor: its mean in the metric's own unit, with a 95 % interval."""

    editor: str
    setting: str
    mode: str
    metric: str
    mean: float | None
    n: int
    unscored: int
    low: float | None
    high: float | None
    judge: str = ""
    """Judge and its measured agreement with people; empty for metrics without a judge."""


class Column:
    """The numbers of one output over the records of one kind, the case of each, and the cases of what has none.

    An attempt is a case in one of its repeats: the best of several wordings is that of one attempt, not of all repeats.
    """

    def __init__(self) -> None:
        self.values, self.cases, self.attempts = array("d"), array("q"), array("q")
        self.missing, self.missing_attempts = array("q"), array("q")

    def put(self, value: float, case: int, attempt: int = 0) -> None:
        """Add a number."""
        self.values.append(value)
        self.cases.append(case)
        self.attempts.append(attempt)

    def miss(self, case: int, attempt: int) -> None:
        """Add what could not be scored."""
        self.missing.append(case)
        self.missing_attempts.append(attempt)


DIGITS = 14
"""Hexadecimal ones of a case's number: two of a million cases are alike once in a hundred thousand such runs."""
Columns = dict[tuple[str, str], Column]
"""Columns by output and kind of probe."""
SECONDS, TOKENS_IN, TOKENS_OUT = "cost: seconds", "cost: tokens in", "cost: tokens out"
RETRIES = "cost: retries"
"""Columns beside those of the scorers."""


class ResultGroup(NamedTuple):
    """Key of a table row."""

    setting: str
    mode: str
    editor: str

    def row(self, metric: Metric, value: Estimate) -> MetricRow:
        """The metric's row of this group."""
        return MetricRow(**self._asdict(), metric=metric.name, **value.model_dump())


def order_by(editors: Sequence[str]) -> Callable[[ResultGroup], tuple[str, str, int]]:
    """Sort key of result groups: setting, mode, and the place of the editor in the run."""
    places = {name: place for place, name in enumerate(editors)}
    return lambda group: (group.setting, group.mode, places.get(group.editor, len(places)))


def _columns() -> defaultdict[tuple[str, str], Column]:
    return defaultdict(Column)


def add_usage(sums: Counter[str], usage: Usage) -> None:
    """Add tokens and calls to their sums."""
    sums["input_tokens"] += usage.input_tokens
    sums["output_tokens"] += usage.output_tokens
    sums["calls"] += usage.calls
    sums["untold"] += usage.untold


class RecordTable:
    """Scores and costs of a run by result group."""

    def __init__(self) -> None:
        self.places: defaultdict[ResultGroup, defaultdict[tuple[str, str], Column]] = defaultdict(_columns)
        self.again: defaultdict[tuple[ResultGroup, int], defaultdict[tuple[str, str], Column]] = defaultdict(_columns)
        """Columns of re-evaluations, by the number of edits at the checkpoint."""
        self.spent: Counter[str] = Counter()
        """Tokens and calls, without those of kept answers."""
        self.cases: dict[str, int] = {}
        self.attempts: dict[tuple[str, int], int] = {}
        self.units: set[str] = set()
        self.reasons: Counter[str] = Counter()
        self.records = self.cut = 0

    def add(self, record: Record) -> None:
        """Take one record in."""
        place = ResultGroup(record.setting, record.mode, record.editor)
        first = self.places[place]
        columns = self.again[place, record.checkpoint] if record.checkpoint else first
        case, attempt = self._numbers(record)
        for name, value in record.values.items():
            columns[name, record.kind].put(value, case, attempt)
        for name in record.unscored:
            columns[name, record.kind].miss(case, attempt)
        usage = record.usage
        first[SECONDS, ""].put(record.seconds, case)
        first[RETRIES, ""].put(usage.retries, case)
        for name, tokens in ((TOKENS_IN, usage.input_tokens), (TOKENS_OUT, usage.output_tokens)):
            if usage.untold:
                first[name, ""].miss(case, 0)
            else:
                first[name, ""].put(tokens, case)
        if not record.from_baseline:
            add_usage(self.spent, usage)
        for reason in set(record.unscored.values()):
            known = reason in self.reasons or len(self.reasons) < REASONS
            self.reasons[reason if known else "other reasons"] += 1
        self.units.add(record.unit)
        self.records += 1
        self.cut += record.cut_tokens > 0

    def _numbers(self, record: Record) -> tuple[int, int]:
        """A number for the case, and one for the attempt, whatever the order in which records were written.

        By them cases are drawn, so that runs with the same records have the same intervals.
        """
        key = record.case, record.repeat
        if key not in self.attempts:
            self.attempts[key] = _number(*key)
            self.cases.setdefault(record.case, _number(record.case))
        return self.cases[record.case], self.attempts[key]


def _number(*key: str | int) -> int:
    return int(content_id(*key)[:DIGITS], 16)


def gather(records: Iterable[Record]) -> RecordTable:
    """Stream through the records."""
    gathered = RecordTable()
    for record in records:
        gathered.add(record)
    return gathered


def estimate_of(columns: Columns, metric: Metric) -> Estimate:
    """The metric over its kinds; all kinds where it names none."""
    if metric.per == "kind":
        alone = [metric.model_copy(update={"kinds": (kind,), "per": "record", "scale": 1.0}) for kind in metric.kinds]
        return macro([estimate_of(columns, alone_metric) for alone_metric in alone]).scaled(metric.scale)
    if metric.per == "harmonic":
        per_kind = [columns.get((metric.value, kind), Column()) for kind in metric.kinds]
        missing = sum(len(column.missing) for column in per_kind)
        whole = harmonic([(column.values, column.cases) for column in per_kind]).scaled(metric.scale)
        return whole.model_copy(update={"unscored": missing})
    chosen = [
        column
        for (name, kind), column in columns.items()
        if name == metric.value and (kind in metric.kinds or not metric.kinds)
    ]
    if metric.per in EXTREMES:
        return _by_attempt(chosen, metric.per).scaled(metric.scale)
    whole = estimate(
        [value for column in chosen for value in column.values],
        [case for column in chosen for case in column.cases],
        per=metric.per,
        share=metric.share,
    )
    unscored = sum(len(column.missing) for column in chosen)
    return whole.scaled(metric.scale).model_copy(update={"unscored": unscored})


def _by_attempt(chosen: Sequence[Column], per: str) -> Estimate:
    """The mean of each attempt's best or worst; those that what is missing could still turn are unscored."""
    outcomes: list[tuple[int, float | None]] = [
        pair for column in chosen for pair in zip(column.attempts, column.values, strict=True)
    ]
    outcomes += [(attempt, None) for column in chosen for attempt in column.missing_attempts]
    case_of = {attempt: case for column in chosen for attempt, case in zip(column.attempts, column.cases, strict=True)}
    case_of |= {at: case for column in chosen for at, case in zip(column.missing_attempts, column.missing, strict=True)}
    every = decided(outcomes, per)
    return estimate(list(every.values()), [case_of[attempt] for attempt in every])


def only(columns: Columns, cases: Collection[int]) -> Columns:
    """Columns restricted to these cases."""
    selection: Columns = {}
    for name, column in columns.items():
        chosen = selection.setdefault(name, Column())
        for value, case, attempt in zip(column.values, column.cases, column.attempts, strict=True):
            if case in cases:
                chosen.put(value, case, attempt)
        for case, attempt in zip(column.missing, column.missing_attempts, strict=True):
            if case in cases:
                chosen.miss(case, attempt)
    return selection
