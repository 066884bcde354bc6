"""Edits as JSON lines, or as an array of JSON objects: all fields of `Edit`, or one of three short
forms. A triplet without a prompt gets the cloze of its relation.
"""

import json
from collections.abc import Iterable, Iterator
from json import JSONDecodeError
from typing import Any

from pydantic import ValidationError

from emend.memory.edit import Edit, Triplet
from emend.memory.errors import BadData, problem_of
from emend.memory.json_files import parse_json
from emend.memory.relations.cloze import cloze_of, relation_of
from emend.memory.store.rows import make_entries
from emend.memory.store.superseding import parse_time

FORMS = (
    '{"subject", "relation", "object"}, {"document"}, {"event", "time"}, '
    'or an edit with "form" and "text"'
)
TRIPLET = ("subject", "relation", "object")
IMPLIED = ("triplets", "target_new")


def read_text(text: str, name: str) -> list[Edit]:
    """Read all edits of a file: JSON lines as in `read_edits`, or one JSON array of such objects.

    Raises:
        BadData: as in `read_edits`; errors in an array name the item instead of the line.
    """
    lines = text.split("\n")
    if not text.lstrip().startswith("["):
        return read_edits(lines, name)
    try:
        items = parse_json(text, name, pairs=_once)
    except BadData as error:
        if not isinstance(error.__cause__, JSONDecodeError):
            raise
        # an array per line, or text after an array: name the line
        if error.__cause__.msg == "Extra data":
            return read_edits(lines, name)
        raise BadData(
            f"{name} begins like a JSON array, {text.strip()[:60]!r}, but is not one "
            f"({error.__cause__}): correct it, or write one JSON object per line, {FORMS}."
        ) from error
    return [_edit(item, f"{name}, item {number}") for number, item in enumerate(items, 1)]


def read_edits(lines: Iterable[str], name: str) -> list[Edit]:
    """Read all edits of a file in order; blank lines are skipped.

    Args:
        lines: the file's lines.
        name: the file's name in messages.

    Raises:
        BadData: a line is not a JSON object, repeats a field, has fields that do not belong to its
            form, has only blank text, or has a time that is not ISO 8601; names file, line and
            field.
    """
    places = (
        (line, f"{name}, line {number}") for number, line in enumerate(lines, 1) if line.strip()
    )
    return [_edit(_parsed_line(line, place), place) for line, place in places]


def _edit(fields: Any, place: str) -> Edit:
    """Return the edit of a line or item; errors name its position."""
    try:
        if not isinstance(fields, dict):
            raise BadData(f"expected a JSON object, got {_short(fields)}: write one of {FORMS}.")
        return edit_from(fields)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "edit"
        value = (
            ""
            if first["type"] in ("missing", "extra_forbidden")
            else (f", got {first['input']!r:.60}")
        )
        raise BadData(
            f"{place}, field '{field}': {problem_of(first)}{value}. Supported forms: {FORMS}."
        ) from error
    except BadData as error:
        raise BadData(f"{place}: {error}") from error


def edit_from(fields: dict[str, Any]) -> Edit:
    """Return the edit of one JSON object.

    Raises:
        BadData: it has no known form, only blank text, or a time that is not ISO 8601.
        ValidationError: a field is unknown or of the wrong type.
    """
    time = fields.get("time")
    if time is not None and not isinstance(time, str):
        raise BadData(f"field 'time' must be a text, got {_short(time)}: {_in_quotes(time)}.")
    if "form" in fields:
        edit = Edit.model_validate(fields)
    elif "subject" in fields or "object" in fields or "relation" in fields:
        edit = _from_triplet(dict(fields))
    elif "document" in fields or "event" in fields:
        edit = _from_text(dict(fields))
    else:
        raise BadData(f"{_names(fields)}: this is not an edit. Supported forms: {FORMS}.")
    if not make_entries(edit):
        raise BadData("the text is blank: there is nothing to store.")
    if edit.time is not None and parse_time(edit.time) is None:
        raise BadData(
            f"time '{edit.time}' is not ISO 8601: write for example 2026, 2026-05 or 2026-05-31."
        )
    return edit


