"""The answers of a run as columns of numbers, filtered and counted by case."""

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emend.evals.show.trace.answers import VERDICTS, parse_where
from emend.evals.show.view.answer_rows import (
    CASE_ROW,
    LACKS_SCORE,
    MISSED,
    RETRIED,
    RIGHT,
    ROW,
    WRONG,
    Names,
    Rows,
    case_hash,
)
from emend.evals.show.view.index import ANSWER_CASES, ANSWERS, AnswerIndex
from emend.evals.show.view.views.cases import CaseFilter
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest

COLUMNS = (
    "probe",
    "start",
    "seconds",
    "tokens",
    "checkpoint",
    "repeat",
    "editor",
    "kind",
    "tags",
    "verdict",
    "flags",
)
"""Columns that are held in memory beside the case's position; 42 bytes for an answer."""
SORTS = {
    "number": "number",
    "wrong": "most wrong answers",
    "unscored": "most unscored answers",
    "slow": "longest",
    "tokens": "most tokens",
}
Mask = NDArray[np.bool_]
Integers = NDArray[np.int64]


class Totals(NamedTuple):
    """Counts of a run's answers; `units` are the finished ones."""

    records: int
    unscored: int
    units: int
    retried: int
    tokens: int


class CaseKey(NamedTuple):
    """A case by the number of its setting and its own number."""

    setting: int
    number: int


