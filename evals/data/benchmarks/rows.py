"""Rows of benchmark files: row models, data folders, errors by record, seeded samples and
demonstrations.

Demonstrations are made from a benchmark's own rows. A run tests the first rows of a seeded order
(all rows without a limit), and demonstrations come from its end. A row provides demonstrations only
if each edited subject has a name that occurs in no other row, and `retain` demonstrations only if
their prompt has such a name. A demonstration is then about nothing that another row edits or asks,
and an editor only has to exclude it for the row's own edits.
"""

import codecs
import gzip
import hashlib
import json
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

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

from emend.memory.edit import content_id
from emend.memory.errors import BadData, MissingData, problem_of
from emend.memory.files import open_file, read_file, without_mark
from emend.memory.json_files import parse_json

Text = Annotated[str, StringConstraints(min_length=1)]
# Maximum size in bytes of a decompressed file.
UNPACKED_LIMIT = 1 << 30
# Tags of a case or a probe.
Tags = dict[str, str | int | float | bool]
K = TypeVar("K", bound=Hashable)
# Tag of an out-of-scope probe that is asked verbatim by another case's edit, so that it is in scope
# if both are applied.
ASKED_BY_OTHER = "asked_by_other_edit"


def check_slot(prompt: str) -> str:
    """Return the prompt, if it has exactly one `{}` for the subject; other braces are text.

    Raises:
        ValueError: the prompt has no or several `{}`.
    """
    if prompt.count("{}") != 1:
        raise ValueError("exactly one {} expected")
    return prompt


ClozePrompt = Annotated[Text, AfterValidator(check_slot)]


def aliases_field(name: str) -> Any:
    """Return an optional field of aliases in both spellings: `answer_alias`, `answer_aliases`."""
    return Field((), validation_alias=AliasChoices(name, f"{name}es"))


