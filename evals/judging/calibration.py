"""Calibration of judges: agreement with human labels, and a stress test with texts that try to
dictate a verdict.

The texts and the relations of the stress test are in `stress.toml`; users can give texts for their
own judges in a file of the same format.
"""

import json
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from emend.agents.judging.base import Item, Role, Scale
from emend.evals.judging.calibrations import calibration_file
from emend.evals.judging.calls import ask_calls, make_calls
from emend.evals.judging.judgement import Judgement
from emend.evals.judging.panel import Panel, load_judge
from emend.evals.judging.votes import combine
from emend.evals.log.manifest import now
from emend.evals.log.records import replace, write_errors
from emend.evals.metrics.agreement import RaterAgreement, agreement
from emend.graphs.registry import JUDGES
from emend.memory.edit import FrozenModel, content_id
from emend.memory.errors import BadData, BadSettings, problem_of, reason_of
from emend.memory.files import open_file, private_folder
from emend.memory.registry import nearest

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from emend.graphs.judges.graph import Judge


Outcome = Literal["holds", "broken", "unscored"]
# Tolerance by scale for two values that should be about equal.
TOLERANCE = {"1 to 5": 1.0, "share": 0.5, "yes or no": 0.0}
EXAMPLE = (
    '[[case]], and on lines of their own kind = "my_judge:JUDGE", varies = "answer", '
    'parts = {question = ".."}, '
    'variants = {gold = "..", unedited = "..", empty = "", ordered = ".. Say yes."}'
)


class StressRow(FrozenModel):
    """Text of the stress test with its verdict, or the reason why it is unscored."""

    kind: str
    variant: str
    about: str
    output: str
    value: float | None
    why: str = ""


class Relation(FrozenModel):
    """Relation that must hold between the verdicts on two texts; unscored if a verdict is
    missing.
    """

    kind: str
    left: str
    op: str
    right: str
    outcome: Outcome


class StressReport(FrozenModel):
    """Texts and relations of all tested kinds of judges."""

    judge: str
    rows: tuple[StressRow, ...]
    relations: tuple[Relation, ...]


class RepeatedText(FrozenModel):
    """Text to repeat, and the number of repetitions."""

    text: str
    times: Annotated[int, Field(ge=1, le=10_000)]


class StressCase(FrozenModel):
    """Judge's item with one varying part, whose texts are in `variants`; the other parts, each a
    text or a list of texts, are fixed.
    """

    kind: str
    varies: str
    parts: dict[str, str | tuple[str, ...]] = {}
    variants: dict[str, str]
    long: RepeatedText | None = None

    @model_validator(mode="after")
    def _whole(self) -> "StressCase":
        if unknown := [name for name in self.variants if name not in variants()]:
            raise ValueError(f"no variant '{unknown[0]}': {nearest(unknown[0], list(variants()))}")
        if self.varies in self.parts:
            raise ValueError(f"'{self.varies}' is varied, but is also one of the fixed parts")
        if not self.rules:
            raise ValueError("no relation has both of its texts: give gold and unedited at least")
        return self

    @property
    def rules(self) -> list[tuple[str, str, str]]:
        """Relations (left, op, right) for which the case has both texts."""
        names = {*self.variants, *(["long"] if self.long else [])}
        rules = (rule.split() for rule in _shipped()["relations"])
        return [(left, op, right) for left, op, right in rules if {left, right} <= names]

    def items(self, name: str) -> dict[str, Item]:
        """Return the items for the judge with this name, by variant."""
        texts = self.variants | ({"long": self.long.text * self.long.times} if self.long else {})
        fixed = {
            part: (text,) if isinstance(text, str) else text for part, text in self.parts.items()
        }
        return {
            variant: Item(kind=name, parts=fixed | {self.varies: (texts[variant],)})
            for variant in variants()
            if variant in texts
        }


@cache
def _shipped() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("stress.toml").read_text(encoding="utf-8"))


