"""How far a judge agrees with people: labelled items are judged, and the agreement is kept for reports to show."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from emend.agents.judging.base import Item, Scale
from emend.evals.judges.panel import judge_id
from emend.evals.log.manifest import now, replace
from emend.evals.metrics.agreement import Agreement, agreement
from emend.memory.edit import FrozenModel, content_id
from emend.memory.errors import BadData, BadSettings
from emend.memory.paths import cache_folder
from emend.memory.registry import nearest

FORMAT = (
    '{"kind": "coherence", "case": "7", "item": {"question": "..", "thoughts": "..", "answer": ".."}, "label": "yes"}'
)
YES = {"yes": 1.0, "true": 1.0, "support": 1.0, "no": 0.0, "false": 0.0, "not-support": 0.0}
EXPECTED: dict[Scale, str] = {
    "yes or no": "yes or no (true, false, support, not-support, 1 and 0 are read too)",
    "1 to 5": "a whole number from 1 to 5",
    "share": "a share from 0 to 1",
}


class Labelled(FrozenModel):
    """One item with a person's label as a number, None where it was left open; items of one case are one cluster."""

    kind: str
    case: str
    item: Item
    label: float | None


class Line(FrozenModel):
    """A line of the file of labels, as it is written."""

    kind: str
    case: str | int = ""
    item: dict[str, str | list[str]] = Field(min_length=1)
    label: bool | int | float | str | None = None


class JudgeKind(FrozenModel):
    """What must be known of a kind of judge: its scale, what its items are made of (empty: anything), its prompt."""

    scale: Scale
    fields: tuple[str, ...] = ()
    prompt_id: str = ""


Verdict = float | str
"""A number, or the reason why there is none."""
Judging = Callable[[Sequence[Item]], Sequence[Sequence[Verdict]]]
"""Items of one kind -> per repeat, the verdict on each."""


class Calibration(Agreement):
    """A judge's agreement with people on one kind of item, by its first repeat, and of its repeats with each other.

    `missing` counts items that nobody labelled, which are left out; `unscored` those without a verdict.
    """

    kind: str
    judge: str
    scale: Scale
    prompt_id: str
    labelled: int
    missing: int
    reasons: dict[str, int]
    """Why items have no verdict."""
    repeats: int
    retest: Agreement | None = None
    """Every two repeats on the same item; None with one repeat."""
    items: str
    """A digest of the items and their labels."""
    measured: str


