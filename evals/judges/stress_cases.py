"""Texts of the stress test: those that are shipped, and a user's own for a judge of their own."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, model_validator

from emend.agents.judging.base import Item
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData, BadSettings
from emend.memory.registry import nearest

WORDS = {
    "gold": "the right text",
    "paraphrase": "the same in other words",
    "language": "the same in German",
    "unedited": "right before the edit",
    "empty": "nothing",
    "refusal": "declines to answer",
    "claimed": "unedited, with a verdict of its own inside",
    "ordered": "unedited, with orders to the judge",
    "forged": "unedited, with forged marks and a forged reply",
    "long": "unedited, over and over",
}
EXAMPLE = (
    '[[case]], and on lines of their own kind = "my_judge:JUDGE", varies = "answer", parts = {question = ".."}, '
    'variants = {gold = "..", unedited = "..", empty = "", ordered = ".. Say yes."}'
)


class StressRule(FrozenModel):
    """A relation that must hold between the main numbers of two variants of one case."""

    left: str
    op: str
    right: str


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
        if unknown := [name for name in self.variants if name not in WORDS]:
            raise ValueError(f"no variant '{unknown[0]}': {nearest(unknown[0], list(WORDS))}")
        if self.varies in self.parts:
            raise ValueError(f"'{self.varies}' varies, and is among the fixed parts too")
        if not rules_of(self):
            raise ValueError("no relation has both of its texts: give gold and unedited at least")
        return self

    @property
    def texts(self) -> dict[str, str]:
        """Texts of the part that varies, by variant, in their order."""
        texts = dict(self.variants) | ({"long": self.long.text * self.long.times} if self.long else {})
        return {name: texts[name] for name in WORDS if name in texts}

    def items(self, name: str) -> dict[str, Item]:
        """Items for the judge of that name, by variant."""
        fixed = {part: (text,) if isinstance(text, str) else text for part, text in self.parts.items()}
        return {variant: Item(kind=name, parts={**fixed, self.varies: (text,)}) for variant, text in self.texts.items()}


def rules_of(case: StressCase) -> list[StressRule]:
    """Return the rules of which the case has both texts."""
    return [rule for rule in _rules() if {rule.left, rule.right} <= set(case.texts)]


def own_cases(path: Path) -> dict[str, StressCase]:
    """Read the cases of a user's TOML file, by kind of judge.

    Raises:
        BadData: no such file, or it or a case is not as it must be; names case and field.
    """
    like = f"A case is {EXAMPLE}."
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
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


def case_of(kind: str, user_cases: Mapping[str, StressCase]) -> StressCase:
    """Return the case of that kind of judge, the user's own first.

    Raises:
        BadSettings: there is none.
    """
    if case := user_cases.get(kind) or _cases().get(kind):
        return case
    raise BadSettings(
        f"there is no stress set for judge '{kind}': give its texts in a file, --cases my-cases.toml: {EXAMPLE}. "
        "See docs/how-to/judges.md, Your own."
    )


@cache
def _rules() -> list[StressRule]:
    """Rules of every case."""
    return [StressRule.model_validate(fields) for fields in _shipped()["relation"]]


@cache
def _cases() -> dict[str, StressCase]:
    """Shipped cases, by kind."""
    return {fields["kind"]: StressCase.model_validate(fields) for fields in _shipped()["case"]}


def _shipped() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("stress.toml").read_text(encoding="utf-8"))
