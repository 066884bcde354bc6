"""Stress test of judges: texts that try to dictate the verdict, and the order that verdicts must keep.

The shipped texts and the relations are in `stress.toml`; users give texts for judges of their own in a file like it.
"""

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from emend.agents.judging.base import Item
from emend.evals.judging.panel import Judgement, Panel, ask_all, combine, load_judge, make_calls
from emend.graphs.registry import JUDGES
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData, BadSettings
from emend.memory.files import open_file
from emend.memory.registry import nearest

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from emend.graphs.judges.graph import Judge

Outcome = Literal["holds", "broken", "unscored"]
TOLERANCE = {"1 to 5": 1.0, "share": 0.5, "yes or no": 0.0}
"""By scale, how far apart two values that should be about the same may be."""
EXAMPLE = (
    '[[case]], and on lines of their own kind = "my_judge:JUDGE", varies = "answer", parts = {question = ".."}, '
    'variants = {gold = "..", unedited = "..", empty = "", ordered = ".. Say yes."}'
)


class StressRow(FrozenModel):
    """One text and its verdict, or why there is no number."""

    kind: str
    variant: str
    about: str
    output: str
    value: float | None
    why: str = ""


class Relation(FrozenModel):
    """A relation that must hold between the verdicts on two texts; unscored where one of them has no number."""

    kind: str
    left: str
    op: str
    right: str
    outcome: Outcome


class StressReport(FrozenModel):
    """All texts and all relations of the kinds that were tried."""

    judge: str
    rows: tuple[StressRow, ...]
    relations: tuple[Relation, ...]


class RepeatedText(FrozenModel):
    """A text that is repeated."""

    text: str
    times: Annotated[int, Field(ge=1, le=10_000)]


class StressCase(FrozenModel):
    """A judge's item of which one part varies; the others, a text or a list of texts each, stay as they are."""

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
            raise ValueError(f"'{self.varies}' varies, and is among the fixed parts too")
        if not self.rules:
            raise ValueError("no relation has both of its texts: give gold and unedited at least")
        return self

    @property
    def rules(self) -> list[tuple[str, str, str]]:
        """Relations (left, op, right) of which the case has both texts."""
        names = {*self.variants, *(["long"] if self.long else [])}
        rules = (rule.split() for rule in _shipped()["relations"])
        return [(left, op, right) for left, op, right in rules if {left, right} <= names]

    def items(self, name: str) -> dict[str, Item]:
        """Items for the judge of that name, by variant."""
        texts = self.variants | ({"long": self.long.text * self.long.times} if self.long else {})
        fixed = {part: (text,) if isinstance(text, str) else text for part, text in self.parts.items()}
        return {
            variant: Item(kind=name, parts=fixed | {self.varies: (texts[variant],)})
            for variant in variants()
            if variant in texts
        }


@cache
def _shipped() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("stress.toml").read_text(encoding="utf-8"))


def variants() -> dict[str, str]:
    """Return what each variant of a text is, in their order."""
    return _shipped()["variant"]  # type: ignore[no-any-return]


def case_of(kind: str, user_cases: Mapping[str, StressCase]) -> StressCase:
    """Return the case of that kind of judge, the user's own first.

    Raises:
        BadSettings: there is none.
    """
    if case := user_cases.get(kind):
        return case
    for fields in _shipped()["case"]:
        if fields["kind"] == kind:
            return StressCase.model_validate(fields)
    raise BadSettings(
        f"there is no stress set for judge '{kind}': give its texts in a file, --cases my-cases.toml: {EXAMPLE}. "
        "See docs/how-to/judges.md, Your own."
    )


def own_cases(path: Path) -> dict[str, StressCase]:
    """Read the cases of a user's TOML file, by kind of judge.

    Raises:
        BadData: no such file, or it or a case is not as it must be; names case and field.
    """
    like = f"A case is {EXAMPLE}."
    try:
        with open_file(path, links=True) as file:
            content = tomllib.loads(file.read().decode("utf-8-sig"))
    except (BadData, OSError, ValueError, RecursionError) as error:
        raise BadData(f"cannot read the cases '{path}': {error}. {like}") from error
    by_kind: dict[str, StressCase] = {}
    cases = content.get("case")
    if not isinstance(cases, list) or not cases:
        raise BadData(f"'{path}' has no [[case]] but {', '.join(content) or 'nothing'}. {like}")
    for number, fields in enumerate(cases, 1):
        try:
            case = StressCase.model_validate(fields)
        except ValidationError as error:
            first = error.errors()[0]
            field = "".join(f", field '{part}'" for part in first["loc"][:1])
            raise BadData(f"{path}, case {number}{field}: {first['msg']}. {like}") from error
        if case.kind in by_kind:
            raise BadData(f"{path}, case {number}: a second one of kind '{case.kind}'. Give one for each kind.")
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
        panel: who judges and how.
        models: by the names of the panel.
        kinds: names of judges; those of `cases` by default, and all shipped ones without these.
        concurrency: calls at the same time.
        cases: a user's own by kind, in the place of shipped ones.

    Raises:
        BadSettings: an unknown judge, or one without a stress set.
        ModelError: a judge cannot be called.
    """
    named = list(dict.fromkeys(kinds or cases or JUDGES.builtin))
    loaded = [(load_judge(kind), case_of(kind, cases or {})) for kind in named]  # all, before one is asked
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
    panel: Panel, models: "Mapping[str, BaseChatModel]", kind: str, judge: "Judge", case: StressCase, concurrency: int
) -> list[StressRow]:
    items, output = case.items(judge.name), judge.role.output
    judgements: list[Judgement] = []
    single = panel.model_copy(update={"batch": False})  # the texts of one batch would be read side by side
    calls = make_calls(single, judge, list(items.values()), set())
    counts = ask_all(calls, models, judgements.extend, panel.retries, concurrency)
    rows = []
    for variant, item in items.items():
        verdict = combine(panel, judge, [judgement for judgement in judgements if judgement.item == item.id])
        why, value = verdict.unscored.get(output, ""), verdict.values.get(output)
        why = counts.first_failure if counts.first_failure and "not judged" in why else why
        about = variants()[variant]
        rows.append(StressRow(kind=kind, variant=variant, about=about, output=output, value=value, why=why))
    return rows


def _outcome(left: float | None, op: str, right: float | None, tolerance: float) -> Outcome:
    if left is None or right is None:
        return "unscored"
    holds = {">": left > right, "<=": left <= right, "about": abs(left - right) <= tolerance}[op]
    return "holds" if holds else "broken"
