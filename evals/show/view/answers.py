"""In-memory database of a run's answers, which pages filter, sort and count."""

import json
import threading
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emend.evals.case import Metric, Record
from emend.evals.log.lines import CASES, RECORDS, SCHEMAS, parser_of
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import parse_record
from emend.evals.log.run_table import RunTable
from emend.evals.log.table_sources import CASE_SOURCE, ERROR_SOURCE, RECORD_SOURCE
from emend.evals.show.trace.verdicts import VERDICTS, check_name, deciding_scores, parse_where
from emend.evals.show.view import answer_queries as queries
from emend.evals.show.view.views import CaseFilter
from emend.memory.errors import BadSettings
from emend.memory.files import open_file

SOURCES = (RECORD_SOURCE, CASE_SOURCE, ERROR_SOURCE)
# Size in bytes of a file from which its table is saved on disk, so that the viewer starts quickly
# the next time.
LARGE = 2**20
MAX_FAILURES = 10_000
MAX_TOKENS = 2**32 - 1
# Number of search texts whose matches are cached, for the next pages of a search.
MAX_NEEDLES = 32
SORTS = {
    "number": "number",
    "wrong": "most wrong answers",
    "unscored": "most unscored answers",
    "slow": "longest",
    "tokens": "most tokens",
}
OF_COLUMN = {"editor": queries.OF_EDITOR, "kind": queries.OF_KIND}
_CASE = parser_of(SCHEMAS[CASES])
Numbers = NDArray[Any]


class Totals(NamedTuple):
    """Counts of a run's answers.

    `units` is the number of finished units, `failed` the number of units that failed and were not
    finished later.
    """

    records: int
    unscored: int
    units: int
    retried: int
    tokens: int
    failed: int


class CaseKey(NamedTuple):
    """Key of a case: the number of its setting and its number within the setting."""

    setting: int
    number: int


class Failure(NamedTuple):
    """A unit that failed and was not finished later."""

    unit: str
    case: str
    setting: str
    editor: str
    probe: str
    error: str
    message: str
    at: str


class Condition(NamedTuple):
    """A condition on answers as SQL, with the values of its parameters."""

    sql: str
    values: tuple[object, ...] = ()


