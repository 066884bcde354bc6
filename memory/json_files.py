"""Parsing of JSON files, and a check of YAML, that may be damaged or hostile; errors name the file
and line.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from emend.memory.errors import BadData
from emend.memory.files import open_lines, read_file, without_mark

# Maximum nesting. Python's recursion limit is 1,000, and values are also copied, shown and
# serialised.
DEPTH_LIMIT = 200
# Maximum number of digits of an integer; Python parses at most 4,300, and no field of Emend needs
# more than 20.
DIGITS_LIMIT = 40
# Half of a surrogate pair, as in replies that a token limit cuts inside an escaped emoji.
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
# Byte-order marks of UTF-16.
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


class LinePlace(NamedTuple):
    """A position between two lines of a file: its offset in bytes, and the number of lines before
    it.
    """

    offset: int
    lines: int


BEGINNING = LinePlace(0, 0)


class JsonLine(NamedTuple):
    """An object of a JSON-lines file, with its line number from 1, its start offset in bytes and
    its end.
    """

    number: int
    offset: int
    end: int
    fields: Any


def parse_json(
    content: bytes | str,
    where: str,
    *,
    constants: bool = False,
    pairs: Callable[[list[tuple[str, Any]]], Any] | None = None,
) -> Any:
    """Parse JSON in UTF-8; lone surrogates, which are not valid text, are replaced by U+FFFD.

    Args:
        content: the JSON.
        where: file and line, for the error.
        constants: accept `NaN`, `Infinity` and `-Infinity`, which Python writes although they are
            not JSON.
        pairs: builds the value of each object, as `object_pairs_hook`; cannot be combined with
            `constants`.

    Raises:
        BadData: it is not JSON, not UTF-8, nested too deeply, or has a number that is too large.
    """
    raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    decoder = _LENIENT if constants else _STRICT
    if pairs:
        decoder = json.JSONDecoder(object_pairs_hook=pairs, **_NUMBERS)
    try:
        value = decoder.decode(_text_of(raw))
        if raw.count(b"[") + raw.count(b"{") > DEPTH_LIMIT and is_too_deep(value):
            raise RecursionError
        return replace_in_all(value) if _ESCAPED_SURROGATE.search(raw) else value
    except RecursionError as error:
        raise BadData(
            f"{where}: nested more than {DEPTH_LIMIT} levels deep, which is not supported."
        ) from error
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if b"\n" in raw.strip() else ""
        raise BadData(
            f"{where}: not valid JSON ({error.msg} at {line}column {error.colno})."
        ) from error
    except ValueError as error:
        raise BadData(f"{where}: {error}.") from error


def check_yaml(text: str, where: str, loader: Any) -> None:
    """Check that YAML has no aliases, by which a short file may expand without bound, and is not
    nested so deeply that parsing takes minutes.

    Args:
        text: the YAML.
        where: the file, for the error.
        loader: a loader class of PyYAML.

    Raises:
        BadData: it has aliases, or is nested too deeply.
        YAMLError: it is not YAML.
    """
    import yaml

    depth = 0
    for event in yaml.parse(text, loader):
        if isinstance(event, yaml.AliasEvent):
            raise BadData(
                f"{where} has aliases (*NAME), which are not supported: write the text out."
            )
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > DEPTH_LIMIT:
            raise BadData(
                f"{where}: nested more than {DEPTH_LIMIT} levels deep, which is not supported."
            )


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object and reject duplicate keys; for `pairs` of `parse_json`.

    Raises:
        ValueError: a key occurs twice, so that one of its values would be lost silently.
    """
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise ValueError(f"the key '{name:.60}' occurs twice: remove or rename one")
        fields[name] = value
    return fields


def read_json(path: Path, *, links: bool = False) -> Any:
    """Read a file that holds one JSON value.

    Args:
        path: the file.
        links: see `open_file`.

    Raises:
        BadData: it is not a regular file or is too large, or `parse_json` raises it.
        OSError: it does not exist, or cannot be read.
    """
    return parse_json(read_file(path, links=links), str(path))


