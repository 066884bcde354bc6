"""The answers of a run in a database in memory, made of its tables, by which pages filter and count them."""

import json
import threading
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emend.evals.case import Metric, Record
from emend.evals.log.lines import CASES, RECORDS, SCHEMAS, parser_of
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import parse_record
from emend.evals.log.run_table import RunTable
from emend.evals.log.table_sources import CASE_SOURCE, ERROR_SOURCE, NAMES, RECORD_SOURCE, quoted
from emend.evals.log.table_sources import text as literal
from emend.evals.show.trace.answers import VERDICTS, check_name, deciding_scores, parse_where
from emend.evals.show.view.views import CaseFilter
from emend.memory.errors import BadSettings
from emend.memory.files import open_file

SOURCES = (RECORD_SOURCE, CASE_SOURCE, ERROR_SOURCE)
LARGE = 2**20
"""Size in bytes of a file from which on its table is kept, so that the viewer starts quickly the next time."""
MAX_FAILURES = 10_000
MAX_TOKENS = 2**32 - 1
MAX_NEEDLES = 32
"""Number of texts whose matches are kept, for the further pages of a search."""
SORTS = {
    "number": "number",
    "wrong": "most wrong answers",
    "unscored": "most unscored answers",
    "slow": "longest",
    "tokens": "most tokens",
}
VALUES = {
    "wrong": f"count(*) FILTER (verdict = {VERDICTS.index('wrong')})::DOUBLE",
    "unscored": f"count(*) FILTER (verdict = {VERDICTS.index('unscored')})::DOUBLE",
    "slow": "sum(seconds)",
    "tokens": "sum(tokens)::DOUBLE",
}
"""Numbers of a case by which cases are sorted, the largest first."""
TABLES = (
    """
CREATE TABLE cases AS SELECT row_number() OVER (ORDER BY place, number, line) - 1 AS position, * FROM (
    SELECT coalesce(list_position($names, setting) - 1, len($names)) AS place, number, line, line_start, case_id,
        setting, tag_lines
    FROM case_lines LEFT JOIN tag_texts ON tags::VARCHAR = tag_json)
""",
    "CREATE VIEW positions AS SELECT setting, case_id, min(position) AS position FROM cases GROUP BY ALL",
    """
CREATE TABLE answers AS SELECT line, line_start, hash(unit) AS unit, position, editor, kind, repeat, checkpoint,
    hash(setting, case_id, probe, repeat) AS question, seconds,
    greatest(0, least({tokens}, usage_input_tokens::HUGEINT + usage_output_tokens))::BIGINT AS tokens,
    ({verdict})::UTINYINT AS verdict, cardinality(unscored) > 0 AS is_unscored, usage_retries > 0 AS is_retried,
    "values"['hit@1'] AS hit, tag_lines
FROM record_lines LEFT JOIN tag_texts ON tags::VARCHAR = tag_json
LEFT JOIN positions USING (setting, case_id) ORDER BY line
""",
    """
CREATE TABLE failures AS SELECT * FROM (
    SELECT *, min(line) OVER (PARTITION BY unit) AS first FROM error_lines WHERE line <= {failures}
    QUALIFY row_number() OVER (PARTITION BY unit ORDER BY line DESC) = 1)
WHERE hash(unit) NOT IN (SELECT unit FROM answers)
""",
    "CREATE TABLE matches (needle VARCHAR, line BIGINT)",
)
"""The tables of pages; `question` is what several editors were asked alike, the first time or at a checkpoint."""
SEARCH = """
INSERT INTO matches SELECT $needle, line FROM record_lines
WHERE contains({answer_texts}, $folded)
UNION SELECT $needle, line FROM answers
WHERE position IN (SELECT position FROM cases JOIN case_lines USING (line) WHERE contains({edit_texts}, $folded))
"""
ANSWER_TEXTS = (
    "concat_ws(chr(10), prompt, array_to_string(gold, chr(10)), rival, answer, reply, "
    "array_to_string(map_values(unscored), chr(10)))"
)
EDIT_TEXTS = "array_to_string(list_transform(edits, lambda edit: edit.text), ' ')"
UNEVEN = {"ß": "ss", "ς": "σ"}
"""Letters that DuckDB does not fold as Python does, where case is ignored."""
_CASE = parser_of(SCHEMAS[CASES])
Numbers = NDArray[Any]


