"""Rows of numbers about answers and cases, made of many at once."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from hashlib import blake2b
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emend.evals.case import Metric, Record
from emend.evals.log.records import FileLine
from emend.evals.log.run_index import hash_key
from emend.evals.show.trace.answers import VERDICTS, deciding_scores, verdict_of

MAX_NAMES = 2**16 - 1
"""Number of distinct names of a kind; further ones have this number, and are not filtered by."""
RIGHT, WRONG, UNSCORED = range(3)
LACKS_SCORE, RETRIED, CUT, MISSED, FOUND = 1, 2, 4, 8, 16
"""Flags of an answer: a value is unscored, a call was retried, the prompt was cut, and whether `hit@1` is 0 or 1."""
HIT = "hit@1"
ROW = np.dtype(
    [
        ("case", "i8"),
        ("unit", "i8"),
        ("probe", "i8"),
        ("start", "i8"),
        ("seconds", "f4"),
        ("tokens", "u4"),
        ("checkpoint", "u4"),
        ("repeat", "u2"),
        ("editor", "u2"),
        ("kind", "u2"),
        ("setting", "u2"),
        ("tags", "u2"),
        ("verdict", "u1"),
        ("flags", "u1"),
    ]
)
CASE_ROW = np.dtype([("case", "i8"), ("start", "i8"), ("number", "u4"), ("setting", "u2"), ("tags", "u2")])
Rows = NDArray[np.void]


class UnitLines(NamedTuple):
    """A unit's records, the offsets where their lines begin and the last one ends, and the number of the first line."""

    records: Sequence[Record]
    offsets: Sequence[int]
    number: int


class _Places(dict[str, int]):
    """Numbers for the names of a kind, in the order in which they come."""

    def __init__(self, kind: str, names: "Names") -> None:
        super().__init__()
        self._kind, self._names = kind, names

    def __missing__(self, name: str) -> int:
        """Number of a new name, which is added."""
        if len(self) >= MAX_NAMES:
            return MAX_NAMES
        self._names.new.append((self._kind, len(self), name))
        return self.add(name)

    def add(self, name: str) -> int:
        place = self[name] = len(self)
        self._names.by_kind[self._kind].append(name)
        return place


class Names:
    """Names of editors, kinds, settings and sets of tags, and the numbers that stand for them.

    Args:
        rows: names that were kept, with their kind and number, in the order of numbers.
    """

    def __init__(self, rows: Sequence[tuple[str, int, str]] = ()) -> None:
        self.by_kind: dict[str, list[str]] = {"editor": [], "kind": [], "setting": [], "tags": []}
        self.new: list[tuple[str, int, str]] = []
        self._places = {kind: _Places(kind, self) for kind in self.by_kind}
        for kind, _, name in rows:
            self._places[kind].add(name)

    def __getitem__(self, kind: str) -> list[str]:
        return self.by_kind[kind]

    def numbers(self, kind: str, names: Iterable[str]) -> list[int]:
        """Numbers of names; those that are new are added."""
        return list(map(self._places[kind].__getitem__, names))


class AnswerRows:
    """Makes rows of records.

    Args:
        names: that the rows' numbers stand for.
        metrics: of the run, which decide what is right.
    """

    def __init__(self, names: Names, metrics: Sequence[Metric]) -> None:
        self._names = names
        self._deciding = cache(lambda kind: deciding_scores(metrics, kind))

    def rows(self, units: Sequence[UnitLines]) -> Rows:
        """The rows of all records of units."""
        records = [record for unit in units for record in unit.records]
        rows: Rows = np.empty(len(records), ROW)
        sizes = [len(unit.records) for unit in units]
        rows["unit"] = np.repeat([hash_key(unit.records[0].unit.encode()) for unit in units], sizes)
        rows["start"] = [start for unit in units for start in unit.offsets[:-1]]
        rows["case"] = [case_hash(record.setting, record.case) for record in records]
        digests = [blake2b(record.probe.encode(), digest_size=8).digest() for record in records]
        rows["probe"] = np.frombuffer(b"".join(digests), ">i8")  # as `hash_key`, in less time
        with np.errstate(over="ignore"):
            rows["seconds"] = [record.seconds for record in records]
        usages = [record.usage for record in records]
        rows["tokens"] = _clipped([usage.input_tokens + usage.output_tokens for usage in usages], 2**32 - 1)
        rows["checkpoint"] = _clipped([record.checkpoint for record in records], 2**32 - 1)
        rows["repeat"] = _clipped([record.repeat for record in records], 2**16 - 1)
        for kind in ("editor", "kind", "setting"):
            rows[kind] = self._names.numbers(kind, map(attrgetter(kind), records))
        rows["tags"] = self._names.numbers("tags", map(tags_text, [record.tags for record in records]))
        verdicts = [verdict_of(self._deciding(each.kind), each.values, each.unscored) for each in records]
        rows["verdict"] = list(map(VERDICTS.index, verdicts))
        rows["flags"] = _flags(records)
        return rows


def _flags(records: Sequence[Record]) -> NDArray[np.uint8]:
    lacks = np.array([bool(record.unscored) for record in records], bool)
    retried = np.array([record.usage.retries > 0 for record in records], bool)
    cut = np.array([record.cut_tokens > 0 for record in records], bool)
    hits = np.array([record.values.get(HIT, np.nan) for record in records], float)
    flags = LACKS_SCORE * lacks + RETRIED * retried + CUT * cut + FOUND * (hits >= 1) + MISSED * (hits < 1)
    return np.asarray(flags, np.uint8)


def _clipped(numbers: Sequence[int], most: int) -> Any:
    try:
        return np.clip(np.array(numbers, np.int64), 0, most)
    except OverflowError:
        return [min(most, max(0, number)) for number in numbers]


def case_rows(cases: Sequence[Mapping[str, Any]], lines: Sequence[FileLine], names: Names) -> Rows:
    """The rows of cases on those lines."""
    rows: Rows = np.empty(len(cases), CASE_ROW)
    rows["case"] = [case_hash(case["setting"], case["case"]) for case in cases]
    rows["start"] = [line.start for line in lines]
    rows["number"] = _clipped([case["number"] for case in cases], 2**32 - 1)
    rows["setting"] = names.numbers("setting", [case["setting"] for case in cases])
    rows["tags"] = names.numbers("tags", [tags_text(case.get("tags", {})) for case in cases])
    return rows


@lru_cache(256)
def case_hash(setting: str, case: str) -> int:
    """Number by which a case of a setting is found."""
    return hash_key(f"{setting}\0{case}".encode(errors="replace"))


def tags_text(tags: Mapping[str, Any]) -> str:
    """Tags as lines of `name=value`."""
    return "\n".join(f"{name}={value}" for name, value in tags.items()) if tags else ""


def join_texts(texts: Sequence[str]) -> bytes:
    """Texts in lower case, with a zero byte after each."""
    whole = "\0".join([*texts, ""])
    if whole.count("\0") > len(texts):
        whole = "\0".join([*(text.replace("\0", " ") for text in texts), ""])
    return whole.encode(errors="replace")