class RunAnswers:
    """The answers and cases of a run, as far as they are indexed; the cases are in the order of settings and numbers.

    Args:
        index: the run's.
        settings: of the run, in its order.
        editors: of the run, in its order.
        before: the answers when they were last read, which are continued where the index was.
    """

    def __init__(
        self,
        index: AnswerIndex,
        settings: Sequence[str],
        editors: Sequence[str],
        before: "RunAnswers | None" = None,
    ) -> None:
        self.state, self.generation = index.state(), index.generation()
        self.pairings: dict[Any, Any] = {}
        """Answers that were paired with another editor's; kept here, since they hold as long as these answers."""
        self.settings, self.editors = tuple(settings), tuple(editors)
        continued = before is not None and before.generation == self.generation and before._continues(self.state)
        self.chunk_sizes: list[int] = list(before.chunk_sizes) if before and continued else []
        new = index.chunks(ANSWERS, len(self.chunk_sizes))
        self.names: Names = index.names()
        self._read_cases(index)
        columns, units = self._columns(new)
        if before and continued:
            columns = {name: np.concatenate([before.columns[name], column]) for name, column in columns.items()}
            units = np.concatenate([before.units, units])
        self.columns: dict[str, NDArray[Any]] = columns
        self.units: Integers = units
        self.editor_units: list[int] = self._count_units(new, before.editor_units if before and continued else ())
        self.chunk_sizes += [len(rows) for rows in new]
        flags = columns["flags"]
        self.totals = Totals(
            len(flags),
            int(((flags & LACKS_SCORE) > 0).sum()),
            len(units),
            int(((flags & RETRIED) > 0).sum()),
            int(columns["tokens"].sum(dtype=np.int64)),
        )

    def _continues(self, state: tuple[tuple[str, str, int], ...]) -> bool:
        """True if the index still has all that was read, and has the same cases."""
        then, now = ({row[0]: row for row in rows} for rows in (self.state, state))
        same_cases = then.get(ANSWER_CASES) == now.get(ANSWER_CASES)
        return same_cases and ANSWERS in then and ANSWERS in now and now[ANSWERS][2] >= then[ANSWERS][2] > 0

    def _read_cases(self, index: AnswerIndex) -> None:
        chunks = index.chunks(ANSWER_CASES, 0)
        rows: Rows = np.concatenate(chunks) if chunks else np.empty(0, CASE_ROW)
        places = {name: place for place, name in enumerate(self.settings)}
        known = np.array([places.get(name, len(places)) for name in self.names["setting"]] or [0])
        setting = known[np.minimum(rows["setting"], len(known) - 1)]
        self.case_order = np.lexsort((rows["number"], setting))
        self.case_rows = rows[self.case_order]
        self.case_setting = setting[self.case_order]

    def _columns(self, chunks: Sequence[Rows]) -> tuple[dict[str, NDArray[Any]], Integers]:
        rows: Rows = np.concatenate(chunks) if chunks else np.empty(0, ROW)
        columns: dict[str, NDArray[Any]] = {name: rows[name].copy() for name in COLUMNS}
        hashes = self.case_rows["case"]
        order = np.argsort(hashes)
        matches = np.searchsorted(hashes, rows["case"], sorter=order)
        place = order[np.minimum(matches, len(order) - 1)] if len(order) else np.zeros(len(rows), np.int64)
        known = hashes[place] == rows["case"] if len(order) else np.zeros(len(rows), bool)
        columns["case"] = np.where(known, place, -1).astype(np.int32)
        units = [np.unique(chunk["unit"]) for chunk in chunks]  # a unit is in one chunk
        return columns, np.concatenate(units) if units else np.empty(0, np.int64)

    def _count_units(self, chunks: Sequence[Rows], before: Sequence[int]) -> list[int]:
        counts = np.zeros(len(self.names["editor"]), np.int64)
        counts[: len(before)] = before
        for chunk in chunks:
            _, first = np.unique(chunk["unit"], return_index=True)
            counts += np.bincount(chunk["editor"][first], minlength=len(counts))[: len(counts)]
        return list(map(int, counts))

    @property
    def cases(self) -> int:
        """Number of cases."""
        return len(self.case_rows)

    def key_of(self, position: int) -> CaseKey:
        """Setting and number of the case at a position."""
        return CaseKey(int(self.case_setting[position]), int(self.case_rows["number"][position]))

    def position_of(self, key: CaseKey) -> int | None:
        """Position of a case; None without one."""
        there = np.flatnonzero((self.case_setting == key.setting) & (self.case_rows["number"] == key.number))
        return int(there[0]) if len(there) else None

    def find(self, setting: str, case: str) -> CaseKey | None:
        """The case of that setting and id."""
        there = np.flatnonzero(self.case_rows["case"] == case_hash(setting, case))
        return self.key_of(int(there[0])) if len(there) else None

    def units_by_editor(self) -> dict[str, int]:
        """Number of finished units of each editor."""
        return {name: int(count) for name, count in zip(self.names["editor"], self.editor_units, strict=False)}

    @staticmethod
    def hash_of(setting: str, case: str) -> int:
        """Number by which the rows name a case."""
        return case_hash(setting, case)

    def place_of(self, kind: str, name: str) -> int:
        """Number of an editor, kind or setting in the columns; -1 for one without answers."""
        names = self.names[kind]
        return names.index(name) if name in names else -1

    def mask(self, chosen: CaseFilter, text: Mask | None = None) -> Mask:
        """Answers that fit a filter.

        Args:
            chosen: the filter.
            text: answers that have the filter's text.

        Raises:
            BadSettings: there is no such editor, kind or tag, or `where` has another form.
        """
        columns = self.columns
        fits: Mask = columns["case"] >= 0
        for kind, name in (("editor", chosen.editor), ("kind", chosen.kind)):
            if name:
                place = self.place_of(kind, name)
                if place < 0 and name not in self.editors:
                    raise BadSettings(f"the run has no {kind} '{name}': {nearest(name, self.names[kind])}")
                fits &= columns[kind] == place
        if chosen.verdict:
            if chosen.verdict not in VERDICTS:
                raise BadSettings(f"no verdict '{chosen.verdict}': {nearest(chosen.verdict, VERDICTS)}")
            fits &= columns["verdict"] == VERDICTS.index(chosen.verdict)
        if chosen.tag:
            fits &= self._tagged(chosen.tag)
        if chosen.errors:
            fits &= (columns["flags"] & (LACKS_SCORE | RETRIED)) > 0
        if chosen.where:
            fits &= self._where(chosen.where)
        return fits if text is None else fits & text

    def _tagged(self, tag: str) -> Mask:
        having = np.array([tag in text.split("\n") for text in self.names["tags"]])
        if not having.any():
            known = sorted({line for text in self.names["tags"] for line in text.split("\n") if line})
            raise BadSettings(f"the run has no tag '{tag}': {nearest(tag, known)}")
        of_case = np.append(having[np.minimum(self.case_rows["tags"], len(having) - 1)], False)  # no case: the last one
        tagged: Mask = having[np.minimum(self.columns["tags"], len(having) - 1)] | of_case[self.columns["case"]]
        return tagged

    def _where(self, text: str) -> Mask:
        """Answers to the probes about which each of the named editors has the verdict that is named."""
        conditions = parse_where(text, self.editors) or {}
        number, verdict, count = (
            self.probe_numbers,
            self.columns["verdict"],
            int(self.probe_numbers.max(initial=-1)) + 1,
        )
        holds, named = np.ones(count, bool), np.zeros(len(number), bool)
        for name, verdict_name in conditions.items():
            of_editor = self.columns["editor"] == self.place_of("editor", name)
            fitting = np.zeros(count, bool)
            fitting[number[of_editor & (verdict == VERDICTS.index(verdict_name))]] = True
            holds &= fitting
            named |= of_editor
        return named & holds[number]

    @cached_property
    def probe_numbers(self) -> NDArray[np.int32]:
        """A number for what several editors were asked alike, from 0."""
        _, numbers = np.unique(self.probe_keys(), return_inverse=True)
        return numbers.astype(np.int32)

    def probe_keys(self) -> Integers:
        """A number for what several editors were asked alike: case, probe, repeat and checkpoint."""
        columns = self.columns
        question = columns["case"].astype(np.int64) * 1_000_003 + columns["repeat"].astype(np.int64)
        with np.errstate(over="ignore"):
            further = (question * 1_000_033 + columns["checkpoint"].astype(np.int64)) * np.int64(0x9E3779B97F4A7C1)
        keys: Integers = columns["probe"].astype(np.int64) ^ further
        return keys

    def count(self, kind: str) -> dict[str, int]:
        """Number of answers of each editor or kind, or with each tag."""
        counts = np.bincount(self.columns[kind].astype(np.int64), minlength=len(self.names[kind]))
        return {name: int(counts[place]) for place, name in enumerate(self.names[kind])}

    def verdict_counts(self) -> dict[str, int]:
        """Number of answers of each verdict."""
        counts = np.bincount(self.columns["verdict"].astype(np.int64), minlength=len(VERDICTS))
        return dict(zip(VERDICTS, map(int, counts), strict=True))

    def tag_counts(self, limit: int) -> dict[str, int]:
        """The first tags, by name, with the number of answers of their cases or probes; at most `limit`."""
        tags = sorted({line for text in self.names["tags"] for line in text.split("\n") if line})[:limit]
        return {tag: int(self._tagged(tag).sum()) for tag in tags}

    def case_values(self, fits: Mask, sort: str) -> NDArray[Any]:
        """A number for each case by which cases are sorted, the largest first; 0 for all in the order of numbers."""
        columns = self.columns
        cases = columns["case"][fits].astype(np.int64)
        if sort in ("wrong", "unscored"):
            return np.bincount(cases, columns["verdict"][fits] == VERDICTS.index(sort), minlength=self.cases)
        if sort in ("slow", "tokens"):
            values = columns["seconds" if sort == "slow" else "tokens"][fits]
            return np.bincount(cases, values.astype(np.float64), minlength=self.cases)
        return np.zeros(self.cases)

    def tallies(self, fits: Mask, positions: Sequence[int]) -> dict[int, dict[str, tuple[int, int, int]]]:
        """Right, wrong and unscored among the fitting answers of some cases, by position and editor."""
        rows = self.rows_of(fits, positions)
        columns, tallies = self.columns, dict[int, dict[str, list[int]]]()
        for row in rows.tolist():
            editor = self.names["editor"][columns["editor"][row]]
            counts = tallies.setdefault(int(columns["case"][row]), {}).setdefault(editor, [0, 0, 0])
            counts[int(columns["verdict"][row])] += 1
        return {
            case: {name: (right, wrong, unscored) for name, (right, wrong, unscored) in by.items()}
            for case, by in tallies.items()
        }

    def rows_of(self, fits: Mask, positions: Sequence[int]) -> Integers:
        """The fitting answers of some cases."""
        chosen = np.zeros(self.cases + 1, bool)  # the last one is that of answers without a case
        chosen[list(positions)] = True
        return np.flatnonzero(fits & chosen[self.columns["case"]])

    def misses(self, editor: str) -> Integers:
        """Answers whose first retrieved entry is of another edit, of an editor or of all."""
        fits = (self.columns["flags"] & MISSED) > 0
        if editor:
            fits &= self.columns["editor"] == self.place_of("editor", editor)
        return np.flatnonzero(fits & (self.columns["case"] >= 0))

    def chosen_cases(self, choice: str) -> Integers:
        """Positions of cases: `all`; with an answer that is not right; with a probe that `flipped`; or a seeded sample.

        Args:
            choice: `all`, `wrong`, `flipped`, or a number of cases.

        Raises:
            BadSettings: it is something else.
        """
        if choice.isdecimal():
            size = min(int(choice[:9]), self.cases)
            return np.sort(np.random.default_rng(0).choice(self.cases, size, replace=False))
        cases, verdict = self.columns["case"], self.columns["verdict"]
        if choice == "all":
            return np.arange(self.cases)
        if choice == "wrong":
            return np.unique(cases[(verdict != RIGHT) & (cases >= 0)]).astype(np.int64)
        if choice == "flipped":
            number = self.probe_numbers
            flipped = np.intersect1d(number[verdict == RIGHT], number[verdict == WRONG])
            return np.unique(cases[np.isin(number, flipped) & (cases >= 0)]).astype(np.int64)
        raise BadSettings(f"cases '{choice[:40]}': write all, wrong, flipped or a number.")


