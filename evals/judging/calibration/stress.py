"""Stress test of judges with texts that try to dictate a verdict.

The texts and the relations between verdicts are in `stress.toml`; users can give texts for their
own judges in a file of the same format.
"""

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from emend.agents.judging.base import Item
from emend.evals.judging.calls import ask_calls, make_calls
from emend.evals.judging.panel import Panel
from emend.evals.judging.votes import combine
from emend.graphs.registry import JUDGES
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData, BadSettings, problem_of, reason_of
from emend.memory.files import read_file
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
        content = tomllib.loads(read_file(path, links=True, is_small=True).decode("utf-8-sig"))
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


def parts_of(kind: str) -> frozenset[str]:
    """Return the names of the parts of a built-in judge's items; empty for a user's own judge."""
    if kind not in JUDGES.builtin:
        return frozenset()
    case = case_of(kind, {})
    return frozenset({*case.parts, case.varies})
