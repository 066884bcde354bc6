"""Rows of a benchmark's files: row models, the data folder, errors by record, seeded samples and demonstrations.

Demonstrations are a benchmark's own rows. A run tests the first rows of a seeded order (all of them without a limit),
so that those at its end are tested last of all. A row gives demonstrations only if each subject that it edits has a
name that occurs in no other row, and one that is to be retained only if its prompt has such a name: it is then about
nothing that another row edits or asks, and an editor has to look after the row's own edits alone.
"""

import codecs
import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Generic, Self, TypeVar

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)

from emend.editors.base import Demonstration
from emend.memory.edit import content_id
from emend.memory.errors import BadData, MissingData
from emend.memory.files import open_file, without_mark
from emend.memory.json_files import parse_json

Text = Annotated[str, StringConstraints(min_length=1)]
Tags = dict[str, str | int | float | bool]
"""Tags of a case or a probe."""
K = TypeVar("K", bound=Hashable)
ASKED_BY_OTHER = "asked_by_other_edit"
"""Tag of a probe out of scope that another case's edit asks verbatim: with both applied, it is not out of scope."""


def check_slot(prompt: str) -> str:
    """Return the prompt, if it has exactly one `{}` for the subject; other braces are text.

    Raises:
        ValueError: it has none or several.
    """
    if prompt.count("{}") != 1:
        raise ValueError("exactly one {} expected")
    return prompt


ClozePrompt = Annotated[Text, AfterValidator(check_slot)]


def aliases_field(name: str) -> AliasChoices:
    """Both spellings of a field of aliases: `answer_alias`, `answer_aliases`."""
    return AliasChoices(name, f"{name}es")


class BenchmarkRow(BaseModel):
    """Base of the row models; fields that Emend does not use are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class NumberedRow(BenchmarkRow):
    """A row with the number that joins it to the rows of other files."""

    id: int


class WikidataEntity(BenchmarkRow):
    """A Wikidata entity: its label, which the files call `str`, and its id."""

    label: Text = Field(validation_alias="str")
    id: str | None = None


class HopRow(BenchmarkRow):
    """One hop of a multi-hop question."""

    question: str
    answer: Text
    answer_alias: tuple[str, ...] = Field((), validation_alias=aliases_field("answer_alias"))


class ChainTriples(BenchmarkRow):
    """Wikidata ids (subject, relation, object) of the hops after the record's edits, and of these edits."""

    new_triples: tuple[tuple[str, str, str], ...]
    edit_triples: tuple[tuple[str, str, str], ...]
    new_triples_labeled: tuple[tuple[str, str, str], ...] = ()


def contaminated_ids(chains: Mapping[int, ChainTriples]) -> frozenset[int]:
    """Ids of the rows with a hop, edited or not, to which another row's edit gives another object."""
    objects: dict[tuple[str, str], set[str]] = {}
    for orig in chains.values():
        for subject, relation, target in orig.edit_triples:
            objects.setdefault((subject, relation), set()).add(target)
    return frozenset(
        number
        for number, orig in chains.items()
        if any(objects.get((subject, relation), set()) - {target} for subject, relation, target in orig.new_triples)
    )


def contested_keys(pairs: Iterable[tuple[K, str]]) -> frozenset[K]:
    """The keys that occur with different values."""
    values: dict[K, set[str]] = {}
    for key, value in pairs:
        values.setdefault(key, set()).add(value)
    return frozenset(key for key, several in values.items() if len(several) > 1)


def golds(answer: str, aliases: Iterable[str]) -> tuple[str, ...]:
    """The answer, then each alias once; blank aliases are dropped."""
    return tuple(dict.fromkeys([answer, *(alias for alias in aliases if alias.strip())]))


FETCH = "Fetch the file again."
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BETWEEN = re.compile(r"[,\s]*")
R = TypeVar("R", bound=BenchmarkRow)
N = TypeVar("N", bound=NumberedRow)


def data_folder(benchmark: str, folder: Path | None) -> Path:
    """Return the given folder, else `$EMEND_DATA/<benchmark>`, else `data/<benchmark>` in the working folder."""
    if folder is not None:
        return Path(folder).expanduser()
    return Path(os.environ.get("EMEND_DATA") or "data").expanduser() / benchmark