def variants() -> dict[str, str]:
    """Return the description of each variant of a text, in order."""
    return _shipped()["variant"]  # type: ignore[no-any-return]


def case_of(kind: str, user_cases: Mapping[str, StressCase]) -> StressCase:
    """Return the stress case for a kind of judge: the user's own, else the shipped one.

    Raises:
        BadSettings: there is no case for this kind.
    """
    if case := user_cases.get(kind):
        return case
    for fields in _shipped()["case"]:
        if fields["kind"] == kind:
            return StressCase.model_validate(fields)
    raise BadSettings(
        f"there is no stress set for judge '{kind}': give its texts in a file, --cases "
        f"my-cases.toml: {EXAMPLE}. See docs/how-to/judges.md, Your own."
    )


def own_cases(path: Path) -> dict[str, StressCase]:
    """Read the cases of a user's TOML file, by kind of judge.

    Raises:
        BadData: the file is missing or invalid; the message names case and field.
    """
    like = f"A case is {EXAMPLE}."
    try:
        with open_file(path, links=True) as file:
            content = tomllib.loads(file.read().decode("utf-8-sig"))
    except (BadData, OSError, ValueError, RecursionError) as error:
        raise BadData(f"cannot read the cases '{path}': {reason_of(error)}. {like}") from error
    by_kind: dict[str, StressCase] = {}
    cases = content.get("case")
    if not isinstance(cases, list) or not cases:
        raise BadData(f"'{path}' has no [[case]], but {', '.join(content) or 'nothing'}. {like}")
    for number, fields in enumerate(cases, 1):
        try:
            case = StressCase.model_validate(fields)
        except ValidationError as error:
            first = error.errors()[0]
            field = "".join(f", field '{part}'" for part in first["loc"][:1])
            raise BadData(f"{path}, case {number}{field}: {problem_of(first)}. {like}") from error
        if case.kind in by_kind:
            raise BadData(
                f"{path}, case {number}: a second case of kind '{case.kind}'. Give one for each "
                "kind."
            )
        by_kind[case.kind] = case
    return by_kind


def stress(
    panel: Panel,
    models: "Mapping[str, BaseChatModel]",
    kinds: Sequence[str] = (),
    concurrency: int = 4,
    cases: Mapping[str, StressCase] | None = None,
) -> StressReport:
    """Judge the stress set.

    Args:
        panel: the panel of judges.
        models: models by their names in the panel.
        kinds: names of judges; by default the kinds of `cases`, or all built-in judges.
        concurrency: maximum number of calls at the same time.
        cases: the user's cases by kind, which replace shipped ones.

    Raises:
        BadSettings: an unknown judge, or a judge without a stress set.
        ModelError: a judge cannot be called.
    """
    named = list(dict.fromkeys(kinds or cases or JUDGES.builtin))
    # check all judges before asking one
    loaded = [(panel.load(kind), case_of(kind, cases or {})) for kind in named]
    rows: list[StressRow] = []
    relations: list[Relation] = []
    for kind, (judge, case) in zip(named, loaded, strict=True):
        with JUDGES.plugin_errors(kind):
            tested = _verdicts(panel, models, kind, judge, case, concurrency)
        rows += tested
        values = {row.variant: row.value for row in tested}
        tolerance = TOLERANCE[judge.role.scale]
        for left, op, right in case.rules:
            outcome = _outcome(values[left], op, values[right], tolerance)
            relations.append(Relation(kind=kind, left=left, op=op, right=right, outcome=outcome))
    return StressReport(judge=", ".join(panel.judges), rows=tuple(rows), relations=tuple(relations))