class RunAnswers:
    """Snapshot of the answers and cases of a run, taken at construction; thread-safe.

    The position of a case is its index among all cases, sorted by setting and number.

    Args:
        folder: the run folder.
        manifest: the manifest of the run.

    Raises:
        BadData: a line is damaged.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.settings, self.editors = (
            folder,
            tuple(manifest.cases),
            manifest.config.editors,
        )
        self._lock = threading.Lock()
        self._needles: list[str] = []
        with ExitStack() as stack:
            self._table = stack.enter_context(RunTable(folder, SOURCES, large=LARGE))
            self._make_tables(manifest.metrics)
            # several threads may use the object, so that no single page can close the tables
            weakref.finalize(self, stack.pop_all().close)
        self._cases = self._arrays(queries.CASE_COLUMNS)
        self.totals = Totals(*(int(value or 0) for value in self._rows(queries.TOTALS)[0]))

    def _make_tables(self, metrics: Sequence[Metric]) -> None:
        """Create the tables that pages read; each statement uses tables created before it."""
        run = self._table.connection.execute
        for statement in queries.PREPARE:
            run(statement)
        self._add_tags([tags for (tags,) in self._table.rows(queries.TAG_JSONS)])
        for (kind,) in self._table.rows(queries.KINDS):
            run(queries.ADD_DECIDING, [kind, list(deciding_scores(metrics, kind))])
        run(queries.CREATE_CASES, {"settings": list(self.settings)})
        run(queries.CREATE_POSITIONS)
        unscored = VERDICTS.index("unscored")
        run(queries.CREATE_ANSWERS, {"max_tokens": MAX_TOKENS, "unscored": unscored})
        run(queries.CREATE_FAILURES, {"max_failures": MAX_FAILURES})

    def _add_tags(self, tags: Sequence[str]) -> None:
        if not tags:
            return
        lines = [_tag_lines(json.loads(text)) for text in tags]
        arrays = {"json": np.array(tags, object), "lines": np.array(lines, object)}
        self._table.connection.register("new_tags", arrays)
        self._table.connection.execute(queries.ADD_TAGS)

    def _rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._table.rows(sql, *values)

    def _arrays(self, sql: str, *values: object) -> dict[str, Numbers]:
        with self._lock:
            return {
                name: np.ma.getdata(column)
                for name, column in self._table.arrays(sql, *values).items()
            }

    def _numbers(self, sql: str, *values: object) -> list[int]:
        return [number for (number,) in self._rows(sql, *values)]

    @property
    def cases(self) -> int:
        """Number of cases."""
        return len(self._cases["number"])

    def key_of(self, position: int) -> CaseKey:
        """Return the key of the case at a position."""
        return CaseKey(
            int(self._cases["setting_number"][position]), int(self._cases["number"][position])
        )

    def position_of(self, key: CaseKey) -> int | None:
        """Return the position of a case, or None if it does not exist."""
        there = np.flatnonzero(
            (self._cases["setting_number"] == key.setting) & (self._cases["number"] == key.number)
        )
        if len(there):
            return int(there[0])
        return None

    def find(self, setting: str, case: str) -> CaseKey | None:
        """Return the key of the case with this setting and id, or None if it does not exist."""
        positions = self._numbers(queries.FIND_CASE, setting, case)
        if positions:
            return self.key_of(positions[0])
        return None

    def read_case(self, position: int) -> dict[str, Any]:
        """Return the line of the case at a position.

        Raises:
            BadData: the line is damaged.
        """
        path, start = self.folder / CASES, int(self._cases["line_start"][position])
        line = _read_line(path, start)
        return _CASE(line, f"{path}, offset {start}")  # type: ignore[no-any-return]

    def read_answers(self, lines: Sequence[int]) -> Iterator[tuple[int, Record]]:
        """Yield (position of the case, answer) for the given line numbers, in the given order.

        Raises:
            BadData: a line is damaged.
        """
        path = self.folder / RECORDS
        rows = {row[0]: row for row in self._rows(queries.LINE_STARTS, [*lines])}
        for line in lines:
            _, start, position = rows[line]
            yield position, parse_record(_read_line(path, start), f"{path}, offset {start}")

    def units_by_editor(self) -> dict[str, int]:
        """Return the number of finished units of each editor."""
        return dict(self._rows(queries.UNITS))

    def condition(self, chosen: CaseFilter) -> Condition:
        """Return the SQL condition that selects the answers matching a filter.

        Raises:
            BadSettings: the editor, kind, verdict or tag is unknown, or `where` is malformed.
        """
        conditions = [Condition(queries.HAS_CASE)]
        for column, name in (("editor", chosen.editor), ("kind", chosen.kind)):
            if name:
                if name not in self.editors:
                    check_name(f"the run has no {column}", name, [*self.counts[column]])
                conditions.append(Condition(OF_COLUMN[column], (name,)))
        if chosen.verdict:
            check_name("no verdict", chosen.verdict, VERDICTS)
            conditions.append(_has_verdict(queries.OF_VERDICT, chosen.verdict))
        if chosen.tag:
            conditions.append(self._tagged(chosen.tag))
        if chosen.errors:
            conditions.append(Condition(queries.HAS_TROUBLE))
        if chosen.where:
            conditions.append(self._where(chosen.where))
        if chosen.text:
            conditions.append(self._with_text(chosen.text))
        return _all_of(conditions)

    def _tagged(self, tag: str) -> Condition:
        check_name("the run has no tag", tag, self._tags)
        return Condition(queries.HAS_TAG, (f"\n{tag}\n", f"\n{tag}\n"))

    @cached_property
    def _tags(self) -> list[str]:
        lines = set[str]()
        for (text,) in self._rows(queries.TAGS):
            lines.update(text.strip("\n").split("\n"))
        return sorted(lines - {""})

    def _where(self, text: str) -> Condition:
        """Return the condition that each editor in `where` has the given verdict on the probe."""
        verdicts = parse_where(text, self.editors) or {}
        conditions = list[Condition]()
        for editor, verdict in verdicts.items():
            conditions.append(_has_verdict(queries.WITH_VERDICT_OF_EDITOR, verdict, editor))
        return _all_of([*conditions, Condition(queries.OF_EDITORS, (list(verdicts),))])

    def _with_text(self, text: str) -> Condition:
        """Return the condition that the answer or its case's edits contain a text in any case."""
        with self._lock:
            if text not in self._needles:
                values = {"needle": text, "folded": text.casefold()}
                self._table.connection.execute(queries.SEARCH, values)
                self._needles.append(text)
            if len(self._needles) > MAX_NEEDLES:
                self._table.rows(queries.FORGET_SEARCH, self._needles.pop(0))
        return Condition(queries.HAS_TEXT, (text,))

    @cached_property
    def counts(self) -> dict[str, dict[str, int]]:
        """Number of answers by editor and kind (in order of first appearance), tag and verdict."""
        rows = {name: dict(self._rows(query)) for name, query in queries.COUNTS.items()}
        rows["verdict"] = {name: rows["verdict"].get(n, 0) for n, name in enumerate(VERDICTS)}
        rows["tag"] = {}
        if self._tags:
            rows["tag"] = self._tag_counts()
        return rows

    def _tag_counts(self) -> dict[str, int]:
        """Count the answers whose case or probe has a tag, for each tag, sorted by name."""
        counts = Counter[str]()
        for probe_tags, case_tags, number in self._rows(queries.COUNT_TAGS):
            # a tag that the case and its probe share is counted once
            tags = {*(probe_tags or "").split("\n"), *(case_tags or "").split("\n")}
            counts.update(dict.fromkeys(tags, number))
        return {tag: counts[tag] for tag in self._tags}

    def matches(self, fits: Condition) -> int:
        """Return the number of answers that satisfy a condition."""
        return self._numbers(*_fitting(fits, queries.COUNT_FITTING))[0]

    def sorted_cases(self, fits: Condition, sort: str, further: Sequence[int] = ()) -> Numbers:
        """Return the sorted positions of the `further` cases and of those with matching answers."""
        return self._arrays(*_fitting(fits, queries.SORT_CASES, sort, [*further]))["position"]

    def tallies(
        self, fits: Condition, positions: Sequence[int]
    ) -> dict[int, dict[str, dict[str, int]]]:
        """Count the verdicts of the matching answers of some cases, by position and editor."""
        tallies = dict[int, dict[str, dict[str, int]]]()
        rows = self._rows(*_fitting(fits, queries.TALLIES, [*positions]))
        for position, editor, verdict, number in rows:
            tallies.setdefault(position, {}).setdefault(editor, {})[VERDICTS[verdict]] = number
        return tallies

    def example_lines(self, fits: Condition, positions: Sequence[int]) -> dict[int, int]:
        """Return the line number of a matching answer of each case, by position: a wrong one
        under an edit if there is one.
        """
        return dict(self._rows(*_fitting(fits, queries.EXAMPLE_LINES, [*positions])))

    def last_lines(self, number: int) -> list[int]:
        """Return the line numbers of the last answers to known cases, the newest first."""
        return self._numbers(queries.LAST_LINES, number)

    def misses(self, editor: str, after: int, limit: int) -> list[int]:
        """Return the line numbers of answers whose first retrieved entry belongs to another edit.

        Args:
            editor: name of the editor; an empty text selects all editors.
            after: only lines after this line number are returned.
            limit: maximum number of lines.
        """
        return self._numbers(queries.MISSES, after, editor, editor, limit)

    def miss_counts(self) -> dict[str, int]:
        """Count the answers whose first retrieved entry belongs to another edit, by editor."""
        return dict(self._rows(queries.MISS_COUNTS))

    @cached_property
    def failures(self) -> list[Failure]:
        """Units that failed and were not finished later, from the first `MAX_FAILURES` errors."""
        return [Failure(*row) for row in self._rows(queries.FAILURES)]

    @cached_property
    def failed_cases(self) -> dict[int, Counter[str]]:
        """Number of failed units by position of the case and by editor."""
        counts = dict[int, Counter[str]]()
        for position, editor, number in self._rows(queries.FAILED_CASES):
            counts.setdefault(position, Counter())[editor] = number
        return counts

    def first_answers(self, editor: str) -> dict[str, Numbers]:
        """Return an editor's answers at checkpoint 0 as columns.

        The columns are question, line, position, verdict and the number of the kind.
        """
        kinds = [*self.counts["kind"]]
        return self._arrays(queries.FIRST_ANSWERS, kinds, editor)

    def setting_of(self, positions: Numbers) -> Numbers:
        """Return the setting numbers of the cases at these positions."""
        return self._cases["setting_number"][positions]

    def chosen_cases(self, choice: str) -> Numbers:
        """Return the positions of the cases selected by a choice.

        Args:
            choice: `all`, `wrong` (not all answers are right), `flipped` (a probe is answered right
                under one editor and wrong under another), or the size of a seeded random sample.

        Raises:
            BadSettings: the choice is invalid.
        """
        if choice.isdecimal():
            size = min(int(choice[:9]), self.cases)
            return np.sort(np.random.default_rng(0).choice(self.cases, size, replace=False))
        if choice == "all":
            return np.arange(self.cases)
        if choice not in queries.CHOSEN:
            raise BadSettings(f"cases '{choice[:40]}': write all, wrong, flipped or a number.")
        return self._arrays(queries.CHOSEN[choice])["position"]


def _fitting(fits: Condition, query: str, *values: object) -> tuple[Any, ...]:
    """Return a query over the matching answers, and the values of all its parameters."""
    return queries.FITTING.format(condition=fits.sql) + query, *fits.values, *values


def _all_of(conditions: Sequence[Condition]) -> Condition:
    """Join conditions by AND."""
    values = chain.from_iterable(condition.values for condition in conditions)
    return Condition(" AND ".join(condition.sql for condition in conditions), tuple(values))


def _has_verdict(sql: str, verdict: str, *values: object) -> Condition:
    """Return a condition whose last parameter is the number of a verdict."""
    return Condition(sql, (*values, VERDICTS.index(verdict)))


def _tag_lines(tags: Mapping[str, Any]) -> str:
    r"""Format tags as lines of `name=value`, each between line breaks.

    >>> _tag_lines({"hops": 2, "is_new": True})
    '\nhops=2\nis_new=True\n'
    """
    return "".join(["\n", *(f"{name}={value}\n" for name, value in tags.items())])


def _read_line(path: Path, start: int) -> bytes:
    with open_file(path) as file:
        file.seek(start)
        return file.readline()
