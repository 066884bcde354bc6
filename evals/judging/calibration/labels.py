"""Items with labels by people, read from files of JSON lines."""

import json
from pathlib import Path

from pydantic import Field, ValidationError

from emend.agents.judging.base import Item, Scale
from emend.evals.judging.calibration.stress import parts_of
from emend.evals.judging.panel import load_judge
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData, BadSettings, field_problem, reason_of
from emend.memory.files import read_file

FORMAT = (
    '{"kind": "coherence", "case": "7", '
    '"item": {"question": "..", "thoughts": "..", "answer": ".."}, "label": "yes"}'
)
YES = {"yes": 1.0, "true": 1.0, "support": 1.0, "no": 0.0, "false": 0.0, "not-support": 0.0}
EXPECTED: dict[Scale, str] = {
    "yes or no": "yes or no (true, false, support, not-support, 1 and 0 are read too)",
    "1 to 5": "a whole number from 1 to 5",
    "share": "a share from 0 to 1",
}


class LabelledItem(FrozenModel):
    """Item with a person's label as a number, or None if it is open; items of the same case form a
    cluster.
    """

    kind: str
    case: str
    item: Item
    label: float | None


class LabelLine(FrozenModel):
    """Line of a file of labels."""

    kind: str
    case: str | int = ""
    item: dict[str, str | list[str]] = Field(min_length=1)
    label: bool | int | float | str | None = None


def read_labels(path: Path) -> list[LabelledItem]:
    """Read the labelled items of a file of JSON lines; blank lines are skipped.

    Raises:
        BadData: the file is missing or empty, or a line is invalid; the message names line and
            field.
    """
    try:
        text = read_file(path, links=True).decode("utf-8-sig")
    except (BadData, OSError, UnicodeDecodeError) as error:
        raise BadData(
            f"cannot read the labels '{path}': {reason_of(error)}. Each line is to be like "
            f"{FORMAT}."
        ) from error
    lines = text.split("\n")  # not splitlines: JSON may have \u2028
    rows = [_labelled(line, f"{path}, line {n}") for n, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise BadData(f"'{path}' has no label: each line is to be like {FORMAT}.")
    return rows


def _labelled(text: str, where: str) -> LabelledItem:
    try:
        line = LabelLine.model_validate_json(text)
    except ValidationError as error:
        problem = field_problem(error, whole="the whole line")
        raise BadData(f"{where}, {problem}. A line is to be like {FORMAT}.") from error
    try:
        scale = load_judge(line.kind).role.scale
    except BadSettings as error:
        raise BadData(
            f"{where}, field 'kind': {error} One of your own is named as module:attribute."
        ) from error
    known = parts_of(line.kind)
    if known and set(line.item) != known:
        raise BadData(
            f"{where}, field 'item': it has {', '.join(sorted(line.item))}, but a judge of "
            f"{line.kind} is shown {', '.join(sorted(known))}. Give exactly these."
        )
    parts = {
        name: (text,) if isinstance(text, str) else tuple(text) for name, text in line.item.items()
    }
    if empty := [name for name, texts in parts.items() if not texts]:
        raise BadData(f"{where}, field 'item.{empty[0]}': an empty list. Give a text, or several.")
    item = Item(kind=line.kind, parts=parts)
    return LabelledItem(
        kind=line.kind,
        case=str(line.case) or item.id,
        item=item,
        label=_number(line.label, scale, where),
    )


def _number(label: bool | int | float | str | None, scale: Scale, where: str) -> float | None:
    """Return the label as a number on its scale; None for an open label."""
    if label is None or label == "":
        return None
    word = isinstance(label, bool) or (isinstance(label, str) and label.strip().casefold() in YES)
    try:
        if word and isinstance(label, str):
            value = YES[label.strip().casefold()]
        else:
            value = float(label)
    except ValueError:
        value = -1.0
    possible = {"yes or no": (0.0, 1.0), "1 to 5": (1.0, 2.0, 3.0, 4.0, 5.0)}.get(scale)
    if (word and scale != "yes or no") or not (value in possible if possible else 0 <= value <= 1):
        raise BadData(
            f"{where}, field 'label': {json.dumps(label)} is not {EXPECTED[scale]}. Correct it."
        )
    return value