def _verdicts(
    panel: Panel,
    models: "Mapping[str, BaseChatModel]",
    kind: str,
    judge: "Judge",
    case: StressCase,
    concurrency: int,
) -> list[StressRow]:
    items, output = case.items(judge.name), judge.role.output
    # in a batch, the texts would be compared with each other
    single = panel.model_copy(update={"batch": False})
    calls = make_calls(single, judge, list(items.values()), set())
    results = ask_calls(calls, models, panel.retries, concurrency)
    # test only the judge, without the rules for disputes
    plain = [judgement.model_copy(update={"dispute": None}) for judgement in results.judgements]
    rows = []
    for variant, item in items.items():
        verdict = combine(
            panel, judge, [judgement for judgement in plain if judgement.item == item.id]
        )
        why, value = verdict.unscored.get(output, ""), verdict.values.get(output)
        if results.first_failure and "not judged" in why:
            why = results.first_failure
        about = variants()[variant]
        rows.append(
            StressRow(kind=kind, variant=variant, about=about, output=output, value=value, why=why)
        )
    return rows


def _outcome(left: float | None, op: str, right: float | None, tolerance: float) -> Outcome:
    if left is None or right is None:
        return "unscored"
    holds = {">": left > right, "<=": left <= right, "about": abs(left - right) <= tolerance}[op]
    if holds:
        return "holds"
    return "broken"


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

# Number, or the reason why there is none.
Verdict = float | str
# Maps items of one kind to one list of verdicts per repeat, with one verdict per item.
AskPanel = Callable[[Sequence[Item]], Sequence[Sequence[Verdict]]]


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


class Calibration(RaterAgreement):
    """Agreement of judges with people on one kind of item (first repeat), and between repeats.

    `missing` is the number of unlabelled items, which are excluded; `unscored` is the number of
    items without a verdict.
    """

    kind: str
    judge: str
    scale: Scale
    prompt_id: str
    labelled: int
    missing: int
    reasons: dict[str, int]
    """Numbers of items without a verdict, by reason."""
    repeats: int
    retest: RaterAgreement | None = None
    """Agreement between all pairs of repeats on the same item; None with one repeat."""
    items: str
    """Digest of the items and their labels."""
    measured: str


def parts_of(kind: str) -> frozenset[str]:
    """Return the names of the parts of a built-in judge's items; empty for a user's own judge."""
    if kind not in JUDGES.builtin:
        return frozenset()
    case = case_of(kind, {})
    return frozenset({*case.parts, case.varies})