def dump_lines(edits: Iterable[Edit]) -> Iterator[str]:
    """Yield edits as JSON lines without default values; `read_edits` returns the same edits."""
    for edit in edits:
        yield (
            json.dumps(edit.model_dump(mode="json", exclude_defaults=True), ensure_ascii=False)
            + "\n"
        )


def _from_triplet(fields: dict[str, Any]) -> Edit:
    _refuse_other_than_text(fields, *TRIPLET, "prompt")
    if blank := [part for part in TRIPLET if not (fields.get(part) or "").strip()]:
        raise BadData(
            f"field '{blank[0]}' is missing or blank: a fact needs subject, relation and object."
        )
    if implied := [name for name in IMPLIED if name in fields]:
        raise BadData(
            f"field '{implied[0]}' is implied by subject, relation and object: leave it out."
        )
    if gaps := [part for part in ("subject", "object") if "{}" in fields[part]]:
        raise BadData(f"field '{gaps[0]}' has {{}}, which is for prompts: write the name out.")
    prompt = fields.get("prompt") or cloze_of(fields["relation"])
    if prompt and (count := prompt.count("{}")) != 1:
        raise BadData(
            f"prompt {prompt!r} has {count or 'no'} {{}} for the subject: write exactly one."
        )
    fields |= {"relation": relation_of(fields["relation"])}
    triplet = Triplet.model_validate(
        {key: fields.pop(key) for key in tuple(fields) if key in Triplet.model_fields}
    )
    if "text" not in fields:
        fields.pop("prompt", None)
        return Edit.from_triplet(triplet, prompt, **fields)
    defaults = {"subject": triplet.subject, "target_new": triplet.object}
    return Edit.model_validate({"form": "triplet", "triplets": (triplet,)} | defaults | fields)


def _from_text(fields: dict[str, Any]) -> Edit:
    form = "document" if "document" in fields else "event"
    _refuse_other_than_text(fields, form)
    text = fields.pop(form)
    if "text" in fields:
        raise BadData(f"field 'text' is implied by '{form}': leave it out.")
    if form == "event" and not fields.get("time"):
        raise BadData(
            "field 'time' is missing: give the date of the event, for example 2026-05-31."
        )
    return Edit.model_validate({"form": form, "text": text} | fields)


def _refuse_other_than_text(fields: dict[str, Any], *names: str) -> None:
    for name in names:
        value = fields.get(name)
        if value is not None and not isinstance(value, str):
            raise BadData(f"field '{name}' must be a text, got {_short(value)}: put it in quotes.")


def _parsed_line(line: str, place: str) -> Any:
    """Parse a line as JSON; the error for other text has a hint for tables and plain text."""
    try:
        return parse_json(line, place, pairs=_once)
    except BadData as error:
        if not isinstance(error.__cause__, JSONDecodeError):
            raise
        start = line.strip()[:60]
        if start.startswith(("{", "[")):
            raise BadData(
                f"{place}: not valid JSON ({error.__cause__}), got {start!r}: each line is one "
                f"JSON object, {FORMS}."
            ) from error
        raise BadData(
            f"{place}: expected JSON, got {start!r}: tables (csv) and plain "
            "text are not supported; write each "
            "row as one JSON "
            'object, for example {"subject": "..", "relation": "..", "object": ".."}.'
        ) from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object; a repeated field is an error, since json would silently drop a value."""
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise ValueError(
                f"field '{name}' occurs twice in one object, as {_short(fields[name])} and "
                f"{_short(value)}: keep one, or write an object for each"
            )
        fields[name] = value
    return fields


def _short(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:60]


def _in_quotes(time: Any) -> str:
    """Return the remedy for a time that is not a text; a number of four digits can only be a
    year.
    """
    year = isinstance(time, int) and 1000 <= time <= 9999
    return (
        f'put the year in quotes, "{time}"'
        if year
        else 'write it as ISO 8601 in quotes, for example "2026-05-31"'
    )


def _names(fields: dict[str, Any]) -> str:
    return "fields " + ", ".join(repr(name) for name in fields) if fields else "no fields"
