"""Edits as JSON lines, or as one array of JSON objects: the whole of `Edit`, or one of three short forms."""

import json
from collections.abc import Iterable, Iterator
from json import JSONDecodeError
from typing import Any

from pydantic import ValidationError

from emend.memory.edit import Edit, Triplet
from emend.memory.errors import BadData
from emend.memory.store.rows import entries_of
from emend.memory.store.superseding import parse_time

FORMS = '{"subject", "relation", "object"}, {"document"}, {"event", "time"}, or an edit with "form" and "text"'
TRIPLET = ("subject", "relation", "object")
SAID_ALREADY = ("triplets", "target_new")


def read_text(text: str, name: str) -> list[Edit]:
    """All edits of a whole file: lines as in `read_edits`, or one JSON array, whose objects are read as if they were.

    Raises:
        BadData: as `read_edits`; an item of an array is named in the place of a line.
    """
    lines = text.split("\n")
    if not text.lstrip().startswith("["):
        return read_edits(lines, name)
    try:
        told = _parsed(text)
    except JSONDecodeError as error:
        if error.msg == "Extra data":  # an array a line, or something behind one: the line is named
            return read_edits(lines, name)
        raise BadData(
            f"{name} begins as a JSON array, {text.strip()[:60]!r}, and is none ({error}): mend it, or write one JSON "
            f"object a line, {FORMS}."
        ) from error
    except BadData as error:
        raise BadData(f"{name}: {error}") from error
    return [_edit(item, f"{name}, item {number}") for number, item in enumerate(told, 1)]


def read_edits(lines: Iterable[str], name: str) -> list[Edit]:
    """All edits of a file, in its order; blank lines are passed over.

    Args:
        lines: of the file.
        name: what messages call it.

    Raises:
        BadData: a line is no JSON object, says a field twice, has other fields than its form, says nothing, or has a
            time that is not ISO 8601; names file, line and field.
    """
    edits = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            where = f"{name}, line {number}"
            try:
                told = _parsed(line)
            except ValueError as error:
                raise BadData(f"{where}: {_no_json(line, error)}") from error
            except BadData as error:
                raise BadData(f"{where}: {error}") from error
            edits.append(_edit(told, where))
    return edits


def _edit(told: Any, where: str) -> Edit:
    """The edit of a line or item; errors name the place."""
    try:
        if not isinstance(told, dict):
            raise BadData(f"no JSON object but {_short(told)}: write one of {FORMS}.")
        return edit_from(told)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "edit"
        seen = "" if first["type"] in ("missing", "extra_forbidden") else f", seen {first['input']!r:.60}"
        raise BadData(f"{where}, field '{field}': {first['msg']}{seen}. Known are {FORMS}.") from error
    except BadData as error:
        raise BadData(f"{where}: {error}") from error


def edit_from(told: dict[str, Any]) -> Edit:
    """The edit that one JSON object says.

    Raises:
        BadData: it has no known form, says nothing, or its time is not ISO 8601.
        ValidationError: a field is unknown or of the wrong type.
    """
    time = told.get("time")
    if time is not None and not isinstance(time, str):
        raise BadData(f"field 'time' is not a text but {_short(time)}: {_in_quotes(time)}.")
    if "form" in told:
        edit = Edit.model_validate(told)
    elif "subject" in told or "object" in told or "relation" in told:
        edit = _from_triplet(dict(told))
    elif "document" in told or "event" in told:
        edit = _from_text(dict(told))
    else:
        raise BadData(f"{_fields(told)}: this is no edit. Known are {FORMS}.")
    if not entries_of(edit):
        raise BadData("the text is blank: there is nothing to remember.")
    if edit.time is not None and parse_time(edit.time) is None:
        raise BadData(f"time '{edit.time}' is not ISO 8601: write for example 2026, 2026-05 or 2026-05-31.")
    return edit


def lines_of(edits: Iterable[Edit]) -> Iterator[str]:
    """One JSON object a line, fields that say nothing left out; `read_edits` gives the same edits back."""
    for edit in edits:
        told = edit.model_dump(mode="json", exclude_defaults=True)
        yield json.dumps(told, ensure_ascii=False) + "\n"


def _from_triplet(told: dict[str, Any]) -> Edit:
    for part in TRIPLET:
        seen = told.get(part)
        if seen is not None and not isinstance(seen, str):
            raise BadData(f"field '{part}' is not a text but {json.dumps(seen)[:60]}: put it in quotes.")
        if not (seen or "").strip():
            raise BadData(f"field '{part}' is missing or blank: a fact needs subject, relation and object.")
    if said := [name for name in SAID_ALREADY if name in told]:
        raise BadData(f"field '{said[0]}' has no place beside subject, relation and object, which say it already.")
    prompt = told.get("prompt")
    if prompt is not None and not isinstance(prompt, str):
        raise BadData(f"field 'prompt' is not a text but {json.dumps(prompt)[:60]}: put it in quotes.")
    if prompt and "{}" not in prompt:
        raise BadData(f"prompt {prompt!r} has no {{}} in the place of the subject.")
    triplet = Triplet.model_validate({key: told.pop(key) for key in tuple(told) if key in Triplet.model_fields})
    if prompt and "text" not in told:
        return Edit.from_triplet(triplet, told.pop("prompt"), **told)
    more = {"text": triplet.text, "subject": triplet.subject, "target_new": triplet.object} | told
    return Edit.model_validate({"form": "triplet", "triplets": (triplet,)} | more)


def _from_text(told: dict[str, Any]) -> Edit:
    form = "document" if "document" in told else "event"
    text = told.pop(form)
    if not isinstance(text, str):
        raise BadData(f"field '{form}' is not a text but {json.dumps(text)[:60]}.")
    if "text" in told:
        raise BadData(f"field 'text' has no place beside '{form}', which says it already.")
    if form == "event" and not told.get("time"):
        raise BadData("field 'time' is missing: say when the event took place, for example 2026-05-31.")
    return Edit.model_validate({"form": form, "text": text} | told)


def _parsed(text: str) -> Any:
    """What JSON says; of a field that stands twice no value is dropped in silence."""
    return json.loads(text, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for name, value in pairs:
        if name in told:
            raise BadData(
                f"field '{name}' stands twice in one object, as {_short(told[name])} and {_short(value)}: keep one, "
                "or write an object for each."
            )
        told[name] = value
    return told


def _no_json(line: str, error: ValueError) -> str:
    """What is wrong with a line; one that does not even begin as JSON lacks more than a comma."""
    seen = line.strip()[:60]
    if not seen.startswith(("{", "[")):
        return (
            f"no JSON but {seen!r}: a table (csv) or plain text is not read; write each row as one JSON object, for "
            'example {"subject": "..", "relation": "..", "object": ".."}.'
        )
    return f"no JSON ({error}), seen {seen!r}: each line is one JSON object, {FORMS}."


def _short(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:60]


def _in_quotes(time: Any) -> str:
    """How a time that is no text is to be written; a number of four digits can only be a year."""
    year = isinstance(time, int) and 1000 <= time <= 9999
    return f'put the year in quotes, "{time}"' if year else 'write it as ISO 8601 in quotes, for example "2026-05-31"'


def _fields(told: dict[str, Any]) -> str:
    return "fields " + ", ".join(repr(name) for name in told) if told else "no fields"