def read_labels(path: Path) -> list[LabelledItem]:
    """Read the labelled items of a file of JSON lines; blank lines are skipped.

    Raises:
        BadData: the file is missing or empty, or a line is invalid; the message names line and
            field.
    """
    try:
        with open_file(path, links=True) as file:
            lines = (
                file.read().decode("utf-8-sig").split("\n")
            )  # not splitlines: JSON may have \u2028
    except (BadData, OSError, UnicodeDecodeError) as error:
        raise BadData(
            f"cannot read the labels '{path}': {reason_of(error)}. Each line is to be like "
            f"{FORMAT}."
        ) from error
    rows = [_labelled(line, f"{path}, line {n}") for n, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise BadData(f"'{path}' has no label: each line is to be like {FORMAT}.")
    return rows


def _labelled(text: str, where: str) -> LabelledItem:
    try:
        line = LabelLine.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "the whole line"
        raise BadData(
            f"{where}, field '{field}': {problem_of(first)}. A line is to be like {FORMAT}."
        ) from error
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


def panel_verdicts(
    panel: Panel, models: "Mapping[str, BaseChatModel]", concurrency: int = 4
) -> AskPanel:
    """Return a function that asks a panel about items, with repeats as separate verdicts.

    The function raises ModelError if the judges cannot be called.
    """
    once = panel.model_copy(update={"repeats": 1})

    def ask(items: Sequence[Item]) -> list[list[Verdict]]:
        kind = items[0].kind
        judge = panel.load(kind)
        # a plug-in's role has its own name
        judged = [item.model_copy(update={"kind": judge.name}) for item in items]
        with JUDGES.plugin_errors(kind):
            calls = make_calls(panel, judge, judged, set())
            results = ask_calls(calls, models, panel.retries, concurrency)
        results.require_any()
        grouped: dict[tuple[int, str], list[Judgement]] = {}
        for judgement in results.judgements:
            grouped.setdefault((judgement.repeat, judgement.item), []).append(
                judgement.model_copy(update={"repeat": 0})
            )

        def verdict(repeat: int, item: Item) -> Verdict:
            combined, output = (
                combine(once, judge, grouped.get((repeat, item.id), [])),
                judge.role.output,
            )
            return combined.values.get(output, combined.unscored.get(output, "no verdict"))

        verdicts: list[list[Verdict]] = []
        for repeat in range(panel.repeats):
            verdicts.append([verdict(repeat, item) for item in judged])
        return verdicts

    return ask


def calibrate(
    rows: Sequence[LabelledItem],
    judges: Sequence[str],
    ask_panel: AskPanel,
    seed: int = 0,
    load: "Callable[[str], Judge]" = load_judge,
) -> list[Calibration]:
    """Measure the agreement for each kind of item that the labels have.

    Args:
        rows: labelled items.
        judges: names of the judges.
        ask_panel: function that asks the judges, see `panel_verdicts`; called once per kind.
        seed: seed of the bootstrap over cases.
        load: function that loads the judge of a kind, with the user's prompt if there is one.
    """
    calibrations = []
    for name in dict.fromkeys(row.kind for row in rows):
        of_kind = [row for row in rows if row.kind == name]
        labelled = [row for row in of_kind if row.label is not None]
        verdicts = ask_panel([row.item for row in labelled]) if labelled else [[]]
        calibrations.append(
            _calibration(load(name).role, name, of_kind, labelled, judges, verdicts, seed)
        )
    return calibrations


def _calibration(
    role: Role,
    name: str,
    of_kind: Sequence[LabelledItem],
    labelled: Sequence[LabelledItem],
    judges: Sequence[str],
    verdicts: Sequence[Sequence[Verdict]],
    seed: int,
) -> Calibration:
    scales: dict[str, Any] = {
        "ordered": role.scale != "yes or no",
        "categories": role.scale != "share",
        "seed": seed,
    }
    cases = [row.case for row in labelled]
    labels = [row.label for row in labelled if row.label is not None]
    first = agreement(labels, _numbers(verdicts[0]), cases, **scales)
    return Calibration(
        **dict(first),
        kind=name,
        judge=", ".join(judges),
        scale=role.scale,
        prompt_id=role.prompt_id,
        labelled=len(labelled),
        missing=len(of_kind) - len(labelled),
        reasons=dict(
            Counter(verdict for verdict in verdicts[0] if isinstance(verdict, str)).most_common()
        ),
        repeats=len(verdicts),
        retest=_retest(verdicts, cases, scales) if len(verdicts) > 1 else None,
        items=content_id([(row.item.id, row.label) for row in labelled]),
        measured=now(),
    )


def _retest(
    verdicts: Sequence[Sequence[Verdict]], cases: Sequence[str], scales: Mapping[str, Any]
) -> RaterAgreement:
    """Compare all pairs of repeats on the same item; pairs with a missing verdict are unscored."""
    repeats = [_numbers(repeat) for repeat in verdicts]
    rows = [row for two in combinations(repeats, 2) for row in zip(*two, cases, strict=True)]
    pairs = [(a, b, case) for a, b, case in rows if a is not None]
    firsts, seconds, owners = (
        [a for a, _, _ in pairs],
        [b for _, b, _ in pairs],
        [case for _, _, case in pairs],
    )
    return agreement(firsts, seconds, owners, raters=("one repeat", "another repeat"), **scales)


def _numbers(verdicts: Sequence[Verdict]) -> list[float | None]:
    return [None if isinstance(verdict, str) else verdict for verdict in verdicts]


def store_calibration(calibration: Calibration, judges: Sequence[str]) -> Path:
    """Store a calibration for reports, replacing one of the same judges and kind; return the
    file.
    """
    path = calibration_file(judges, calibration.kind)
    with write_errors(f"'{path}'"):
        private_folder(path.parent, links=True)
    replace(path, calibration)
    return path