def read_labels(path: Path, kinds: Mapping[str, JudgeKind]) -> list[Labelled]:
    """The labelled items of a file of JSON lines; blank lines are passed over.

    Raises:
        BadData: no such file, nothing in it, or a line is not as it must be; names line and field.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")  # JSON may hold other ends of lines
    except (OSError, UnicodeDecodeError) as error:
        raise BadData(f"cannot read the labels '{path}': {error}. Each line is to be like {FORMAT}.") from error
    rows = [_labelled(line, f"{path}, line {n}", kinds) for n, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise BadData(f"'{path}' has no label: each line is to be like {FORMAT}.")
    return rows


def _labelled(line: str, where: str, kinds: Mapping[str, JudgeKind]) -> Labelled:
    try:
        told = Line.model_validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "the whole line"
        raise BadData(f"{where}, field '{field}': {first['msg']}. A line is to be like {FORMAT}.") from error
    try:
        kind = kinds[told.kind]
    except KeyError:
        hint = f"{nearest(told.kind, list(kinds))} One of your own is named as module:attribute."
        raise BadData(f"{where}, field 'kind': no judge '{told.kind}': {hint}") from None
    except BadSettings as error:
        raise BadData(f"{where}, field 'kind': {error}") from error
    if kind.fields and set(told.item) != set(kind.fields):
        raise BadData(
            f"{where}, field 'item': it has {', '.join(sorted(told.item))}, and a judge of {told.kind} is shown "
            f"{', '.join(kind.fields)}. Give exactly these."
        )
    parts = {name: (text,) if isinstance(text, str) else tuple(text) for name, text in told.item.items()}
    if empty := [name for name, texts in parts.items() if not texts]:
        raise BadData(f"{where}, field 'item.{empty[0]}': an empty list. Give a text, or several.")
    item = Item(kind=told.kind, parts=parts)
    label = _number(told.label, kind.scale, where)
    return Labelled(kind=told.kind, case=str(told.case) or item.id, item=item, label=label)


def _number(label: bool | int | float | str | None, scale: Scale, where: str) -> float | None:
    """The label on its scale; None where there is none."""
    if label is None or label == "":
        return None
    value = YES.get(label.strip().casefold()) if isinstance(label, str) else float(label)
    if isinstance(label, str) and value is None:
        value = _parsed(label)
    possible = {"yes or no": (0.0, 1.0), "1 to 5": (1.0, 2.0, 3.0, 4.0, 5.0)}.get(scale)
    said = isinstance(label, bool) or (isinstance(label, str) and label.strip().casefold() in YES)
    words = said and scale != "yes or no"
    right = value is not None and (value in possible if possible else 0 <= value <= 1) and not words
    if not right:
        raise BadData(f"{where}, field 'label': {json.dumps(label)} is not {EXPECTED[scale]}. Correct it.")
    return value


def _parsed(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def calibrate(
    rows: Sequence[Labelled],
    judges: Sequence[str],
    kinds: Mapping[str, JudgeKind],
    judging: Judging,
    seed: int = 0,
) -> list[Calibration]:
    """The agreement for each kind of item that the labels have.

    Args:
        rows: labelled items.
        judges: names of the judges.
        kinds: what must be known of each kind.
        judging: asks the judges; called once per kind.
        seed: of the bootstrap over cases.
    """
    found = []
    for name in dict.fromkeys(row.kind for row in rows):
        own = [row for row in rows if row.kind == name]
        labelled = [row for row in own if row.label is not None]
        verdicts = judging([row.item for row in labelled]) if labelled else [[]]
        found.append(_calibration(name, kinds[name], own, labelled, judges, verdicts, seed))
    return found


def _calibration(
    name: str,
    kind: JudgeKind,
    own: Sequence[Labelled],
    labelled: Sequence[Labelled],
    judges: Sequence[str],
    verdicts: Sequence[Sequence[Verdict]],
    seed: int,
) -> Calibration:
    ordered, categories = kind.scale != "yes or no", kind.scale != "share"
    cases = [row.case for row in labelled]
    labels = [row.label for row in labelled if row.label is not None]
    first = agreement(labels, _numbers(verdicts[0]), cases, ordered=ordered, categories=categories, seed=seed)
    return Calibration(
        **dict(first),
        kind=name,
        judge=", ".join(judges),
        scale=kind.scale,
        prompt_id=kind.prompt_id,
        labelled=len(labelled),
        missing=len(own) - len(labelled),
        reasons=dict(Counter(one for one in verdicts[0] if isinstance(one, str)).most_common()),
        repeats=len(verdicts),
        retest=_retest(verdicts, cases, ordered, categories, seed) if len(verdicts) > 1 else None,
        items=content_id([(row.item.id, row.label) for row in labelled]),
        measured=now(),
    )


def _retest(
    verdicts: Sequence[Sequence[Verdict]], cases: Sequence[str], ordered: bool, categories: bool, seed: int
) -> Agreement:
    """Every two repeats on the same item; a pair without one of its verdicts is unscored."""
    ones: list[float] = []
    others: list[float | None] = []
    owners: list[str] = []
    for one, other in combinations([_numbers(told) for told in verdicts], 2):
        for a, b, case in zip(one, other, cases, strict=True):
            if a is not None:
                ones.append(a)
                others.append(b)
                owners.append(case)
    repeats = ("one repeat", "another repeat")
    return agreement(ones, others, owners, ordered=ordered, categories=categories, raters=repeats, seed=seed)


def _numbers(verdicts: Sequence[Verdict]) -> list[float | None]:
    return [None if isinstance(one, str) else one for one in verdicts]


def keep(found: Calibration, judges: Sequence[str]) -> Path:
    """Store it where reports look; one of the same judges and kind is replaced.

    Returns:
        The file.
    """
    path = cache_folder("calibration") / judge_id(judges) / f"{found.kind}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    replace(path, found.model_dump_json(indent=1) + "\n")
    return path


def kept(judges: Sequence[str], kind: str) -> Calibration | None:
    """What is stored of these judges; None where nobody has measured it, or it cannot be read."""
    path = cache_folder("calibration") / judge_id(judges) / f"{kind}.json"
    try:
        told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return Calibration.model_validate(told)
    except (OSError, ValueError):
        return None