class Totals(NamedTuple):
    """Counts of a run's answers; `units` are the finished ones, `failed` those that failed and were not finished."""

    records: int
    unscored: int
    units: int
    retried: int
    tokens: int
    failed: int


class CaseKey(NamedTuple):
    """A case by the number of its setting and its own number."""

    setting: int
    number: int


class Failure(NamedTuple):
    """A unit that failed and was not finished since."""

    unit: str
    case: str
    setting: str
    editor: str
    probe: str
    error: str
    message: str
    at: str


class Condition(NamedTuple):
    """A condition on answers in SQL, and the values of its parameters."""

    sql: str
    values: tuple[object, ...] = ()


class RunAnswers:
    """The answers and cases of a run, as they were when this was made; safe for many threads.

    The position of a case is its place in the order of settings and numbers.

    Args:
        folder: the run folder.
        manifest: the run's.

    Raises:
        BadData: a damaged line.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.settings, self.editors = folder, tuple(manifest.cases), manifest.config.editors
        self._lock = threading.Lock()
        self._needles: list[str] = []
        with ExitStack() as stack:
            self._table = stack.enter_context(RunTable(folder, SOURCES, large=LARGE))
            self._make_tables(manifest.metrics)
            weakref.finalize(self, stack.pop_all().close)  # pages of several threads may hold this
        self._cases = self._arrays("SELECT place, number, line_start FROM cases ORDER BY position")
        sums = (
            "count(*), count(*) FILTER (is_unscored), count(DISTINCT unit), count(*) FILTER (is_retried), sum(tokens)"
        )
        query = f"SELECT {sums}, (SELECT count(*) FROM failures) FROM answers"
        self.totals = Totals(*(int(value or 0) for value in self._rows(query)[0]))

    def _make_tables(self, metrics: Sequence[Metric]) -> None:
        run = self._table.connection.execute
        tags = "SELECT tags::VARCHAR FROM {} WHERE tags::VARCHAR != '{{}}'"
        rows = self._table.rows(f"{tags.format('case_lines')} UNION {tags.format('record_lines')}")
        run("CREATE TABLE tag_texts (tag_json VARCHAR, tag_lines VARCHAR)")
        if rows:
            texts = {"json": [row for (row,) in rows], "lines": [_tag_lines(json.loads(row)) for (row,) in rows]}
            arrays = {name: np.array(column, object) for name, column in texts.items()}
            self._table.connection.register("new_tags", arrays)
            run("INSERT INTO tag_texts SELECT json, lines FROM new_tags")
        kinds = [kind for (kind,) in self._table.rows("SELECT DISTINCT kind FROM record_lines")]
        verdict = _verdict(metrics, kinds)
        cases, *others = TABLES
        run(cases, {"names": list(self.settings)})
        for statement in others:
            run(statement.format(verdict=verdict, tokens=MAX_TOKENS, failures=MAX_FAILURES))

    def _rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._table.rows(sql, *values)

    def _arrays(self, sql: str, *values: object) -> dict[str, Numbers]:
        with self._lock:
            return {name: np.ma.getdata(column) for name, column in self._table.arrays(sql, *values).items()}

    def _numbers(self, sql: str, *values: object) -> list[int]:
        return [number for (number,) in self._rows(sql, *values)]

    @property
    def cases(self) -> int:
        """Number of cases."""
        return len(self._cases["number"])

    def key_of(self, position: int) -> CaseKey:
        """Setting and number of the case at a position."""
        return CaseKey(int(self._cases["place"][position]), int(self._cases["number"][position]))

    def position_of(self, key: CaseKey) -> int | None:
        """Position of a case; None without one."""
        there = np.flatnonzero((self._cases["place"] == key.setting) & (self._cases["number"] == key.number))
        return int(there[0]) if len(there) else None

    def find(self, setting: str, case: str) -> CaseKey | None:
        """The case of that setting and id."""
        positions = self._numbers("SELECT position FROM positions WHERE setting = ? AND case_id = ?", setting, case)
        return self.key_of(positions[0]) if positions else None

    def read_case(self, position: int) -> dict[str, Any]:
        """The line of the case at a position.

        Raises:
            BadData: it is damaged.
        """
        path, start = self.folder / CASES, int(self._cases["line_start"][position])
        return _CASE(_read_line(path, start), f"{path}, offset {start}")  # type: ignore[no-any-return]

    def read_answers(self, lines: Sequence[int]) -> Iterator[tuple[int, Record]]:
        """The answers on these lines, in their order, each with the position of its case.

        Raises:
            BadData: one is damaged.
        """
        rows = self._rows("SELECT line, line_start, position FROM answers WHERE list_contains(?, line)", [*lines])
        places, path = {line: place for line, *place in rows}, self.folder / RECORDS
        for start, position in (places[line] for line in lines):
            yield position, parse_record(_read_line(path, start), f"{path}, offset {start}")

    def units_by_editor(self) -> dict[str, int]:
        """Number of finished units of each editor."""
        return dict(self._rows("SELECT editor, count(DISTINCT unit) FROM answers GROUP BY editor"))

    def condition(self, chosen: CaseFilter) -> Condition:
        """The condition that answers fit a filter.

        Raises:
            BadSettings: there is no such editor, kind or tag, or `where` has another form.
        """
        parts = [Condition("position IS NOT NULL")]
        for kind, name in (("editor", chosen.editor), ("kind", chosen.kind)):
            if name:
                if name not in self.editors:
                    check_name(f"the run has no {kind}", name, [*self.counts[kind]])
                parts.append(Condition(f"{kind} = ?", (name,)))
        if chosen.verdict:
            check_name("no verdict", chosen.verdict, VERDICTS)
            parts.append(Condition("verdict = ?", (VERDICTS.index(chosen.verdict),)))
        if chosen.tag:
            parts.append(self._tagged(chosen.tag))
        if chosen.errors:
            parts.append(Condition("(is_unscored OR is_retried)"))
        if chosen.where:
            parts.append(self._where(chosen.where))
        if chosen.text:
            parts.append(self._with_text(chosen.text))
        return Condition(
            " AND ".join(part.sql for part in parts), tuple(each for part in parts for each in part.values)
        )

    def _tagged(self, tag: str) -> Condition:
        check_name("the run has no tag", tag, self._tags)
        has_tag = "contains(tag_lines, ?)"
        sql = f"({has_tag} OR position IN (SELECT position FROM cases WHERE {has_tag}))"
        return Condition(sql, (f"\n{tag}\n", f"\n{tag}\n"))

    @cached_property
    def _tags(self) -> list[str]:
        texts = self._rows("SELECT tag_lines FROM tag_texts")
        return sorted({line for (text,) in texts for line in text.strip("\n").split("\n") if line})

    def _where(self, text: str) -> Condition:
        """Answers to the probes about which each of the named editors has the verdict that is named."""
        conditions = parse_where(text, self.editors) or {}
        fitting = (
            "(question, checkpoint) IN (SELECT question, checkpoint FROM answers WHERE editor = ? AND verdict = ?)"
        )
        values = [each for name, verdict in conditions.items() for each in (name, VERDICTS.index(verdict))]
        named = "list_contains(?, editor)"
        return Condition(" AND ".join([*[fitting] * len(conditions), named]), (*values, list(conditions)))

    def _with_text(self, text: str) -> Condition:
        """Answers that have a text, or whose case's edits have it, ignoring case."""
        query = SEARCH.format(answer_texts=_folded(ANSWER_TEXTS, text), edit_texts=_folded(EDIT_TEXTS, text))
        with self._lock:
            if text not in self._needles:
                self._table.connection.execute(query, {"needle": text, "folded": text.casefold()})
                self._needles.append(text)
            if len(self._needles) > MAX_NEEDLES:
                self._table.rows("DELETE FROM matches WHERE needle = ?", self._needles.pop(0))
        return Condition("line IN (SELECT line FROM matches WHERE needle = ?)", (text,))

    @cached_property
    def counts(self) -> dict[str, dict[str, int]]:
        """Numbers of answers by editor and kind, in the order in which they first came, by tag, and by verdict."""
        counts: dict[str, dict[str, int]] = {}
        for kind in ("editor", "kind"):
            counts[kind] = dict(self._rows(f"SELECT {kind}, count(*) FROM answers GROUP BY {kind} ORDER BY min(line)"))
        counts["tag"] = self._tag_counts() if self._tags else {}
        verdicts = dict(self._rows("SELECT verdict, count(*) FROM answers GROUP BY verdict"))
        counts["verdict"] = {name: verdicts.get(place, 0) for place, name in enumerate(VERDICTS)}
        return counts

    def _tag_counts(self) -> dict[str, int]:
        """The tags, by name, with the number of answers of their cases or probes."""
        of_case = "LEFT JOIN (SELECT position, tag_lines AS case_lines FROM cases) USING (position)"
        query = f"SELECT tag_lines, case_lines, count(*) FROM answers {of_case} GROUP BY ALL"
        counts = Counter[str]()
        for of_probe, of_its_case, number in self._rows(query):
            counts.update(dict.fromkeys({*(of_probe or "").split("\n"), *(of_its_case or "").split("\n")}, number))
        return {tag: counts[tag] for tag in self._tags}

    def matches(self, fits: Condition) -> int:
        """Number of answers that fit."""
        return self._numbers(f"SELECT count(*) FROM answers WHERE {fits.sql}", *fits.values)[0]

    def sorted_cases(self, fits: Condition, sort: str, further: Sequence[int] = ()) -> Numbers:
        """Positions of cases with fitting answers, and of further ones, in order."""
        query = f"""
        SELECT position FROM (
            SELECT position, {VALUES.get(sort, "0")} AS value FROM answers WHERE {fits.sql} GROUP BY position
            UNION ALL SELECT unnest(?::BIGINT[]), 0
        ) GROUP BY position ORDER BY coalesce(max(value), 0) DESC, position
        """
        return self._arrays(query, *fits.values, [*further])["position"]

    def tallies(self, fits: Condition, positions: Sequence[int]) -> dict[int, dict[str, dict[str, int]]]:
        """Numbers of verdicts among the fitting answers of some cases, by position and editor."""
        query = (
            f"SELECT position, editor, verdict, count(*) FROM answers WHERE {fits.sql} AND list_contains(?, position)"
        )
        tallies = dict[int, dict[str, dict[str, int]]]()
        for position, editor, verdict, number in self._rows(f"{query} GROUP BY ALL", *fits.values, [*positions]):
            tallies.setdefault(position, {}).setdefault(editor, {})[VERDICTS[verdict]] = number
        return tallies

    def first_lines(self, fits: Condition, positions: Sequence[int]) -> dict[int, int]:
        """Line of the first fitting answer of each of some cases."""
        query = f"SELECT position, min(line) FROM answers WHERE {fits.sql} AND list_contains(?, position)"
        return dict(self._rows(f"{query} GROUP BY position", *fits.values, [*positions]))

    def last_lines(self, number: int) -> list[int]:
        """Lines of the last answers of known cases, the newest first."""
        query = "SELECT line FROM answers WHERE position IS NOT NULL ORDER BY line DESC LIMIT ?"
        return self._numbers(query, number)

    def misses(self, editor: str, after: int, limit: int) -> list[int]:
        """Lines after a line of answers whose first retrieved entry is of another edit, of an editor or of all."""
        fits = "hit < 1 AND position IS NOT NULL AND line > ? AND (editor = ? OR ? = '')"
        return self._numbers(
            f"SELECT line FROM answers WHERE {fits} ORDER BY line LIMIT ?", after, editor, editor, limit
        )

    def miss_counts(self) -> dict[str, int]:
        """Number of such answers of each editor."""
        fits = "hit < 1 AND position IS NOT NULL"
        return dict(self._rows(f"SELECT editor, count(*) FROM answers WHERE {fits} GROUP BY editor"))

    @cached_property
    def failures(self) -> list[Failure]:
        """Units that failed and were not finished since, each once, the first ones of very many."""
        fields = ", ".join(f"coalesce({quoted(NAMES.get(name, name))}, '')" for name in Failure._fields)
        return [Failure(*row) for row in self._rows(f"SELECT {fields} FROM failures ORDER BY first")]

    @cached_property
    def failed_cases(self) -> dict[int, Counter[str]]:
        """Number of failed units of each editor, by position of the case."""
        query = "SELECT position, editor, count(*) FROM failures JOIN positions USING (setting, case_id) GROUP BY ALL"
        counts = dict[int, Counter[str]]()
        for position, editor, number in self._rows(query) if self.failures else ():
            counts.setdefault(position, Counter())[editor] = number
        return counts

    def first_answers(self, editor: str) -> dict[str, Numbers]:
        """Columns of an editor's answers when first asked: question, line, position, verdict, number of the kind."""
        columns = "question, line, position, verdict, list_position(?, kind) - 1 AS kind"
        fits = "editor = ? AND checkpoint = 0 AND position IS NOT NULL"
        return self._arrays(f"SELECT {columns} FROM answers WHERE {fits} ORDER BY line", [*self.counts["kind"]], editor)

    def setting_of(self, positions: Numbers) -> Numbers:
        """Numbers of the settings of cases at these positions."""
        return self._cases["place"][positions]

    def chosen_cases(self, choice: str) -> Numbers:
        """Positions of cases: `all`; with an answer that is not right; with a probe that `flipped`; or a seeded sample.

        Args:
            choice: `all`, `wrong`, `flipped`, or a number of cases.

        Raises:
            BadSettings: it is something else.
        """
        if choice.isdecimal():
            size = min(int(choice[:9]), self.cases)
            return np.sort(np.random.default_rng(0).choice(self.cases, size, replace=False))
        if choice == "all":
            return np.arange(self.cases)
        both = (
            "SELECT question, checkpoint FROM answers GROUP BY ALL HAVING bool_or(verdict = 0) AND bool_or(verdict = 1)"
        )
        fits = {"wrong": "verdict != 0", "flipped": f"(question, checkpoint) IN ({both})"}
        if choice not in fits:
            raise BadSettings(f"cases '{choice[:40]}': write all, wrong, flipped or a number.")
        query = f"SELECT DISTINCT position FROM answers WHERE position IS NOT NULL AND {fits[choice]} ORDER BY position"
        return self._arrays(query)["position"]