def search_texts(index: AnswerIndex, answers: RunAnswers, text: str, matches: Mask, chunk: int) -> None:
    """Mark the answers of a chunk that have a text, ignoring case.

    Args:
        index: the run's.
        answers: read from it.
        text: what is searched for.
        matches: by answer, marked here.
        chunk: its number.
    """
    needle = text.casefold().replace("\0", " ").encode(errors="replace")
    content, places = index.texts(ANSWERS, chunk)
    ends, rows = places.tolist(), list[int]()
    at = content.find(needle)
    while at >= 0:
        row = bisect_right(ends, at)
        rows.append(row)
        at = content.find(needle, ends[row])
    matches[np.array(rows, np.int64) + sum(answers.chunk_sizes[:chunk])] = True


def search_cases(index: AnswerIndex, answers: RunAnswers, text: str) -> Mask:
    """Cases, by position, whose edits have a text, ignoring case."""
    needle = text.casefold().encode(errors="replace")
    having = list[bool]()
    for place in range(len(index.chunks(ANSWER_CASES, 0))):
        content, ends = index.texts(ANSWER_CASES, place)
        start = 0
        for end in ends.tolist():
            having.append(needle in content[start : end - 1])
            start = end
    matches = np.array(having, dtype=bool)
    return matches[answers.case_order] if len(matches) == answers.cases else np.zeros(answers.cases, bool)