class BenchmarkRow(BaseModel):
    """Base of the row models; fields that Emend does not use are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class NumberedRow(BenchmarkRow):
    """A row with the number that joins it to the rows of other files."""

    id: int


class WikidataEntity(BenchmarkRow):
    """A Wikidata entity: its id and its label, which the files call `str`."""

    label: Text = Field(validation_alias="str")
    id: str | None = None


class HopRow(BenchmarkRow):
    """One hop of a multi-hop question."""

    question: str
    answer: Text
    answer_alias: tuple[str, ...] = aliases_field("answer_alias")


class ChainTriples(BenchmarkRow):
    """Wikidata ids (subject, relation, object) of the hops after the record's edits, and of the
    edits themselves.
    """

    new_triples: tuple[tuple[str, str, str], ...]
    edit_triples: tuple[tuple[str, str, str], ...]
    new_triples_labeled: tuple[tuple[str, str, str], ...] = ()


def contaminated_ids(chains: Mapping[int, ChainTriples]) -> frozenset[int]:
    """Return ids of the rows with a hop, edited or not, that another row's edit changes to another
    object.
    """
    objects: dict[tuple[str, str], set[str]] = {}
    for orig in chains.values():
        for subject, relation, target in orig.edit_triples:
            objects.setdefault((subject, relation), set()).add(target)
    return frozenset(
        number
        for number, orig in chains.items()
        for subject, relation, target in orig.new_triples
        if objects.get((subject, relation), set()) - {target}
    )


def contested_keys(pairs: Iterable[tuple[K, str]]) -> frozenset[K]:
    """Return the keys that occur with different values."""
    values: dict[K, set[str]] = {}
    for key, value in pairs:
        values.setdefault(key, set()).add(value)
    return frozenset(key for key, several in values.items() if len(several) > 1)


def golds(answer: str, aliases: Iterable[str]) -> tuple[str, ...]:
    """Return the answer followed by the distinct aliases; blank aliases are dropped."""
    return tuple(dict.fromkeys([answer, *(alias for alias in aliases if alias.strip())]))


FETCH = "Fetch the file again."
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BETWEEN = re.compile(r"[,\s]*")
R = TypeVar("R", bound=BenchmarkRow)
N = TypeVar("N", bound=NumberedRow)


def data_folder(benchmark: str, folder: Path | None) -> Path:
    """Return the given folder, else `$EMEND_DATA/<benchmark>`, else `data/<benchmark>` in the
    working directory.
    """
    if folder is not None:
        return Path(folder).expanduser()
    return Path(os.environ.get("EMEND_DATA") or "data").expanduser() / benchmark


def require(folder: Path, files: Iterable[str], remedy: str) -> None:
    """Check that all files are in the folder.

    Raises:
        MissingData: the folder or files are missing; the error ends with the remedy.
    """
    names = list(files)
    if missing := [name for name in names if not (folder / name).is_file()]:
        if not folder.is_dir():
            raise MissingData(f"no folder '{folder}' with the files. {remedy}")
        raise MissingData(f"'{folder}' lacks {', '.join(missing)}. {remedy}")


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file as hex digits."""
    with open_file(path, links=True) as file:
        # typeshed asks for readinto
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def _unpacked(path: Path) -> bytes:
    """Return the bytes of a file, decompressed if its name ends in .gz.

    Raises:
        BadData: the file is not in gzip format, truncated, or too large when decompressed.
    """
    if path.suffix.lower() != ".gz":
        return read_file(path, links=True)
    with open_file(path, links=True) as file:
        try:
            with gzip.GzipFile(fileobj=file) as packed:
                content = packed.read(UNPACKED_LIMIT + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise BadData(
                f"{path.name} cannot be unpacked: {error}. Pack it again with gzip."
            ) from error
    if len(content) > UNPACKED_LIMIT:
        raise BadData(
            f"{path.name} is larger than {UNPACKED_LIMIT >> 20} MB unpacked: unpack it yourself."
        )
    return content


def read_text(path: Path, remedy: str = FETCH) -> str:
    """Read a text file, such as a prompt, in UTF-8, or in UTF-16 with a byte order mark, as written
    by Excel.

    Args:
        path: the file.
        remedy: last sentence of an error.

    Raises:
        BadData: the file has another encoding.
    """
    content = _unpacked(path)
    try:
        return without_mark(content).decode("utf-16" if content.startswith(UTF_16) else "utf-8")
    except UnicodeDecodeError as error:
        raise BadData(f"{path.name} is not UTF-8 text: {error}. {remedy}") from error


def read_rows(path: Path, row: type[R], remedy: str = FETCH) -> list[R]:
    """Read the rows of a JSON file, a list or `{"data": [...]}`, in the file's order.

    pydantic parses the bytes directly: a str with one character outside the basic multilingual
    plane takes four bytes per character, and twice as much memory during decoding.

    Args:
        path: the file.
        row: model of a record.
        remedy: last sentence of the error about a file that is truncated or has other content.

    Raises:
        BadData: the file is not JSON, not a list, or has an invalid record.
    """
    content = without_mark(read_file(path, links=True))
    wrapped = content.lstrip()[:1] == b"{"
    shape: Any = _Data[row] if wrapped else list[row]  # type: ignore[valid-type]
    adapter: TypeAdapter[Any] = TypeAdapter(shape)
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
        BadData: see `read_rows`; or an id is duplicate.
    """
    return {record.id: record for record in read_unique(path, row, "id")}


def read_unique(path: Path, row: type[R], field: str, remedy: str = FETCH) -> list[R]:
    """Read the rows of a JSON file, no two of which may have the same value of a field.

    Raises:
        BadData: see `read_rows`; or a value is duplicate.
    """
    rows, first = read_rows(path, row, remedy), dict[object, int]()
    for number, record in enumerate(rows):
        value = getattr(record, field)
        if first.setdefault(value, number) != number:
            raise BadData(
                f"{path.name}, record {number}, field '{field}': {value!r} occurs twice, first in "
                f"record {first[value]}. Remove one of the two records."
            )
    return rows


def _describe(path: Path, content: bytes, error: ValidationError, remedy: str) -> str:
    """Describe the first error by record, field and value."""
    first = error.errors(include_url=False)[0]
    if first["type"] == "json_invalid":
        text = content.decode("utf-8", "replace")
        records, position = whole_records(text)
        begins = (
            f"; record {len(records)} is incomplete, it begins {text[position : position + 60]!r}"
        )
        return (
            f"{path.name} is not valid JSON in UTF-8, or truncated: "
            f"{problem_of(first)}{begins if '[' in text else ''}. {remedy}"
        )
    number, *parts = [part for part in first["loc"] if part != "data"] or [""]
    if not isinstance(number, int):
        holds = type(parse_json(content, path.name)).__name__
        return (
            f"{path.name}: a list of records or {{'data': [...]}} expected, but it holds "
            f"{holds}. {remedy}"
        )
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    value = repr(first["input"])
    short = value if len(value) <= 80 else f"{value[:80]}..."
    return (
        f"{path.name}, record {number}, field '{field.lstrip('.')}': {problem_of(first)}; value "
        f"{short}. Correct the record or fetch the file again."
    )


def whole_records(text: str) -> tuple[list[object], int]:
    """Return the complete records of a truncated JSON list, and the position at which it breaks
    off.
    """
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
    if match := _BETWEEN.match(text, position):
        return position + len(match[0])
    return position


COT_PROMPT = "Question: {question}\nThoughts:"


def chain_fields(question: str, examples: str) -> dict[str, Any]:
    """Return the fields of a probe that asks for a chain of thought after solved examples, or
    directly if there are none.
    """
    if not examples:
        return {"prompt": question, "style": "question"}
    prompt = COT_PROMPT.format(question=question)
    return {
        "prompt": prompt,
        "style": "raw",
        "query": question,
        "examples": examples,
        "reading": "thoughts",
    }


def sample_ids(
    ids: Sequence[int], limit: int | None, seed: int, labels: Mapping[int, str] | None = None
) -> list[int]:
    """Sample `limit` ids in their order; with labels, half of them with a reasoning question, whose
    labels keep the data's proportion.

    The first half of DocTER's reasoning file is all True and the second all False, and ids above
    1060 have no question, so a prefix would measure nothing. From a limit of 2 on, both labels
    occur. If one half has too few ids, the other fills up. Ids are drawn by a hash of seed and id,
    not by their order.

    Args:
        ids: ids to draw from.
        limit: number of ids to draw; None for all.
        seed: random seed of the draw.
        labels: "True" or "False" by id, for ids with a reasoning question.
    """
    if limit is None or limit >= len(ids):
        return list(ids)
    labels = labels or {}
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


def sample_in_shares(
    rows: Sequence[N], group: Callable[[N], int], limit: int, seed: int
) -> list[N]:
    """Sample `limit` rows in their order, in proportion to the sizes of the groups
    (`proportional_shares`).
    """
    left = proportional_shares(Counter(map(group, rows)), limit)
    chosen: set[int] = set()
    for row in sorted(rows, key=lambda row: content_id("sample", seed, row.id)):
        if left[group(row)]:
            left[group(row)] -= 1
            chosen.add(row.id)
    return [row for row in rows if row.id in chosen]


def sample_by_rank(rows: Sequence[N], group: Callable[[N], int], limit: int, seed: int) -> list[N]:
    """Sample `limit` rows in their order, drawn by their relative rank within a shuffle of their
    group.

    A smaller limit draws a subset of the same rows, which `sample_in_shares` does not guarantee.
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
    """Return the ids in the reverse order of a sample: first those that a growing limit draws
    last.
    """
    return sorted(ids, key=lambda number: content_id("sample", seed, number), reverse=True)
