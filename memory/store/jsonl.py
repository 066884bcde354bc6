"""Edits as JSON lines, or as an array of JSON objects: all fields of `Edit`, or one of three short forms."""

import json
from collections.abc import Iterable, Iterator
from json import JSONDecodeError
from typing import Any

from pydantic import ValidationError

from emend.memory.edit import Edit, Triplet
from emend.memory.errors import BadData
from emend.memory.json_files import parse_json
from emend.memory.store.rows import make_entries
from emend.memory.store.superseding import parse_time

FORMS = '{"subject", "relation", "object"}, {"document"}, {"event", "time"}, or an edit with "form" and "text"'
TRIPLET = ("subject", "relation", "object")
IMPLIED = ("triplets", "target_new")


def read_text(text: str, name: str) -> list[Edit]:
    """All edits of a file: lines as in `read_edits`, or one JSON array of such objects.

    Raises:
        BadData: see `read_edits`; items of an array are named instead of lines.
    """
    lines = text.split("\n")
    if not text.lstrip().startswith("["):
        return read_edits(lines, name)
    try:
        items = parse_json(text, name, pairs=_once)
    except BadData as error:
        if not isinstance(error.__cause__, JSONDecodeError):
            raise
        if error.__cause__.msg == "Extra data":  # an array per line, or text behind one: name the line
            return read_edits(lines, name)
        raise BadData(
            f"{name} begins as a JSON array, {text.strip()[:60]!r}, and is none ({error.__cause__}): correct it, or "
            f"write one JSON object per line, {FORMS}."
        ) from error
    return [_edit(item, f"{name}, item {number}") for number, item in enumerate(items, 1)]


def read_edits(lines: Iterable[str], name: str) -> list[Edit]:
    """All edits of a file, in its order; blank lines are skipped.

    Args:
        lines: those of the file.
        name: the file's name in messages.

    Raises:
        BadData: a line is no JSON object, repeats a field, has fields that its form does not have, has only blank text,
            or has a time that is not ISO 8601; names file, line and field.
    """
    places = ((line, f"{name}, line {number}") for number, line in enumerate(lines, 1) if line.strip())
    return [_edit(_parsed_line(line, place), place) for line, place in places]


def _edit(fields: Any, place: str) -> Edit:
    """The edit of a line or item; errors name its place."""
    try:
        if not isinstance(fields, dict):
            raise BadData(f"no JSON object but {_short(fields)}: write one of {FORMS}.")
        return edit_from(fields)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "edit"
        value = "" if first["type"] in ("missing", "extra_forbidden") else f", got {first['input']!r:.60}"
        raise BadData(f"{place}, field '{field}': {first['msg']}{value}. Known are {FORMS}.") from error
    except BadData as error:
        raise BadData(f"{place}: {error}") from error


def edit_from(fields: dict[str, Any]) -> Edit:
    """The edit of one JSON object.

    Raises:
        BadData: it has no known form, only blank text, or a time that is not ISO 8601.
        ValidationError: a field is unknown or of the wrong type.
    """
    time = fields.get("time")
    if time is not None and not isinstance(time, str):
        raise BadData(f"field 'time' is not a text but {_short(time)}: {_in_quotes(time)}.")
    if "form" in fields:
        edit = Edit.model_validate(fields)
    elif "subject" in fields or "object" in fields or "relation" in fields:
        edit = _from_triplet(dict(fields))
    elif "document" in fields or "event" in fields:
        edit = _from_text(dict(fields))
    else:
        raise BadData(f"{_names(fields)}: this is no edit. Known are {FORMS}.")
    if not make_entries(edit):
        raise BadData("the text is blank: there is nothing to store.")
    if edit.time is not None and parse_time(edit.time) is None:
        raise BadData(f"time '{edit.time}' is not ISO 8601: write for example 2026, 2026-05 or 2026-05-31.")
    return edit


def dump_lines(edits: Iterable[Edit]) -> Iterator[str]:
    """JSON lines without default values; `read_edits` returns the same edits."""
    for edit in edits:
        yield json.dumps(edit.model_dump(mode="json", exclude_defaults=True), ensure_ascii=False) + "\n"


def _from_triplet(fields: dict[str, Any]) -> Edit:
    _refuse_other_than_text(fields, *TRIPLET, "prompt")
    if blank := [part for part in TRIPLET if not (fields.get(part) or "").strip()]:
        raise BadData(f"field '{blank[0]}' is missing or blank: a fact needs subject, relation and object.")
    if implied := [name for name in IMPLIED if name in fields]:
        raise BadData(f"field '{implied[0]}' is implied by subject, relation and object: leave it out.")
    prompt = fields.get("prompt")
    if prompt and (count := prompt.count("{}")) != 1:
        raise BadData(f"prompt {prompt!r} has {count or 'no'} {{}} in place of the subject: write one.")
    triplet = Triplet.model_validate({key: fields.pop(key) for key in tuple(fields) if key in Triplet.model_fields})
    if prompt and "text" not in fields:
        return Edit.from_triplet(triplet, fields.pop("prompt"), **fields)
    defaults = {"text": triplet.text, "subject": triplet.subject, "target_new": triplet.object}
    return Edit.model_validate({"form": "triplet", "triplets": (triplet,)} | defaults | fields)


def _from_text(fields: dict[str, Any]) -> Edit:
    form = "document" if "document" in fields else "event"
    _refuse_other_than_text(fields, form)
    text = fields.pop(form)
    if "text" in fields:
        raise BadData(f"field 'text' is implied by '{form}': leave it out.")
    if form == "event" and not fields.get("time"):
        raise BadData("field 'time' is missing: say when the event took place, for example 2026-05-31.")
    return Edit.model_validate({"form": form, "text": text} | fields)


def _refuse_other_than_text(fields: dict[str, Any], *names: str) -> None:
    for name in names:
        value = fields.get(name)
        if value is not None and not isinstance(value, str):
            raise BadData(f"field '{name}' is not a text but {_short(value)}: put it in quotes.")


def _parsed_line(line: str, place: str) -> Any:
    """The parsed JSON of a line; the error of a line that is none has a hint for tables and plain text."""
    try:
        return parse_json(line, place, pairs=_once)
    except BadData as error:
        if not isinstance(error.__cause__, JSONDecodeError):
            raise
        start = line.strip()[:60]
        if start.startswith(("{", "[")):
            raise BadData(
                f"{place}: no JSON ({error.__cause__}), got {start!r}: each line is one JSON object, {FORMS}."
            ) from error
        raise BadData(
            f"{place}: no JSON but {start!r}: a table (csv) or plain text is not read; write each row as one JSON "
            'object, for example {"subject": "..", "relation": "..", "object": ".."}.'
        ) from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; a repeated field is an error, since json would silently drop a value."""
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise ValueError(
                f"field '{name}' occurs twice in one object, as {_short(fields[name])} and {_short(value)}: keep one, "
                "or write an object for each"
            )
        fields[name] = value
    return fields


def _short(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:60]


def _in_quotes(time: Any) -> str:
    """The remedy for a time that is no text; a number of four digits can only be a year."""
    year = isinstance(time, int) and 1000 <= time <= 9999
    return f'put the year in quotes, "{time}"' if year else 'write it as ISO 8601 in quotes, for example "2026-05-31"'


def _names(fields: dict[str, Any]) -> str:
    return "fields " + ", ".join(repr(name) for name in fields) if fields else "no fields"