def parse_lines(
    path: Path,
    on_damage: Callable[[BadData], None] | None = None,
    *,
    links: bool = False,
    parse: Callable[[bytes, str], Any] | None = None,
    start: LinePlace = BEGINNING,
) -> Iterator[JsonLine]:
    """Yield the objects of a JSON-lines file, reading one line at a time; none if the file is
    missing.

    A last line without a line end was interrupted while being written and is skipped. If
    `on_damage` is given, unreadable lines are skipped too.

    Args:
        path: the file.
        on_damage: called with the error of an unreadable line, which is then skipped; None raises
            the error.
        links: see `open_file`.
        parse: parses a line or raises BadData; by default `parse_object`.
        start: the position at which reading starts.

    Raises:
        BadData: while iterating: it is not a regular file, a line is too long, or a line is not a
            JSON object; names file and line.
    """
    end = start.offset
    try:
        file = open_lines(path, links=links)
    except FileNotFoundError:
        return
    with file:
        file.seek(end)
        for number, line in enumerate(file, start.lines + 1):
            offset, end = end, end + len(line)
            if not line.endswith(b"\n"):
                return
            try:
                fields = (parse or parse_object)(line, f"{path}, line {number}")
            except BadData as error:
                if on_damage is None:
                    raise
                on_damage(error)
            else:
                yield JsonLine(number, offset, end, fields)


def value_lines(
    text: str, name: str, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None
) -> Iterator[tuple[str, Any]]:
    """Yield the JSON values of lines, each after its position; blank lines are skipped.

    Args:
        text: the lines, which may contain other line separators, such as U+2028.
        name: name of the file, for positions.
        pairs: see `parse_json`.

    Raises:
        BadData: while iterating: a line is not JSON; names file and line.
    """
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            place = f"{name}, line {number}"
            yield place, parse_json(line, place, pairs=pairs)


def parse_object(content: bytes | str, where: str) -> dict[str, Any]:
    """Parse one JSON object, which may have constants (see `parse_json`).

    Raises:
        BadData: `parse_json` raises it, or the value is not an object.
    """
    value = parse_json(content, where, constants=True)
    if not isinstance(value, dict):
        raise BadData(f"{where}: an object in braces is expected, got {json.dumps(value)[:60]}.")
    return value


def replace_surrogates(text: str) -> str:
    r"""Replace each lone surrogate, which UTF-8 cannot encode, by U+FFFD, and join surrogate pairs.

    >>> replace_surrogates("a\ud800b") == "a\ufffdb" and replace_surrogates("\ud83d\ude42") == "🙂"
    True
    """
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def replace_in_all(value: Any) -> Any:
    """Apply `replace_surrogates` to all texts in a JSON value."""
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, dict):
        return {replace_surrogates(name): replace_in_all(part) for name, part in value.items()}
    return [replace_in_all(part) for part in value] if isinstance(value, list) else value


def _text_of(raw: bytes) -> str:
    if raw.startswith(_UTF_16):
        raise ValueError("it begins with a UTF-16 byte order mark: save the file as UTF-8")
    raw = without_mark(raw)
    if b"\0" in raw:
        raise ValueError(
            "it contains NUL bytes, as in UTF-16 or in a file that was not written completely"
        )
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"byte {error.start + 1}, in line {line}, is not UTF-8 ({error.reason})"
        ) from error


def _bounded_int(digits: str) -> int:
    if len(digits) > DIGITS_LIMIT:
        raise ValueError(
            f"an integer of {len(digits)} digits, more than the limit of {DIGITS_LIMIT}"
        )
    return int(digits)


def _finite_float(text: str) -> float:
    if abs(number := float(text)) == float("inf"):
        raise ValueError(f"the number {text[:40]} is too large")
    return number


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not valid JSON: write a number, or null")


def is_too_deep(value: Any) -> bool:
    """Return whether parsed JSON is nested more than `DEPTH_LIMIT` levels deep."""
    level, depth = [value], 0
    while level := [part for outer in level for part in _parts(outer)]:
        depth += 1
        if depth >= DEPTH_LIMIT:
            return True
    return False


def _parts(value: Any) -> list[Any]:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [part for part in parts if isinstance(part, (dict, list))]


_NUMBERS: dict[str, Any] = {
    "parse_int": _bounded_int,
    "parse_float": _finite_float,
    "parse_constant": _refuse_constant,
}
_STRICT, _LENIENT = (
    json.JSONDecoder(**_NUMBERS),
    json.JSONDecoder(**_NUMBERS | {"parse_constant": None}),
)
