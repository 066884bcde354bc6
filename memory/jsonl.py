"""Edits as JSON lines: the whole of `Edit`, or one of three short forms."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import ValidationError

from emend.memory.edit import Edit, Triplet
from emend.memory.errors import BadData
from emend.memory.stored import entries_of
from emend.memory.superseding import moment

FORMS = '{"subject", "relation", "object"}, {"document"}, {"event", "time"}, or an edit with "form" and "text"'
TRIPLET = ("subject", "relation", "object")
SAID_ALREADY = ("triplets", "target_new")


def read_edits(lines: Iterable[str], name: str) -> list[Edit]:
    """All edits of a file, in its order; blank lines are passed over.

    Args:
        lines: of the file.
        name: what messages call it.

    Raises:
        BadData: a line is no JSON object, has other fields than its form, says nothing, or has a time that is not ISO
            8601; names file, line and field.
    """
    edits = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                edits.append(edit_from(_object(line)))
            except ValidationError as error:
                first = error.errors()[0]
                field = ".".join(str(part) for part in first["loc"]) or "edit"
                seen = "" if first["type"] in ("missing", "extra_forbidden") else f", seen {first['input']!r:.60}"
                raise BadData(
                    f"{name}, line {number}, field '{field}': {first['msg']}{seen}. Known are {FORMS}."
                ) from error
            except BadData as error:
                raise BadData(f"{name}, line {number}: {error}") from error
    return edits


def edit_from(told: dict[str, Any]) -> Edit:
    """The edit that one JSON object says.

    Raises:
        BadData: it has no known form, says nothing, or its time is not ISO 8601.
        ValidationError: a field is unknown or of the wrong type.
    """
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
    if edit.time is not None and moment(edit.time) is None:
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


def _object(line: str) -> dict[str, Any]:
    try:
        told = json.loads(line)
    except ValueError as error:
        raise BadData(f"no JSON ({error}): each line is one JSON object, {FORMS}.") from error
    if not isinstance(told, dict):
        raise BadData(f"no JSON object but {line.strip()[:60]}: each line is one of {FORMS}.")
    return told


def _fields(told: dict[str, Any]) -> str:
    return "fields " + ", ".join(repr(name) for name in told) if told else "no fields"