def _verdict(metrics: Sequence[Metric], kinds: Sequence[str]) -> str:
    """The number of an answer's verdict in SQL, as `verdict_and_score` has it."""
    unscored = VERDICTS.index("unscored")
    whens = list[str]()
    for kind in kinds:
        for name in deciding_scores(metrics, kind):
            of_kind, score = f"kind = {literal(kind)}", f'"values"[{literal(name)}]'
            whens.append(f"WHEN {of_kind} AND {score} IS NOT NULL THEN ({score} < 1)::INTEGER")
            whens.append(f"WHEN {of_kind} AND unscored[{literal(name)}] IS NOT NULL THEN {unscored}")
    return f"CASE {' '.join(whens)} ELSE {unscored} END" if whens else str(unscored)


def _tag_lines(tags: Mapping[str, Any]) -> str:
    r"""Tags as lines of `name=value`, each between line ends.

    >>> _tag_lines({"hops": 2, "is_new": True})
    '\nhops=2\nis_new=True\n'
    """
    return "".join(["\n", *(f"{name}={value}\n" for name, value in tags.items())])


def _folded(texts: str, needle: str) -> str:
    """Texts in lower case in SQL, as far as this is needed to find another one in them."""
    folded = f"lower({texts})"
    for letter, plain in UNEVEN.items():
        if plain in needle.casefold():
            folded = f"replace({folded}, '{letter}', '{plain}')"
    return folded


def _read_line(path: Path, start: int) -> bytes:
    with open_file(path) as file:
        file.seek(start)
        return file.readline()