def require(folder: Path, files: Iterable[str], remedy: str) -> None:
    """Check that all files are in the folder.

    Raises:
        MissingData: some are not; names them and ends with the remedy.
    """
    names = list(files)
    if missing := [name for name in names if not (folder / name).is_file()]:
        what = f"no folder '{folder}'" if not folder.is_dir() else f"'{folder}' lacks {', '.join(missing)}"
        raise MissingData(f"{what}; needed: {', '.join(names)}. {remedy}")


def sha256(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with open_file(path, links=True) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # typeshed asks for readinto


def read_text(path: Path, remedy: str = FETCH) -> str:
    """Read a text in UTF-8, such as a prompt, or in UTF-16 with its mark, as Excel writes one.

    Args:
        path: the file.
        remedy: ends the error.

    Raises:
        BadData: it is no such text.
    """
    with open_file(path, links=True) as file:
        content = file.read()
    try:
        return without_mark(content).decode("utf-16" if content.startswith(UTF_16) else "utf-8")
    except UnicodeDecodeError as error:
        raise BadData(f"{path.name} is not a text in UTF-8: {error}. {remedy}") from error


def read_rows(path: Path, row: type[R], remedy: str = FETCH) -> list[R]:
    """Read the rows of a JSON file, a list or `{"data": [...]}`, in the file's order.

    pydantic parses the bytes directly: as a str, a file with one character beyond the basic plane would take four bytes
    per character, and as much again while it is decoded.

    Args:
        path: the file.
        row: the model of a record.
        remedy: ends the error about a file that is cut off or holds something else.

    Raises:
        BadData: not JSON, not a list, or a record that does not validate.
    """
    with open_file(path, links=True) as file:
        content = without_mark(file.read())
    wrapped = content.lstrip()[:1] == b"{"
    adapter: TypeAdapter[Any] = TypeAdapter(_Data[row] if wrapped else list[row])  # type: ignore[valid-type]
    try:
        parsed = adapter.validate_json(content)
    except ValidationError as error:
        raise BadData(_describe(path, content, error, remedy)) from error
    rows: list[R] = parsed.data if wrapped else parsed
    return rows


class _Data(BaseModel, Generic[R]):
    data: list[R]


def read_numbered(path: Path, row: type[N]) -> dict[int, N]:
    """Read the rows of a JSON file by their ids.

    Raises:
        BadData: as in `read_rows`, or an id occurs twice.
    """
    rows: dict[int, N] = {}
    for number, record in enumerate(read_rows(path, row)):
        if record.id in rows:
            first = list(rows).index(record.id)
            raise BadData(
                f"{path.name}, record {number}, field 'id': {record.id} occurs twice, first in record {first}. "
                "Remove one of the two records."
            )
        rows[record.id] = record
    return rows


def _describe(path: Path, content: bytes, error: ValidationError, remedy: str) -> str:
    """Describe the first error by record, field and value."""
    first = error.errors(include_url=False)[0]
    if first["type"] == "json_invalid":
        text = content.decode("utf-8", "replace")
        records, position = whole_records(text)
        begins = f"; record {len(records)} is not whole, it begins {text[position : position + 60]!r}"
        return f"{path.name} is not JSON in UTF-8, or cut off: {first['msg']}{begins if '[' in text else ''}. {remedy}"
    number, *parts = [part for part in first["loc"] if part != "data"] or [""]
    if not isinstance(number, int):
        holds = type(parse_json(content, path.name)).__name__
        return f"{path.name}: a list of records or {{'data': [...]}} expected, but it holds {holds}. {remedy}"
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    value = repr(first["input"])
    short = value if len(value) <= 80 else f"{value[:80]}..."
    return (
        f"{path.name}, record {number}, field '{field.lstrip('.')}': {first['msg']}; value {short}. "
        "Correct the record or fetch the file again."
    )


def whole_records(text: str) -> tuple[list[object], int]:
    """Return the records of a JSON list before the position at which it breaks off, and that position."""
    records: list[object] = []
    decoder, position = json.JSONDecoder(), _skip(text, text.find("[") + 1)
    while 0 < position < len(text):
        try:
            record, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            break
        records.append(record)
        position = _skip(text, end)
    return records, position


def _skip(text: str, position: int) -> int:
    """Return the position at which the next record begins."""
    return position + len(match[0]) if (match := _BETWEEN.match(text, position)) else position


COT_PROMPT = "Question: {question}\nThoughts:"


def chain_fields(question: str, examples: str) -> dict[str, Any]:
    """The fields of a probe that asks for a chain of thought after solved examples; without any, it asks directly."""
    if not examples:
        return {"prompt": question, "style": "question"}
    prompt = COT_PROMPT.format(question=question)
    return {"prompt": prompt, "style": "raw", "query": question, "examples": examples, "reading": "thoughts"}


def sample_ids(ids: Sequence[int], labels: Mapping[int, str], limit: int, seed: int) -> list[int]:
    """`limit` ids, in their order: half with a reasoning question, its labels in the proportion of the data.

    The first half of DocTER's reasoning file is all True and the second all False, and ids above 1060 have no question,
    so a prefix would measure nothing. From a limit of 2 on, both labels occur. Where one half has too few ids, the
    other fills up. A hash of seed and id decides which ids are drawn, not their order.

    Args:
        ids: those to draw from.
        labels: id -> "True" or "False", for the ids that have a reasoning question.
        limit: number of ids to draw.
        seed: random seed of the draw.
    """
    if limit >= len(ids):
        return list(ids)
    order = sorted(ids, key=lambda number: content_id("sample", seed, number))
    plain = [number for number in order if number not in labels]
    true = [number for number in order if labels.get(number) == "True"]
    false = [number for number in order if labels.get(number) == "False"]
    both = len(true) + len(false)
    labelled = min(both, limit, max(2, (limit + 1) // 2, limit - len(plain)))
    falses = round(labelled * len(false) / both) if both else 0
    if true and false and labelled >= 2:
        falses = min(max(falses, 1), labelled - 1)
    chosen = {*true[: labelled - falses], *false[:falses], *plain[: limit - labelled]}
    return [number for number in ids if number in chosen]


def sample_in_shares(rows: Sequence[N], group: Callable[[N], int], limit: int, seed: int) -> list[N]:
    """`limit` rows in their order; each group has its share of them (`proportional_shares`)."""
    left = proportional_shares(Counter(map(group, rows)), limit)
    chosen: set[int] = set()
    for row in sorted(rows, key=lambda row: content_id("sample", seed, row.id)):
        if left[group(row)]:
            left[group(row)] -= 1
            chosen.add(row.id)
    return [row for row in rows if row.id in chosen]


def sample_by_rank(rows: Sequence[N], group: Callable[[N], int], limit: int, seed: int) -> list[N]:
    """`limit` rows in their order, drawn by their relative rank within a shuffle of their group.

    A smaller limit draws a part of the same rows, which `sample_in_shares` does not promise.
    """
    groups: dict[int, list[N]] = {}
    for row in sorted(rows, key=lambda row: content_id("sample", seed, row.id)):
        groups.setdefault(group(row), []).append(row)
    ranked = sorted(
        ((rank + 0.5) / len(members), key, row.id)
        for key, members in groups.items()
        for rank, row in enumerate(members)
    )
    chosen = {number for _, _, number in ranked[:limit]}
    return [row for row in rows if row.id in chosen]


def proportional_shares(sizes: Mapping[int, int], limit: int) -> dict[int, int]:
    """Divide `limit` among groups in proportion to their sizes, the largest remainders first."""
    total = sum(sizes.values())
    exact = {name: limit * size / total for name, size in sizes.items()}
    shares = {name: int(share) for name, share in exact.items()}
    order = sorted(sizes, key=lambda name: (shares[name] - exact[name], name))
    for name in order[: limit - sum(shares.values())]:
        shares[name] += 1
    return shares


def even_shares(sizes: Mapping[str, int], limit: int) -> dict[str, int]:
    """Divide `limit` among groups as evenly as their sizes allow.

    >>> even_shares({"a": 1, "b": 9, "c": 9}, 6)
    {'a': 1, 'b': 3, 'c': 2}
    """
    shares = dict.fromkeys(sizes, 0)
    left = min(limit, sum(sizes.values()))
    while left:
        for name, size in sizes.items():
            if left and shares[name] < size:
                shares[name] += 1
                left -= 1
    return shares


def last_drawn(ids: Iterable[int], seed: int) -> list[int]:
    """The ids in the reverse order of a sample: those first that a growing limit draws last."""
    return sorted(ids, key=lambda number: content_id("sample", seed, number), reverse=True)


ROWS = 100
"""Number of rows that give demonstrations. Papers publish thousands; these are embedded at once, and the nearest of
100 are near."""
Row = TypeVar("Row")
_WORD = re.compile(r"\w+")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


class DemonstrationPool(tuple[Demonstration, ...]):
    """Hand-written demonstrations, about nothing that is tested, and behind them those of the data's own rows.

    Without a limit these rows are among the tested ones: only an editor that shows none of an applied edit may ask for
    them (`editors.memory_based.demonstration_pool.RowDemonstrations`).
    """

    _make: Callable[[], Iterable[Demonstration]]

    @classmethod
    def of(cls, written: Iterable[Demonstration], rows: Callable[[], Iterable[Demonstration]]) -> Self:
        """Pool of the written demonstrations and a function that makes the others on demand."""
        pool = cls(written)
        pool._make = rows
        return pool

    def rows(self) -> Sequence[Demonstration]:
        """Demonstrations from the data's own rows, made at the first call."""
        return self._rows

    @cached_property
    def _rows(self) -> tuple[Demonstration, ...]:
        return tuple(self._make())


class UniqueNames:
    """Words that occur in one row only.

    Args:
        rows: the texts of each row that name whom it edits and what it asks.
        occurrences: number of these rows that hold an eligible row's names: 1, or 0 for rows of another file.
    """

    def __init__(self, rows: Iterable[Iterable[str]], occurrences: int = 1) -> None:
        self._occurrences = occurrences
        self._rows: Counter[str] = Counter()
        for texts in rows:
            self._rows.update({word for text in texts for word in _WORD.findall(text)})

    def has(self, name: str) -> bool:
        """Return True if the name has a capitalised word that no other row has."""
        return any(word[0].isupper() and self._rows[word] == self._occurrences for word in _WORD.findall(name))

    def has_in(self, prompt: str) -> bool:
        """Return True if the prompt has such a word, other than the capitalised first word of a sentence."""
        sentences = _SENTENCE.split(prompt)
        return any(self.has(rest) for _, _, rest in (sentence.strip().partition(" ") for sentence in sentences))

    def has_all(self, subjects: Iterable[str]) -> bool:
        """Return True if every subject has such a word."""
        return all(map(self.has, subjects))


def eligible(examples: Iterable[Demonstration], names: UniqueNames) -> list[Demonstration]:
    """The first demonstration of each kind; one to be retained only if its prompt has a unique name."""
    first: dict[str, Demonstration] = {}
    for example in examples:
        if example.kind not in first and (example.kind != "retain" or names.has_in(example.prompt)):
            first[example.kind] = example
    return list(first.values())


def of_unique_rows(
    rows: Mapping[int, Row],
    seed: int,
    texts: Callable[[Row], Iterable[str]],
    subjects: Callable[[Row], Iterable[str]],
    examples: Callable[[Row], Iterable[Demonstration]],
    ids: Iterable[int] = (),
) -> Iterator[Demonstration]:
    """The eligible demonstrations of the rows drawn last whose subjects all have a unique name.

    Args:
        rows: by id.
        seed: random seed of the draw.
        texts: those of a row that name whom it edits and what it asks.
        subjects: whom a row edits.
        examples: the demonstrations of a row.
        ids: of the rows to draw from; all where none is given.
    """
    names = UniqueNames(map(texts, rows.values()))
    drawn = (rows[number] for number in last_drawn(ids or rows, seed))
    return of_first_rows(eligible(examples(row), names) for row in drawn if names.has_all(subjects(row)))


def of_first_rows(groups: Iterable[Sequence[Demonstration]], rows: int = ROWS) -> Iterator[Demonstration]:
    """The demonstrations of the first `rows` rows that have any."""
    count = 0
    for group in groups:
        if group:
            yield from group
            count += 1
        if count == rows:
            return
