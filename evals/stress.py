"""A judge under stress: texts that want to speak for it, and the order that its verdicts must keep."""

import tomllib
from collections.abc import Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal

from emend.agents.judging.base import Item
from emend.evals.judging import Combined, Judgement, Panel, ask_all, calls_of, combine
from emend.graphs.registry import JUDGES
from emend.memory.edit import Word
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

Outcome = Literal["holds", "broken", "unscored"]
STEP = 1.0
"""Of marks from 1 to 5, which two that are about the same may be apart; shares may by half of it."""
SLACK = {"1 to 5": STEP, "share": STEP / 2, "yes or no": 0.0}
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


class StressRow(Word):
    """One text and what the judge made of it."""

    kind: str
    variant: str
    about: str
    output: str
    value: float | None
    why: str = ""
    """Why there is no number."""


class Relation(Word):
    """What must hold between two texts, and whether it does; unscored where one of them has no number."""

    kind: str
    left: str
    op: str
    right: str
    outcome: Outcome


class StressReport(Word):
    """All texts and all relations of the kinds that were tried."""

    judge: str
    rows: tuple[StressRow, ...]
    relations: tuple[Relation, ...]


def stress_items(kind: str) -> dict[str, Item]:
    """The texts of that kind of judge by variant.

    Raises:
        BadSettings: there are none.
    """
    found = [case for case in _told()["case"] if case["kind"] == kind]
    if not found:
        known = sorted({case["kind"] for case in _told()["case"]})
        raise BadSettings(f"there is no stress set for judge '{kind}': {nearest(kind, known)}")
    (case,) = found
    variants = case["variants"] | {"long": case["long"]["text"] * case["long"]["times"]}
    fixed = {name: tuple(text) if isinstance(text, list) else (text,) for name, text in case["parts"].items()}
    return {
        variant: Item(kind=kind, parts={**fixed, case["varies"]: (variants[variant],)})
        for variant in WORDS
        if variant in variants
    }


def stress(
    panel: Panel, models: "dict[str, BaseChatModel]", kinds: Sequence[str] = (), concurrency: int = 4
) -> StressReport:
    """Have the stress set judged.

    Raises:
        BadSettings: an unknown judge, or one without a stress set.
        ModelError: a judge cannot be asked.
    """
    rows: list[StressRow] = []
    relations: list[Relation] = []
    for kind in dict.fromkeys(kinds or JUDGES.builtin):
        judge, items = JUDGES.load(kind), stress_items(kind)
        told: list[Judgement] = []
        single = panel.model_copy(update={"batch": False})  # the texts of one batch would be read side by side
        tally = ask_all(
            calls_of(single, judge, list(items.values()), set()), models, told.extend, panel.retries, concurrency
        )
        found = {
            variant: combine(panel, judge, [one for one in told if one.item == item.id])
            for variant, item in items.items()
        }
        rows += [_row(kind, variant, judge.role.output, one, tally.first) for variant, one in found.items()]
        values = {variant: one.values.get(judge.role.output) for variant, one in found.items()}
        relations += [_relation(kind, rule, values, SLACK[judge.role.scale]) for rule in _told()["relation"]]
    return StressReport(judge=", ".join(panel.judges), rows=tuple(rows), relations=tuple(relations))


def _row(kind: str, variant: str, output: str, told: Combined, failure: str) -> StressRow:
    why = told.unscored.get(output, "")
    return StressRow(
        kind=kind,
        variant=variant,
        about=WORDS[variant],
        output=output,
        value=told.values.get(output),
        why=failure if failure and "not judged" in why else why,
    )


def _relation(kind: str, rule: dict[str, str], values: dict[str, float | None], slack: float) -> Relation:
    one, other = values.get(rule["left"]), values.get(rule["right"])
    outcome: Outcome = "unscored"
    if one is not None and other is not None:
        holds = {">": one > other, "<=": one <= other, "about": abs(one - other) <= slack}[rule["op"]]
        outcome = "holds" if holds else "broken"
    return Relation(kind=kind, outcome=outcome, **rule)


def _told() -> dict[str, Any]:
    return tomllib.loads(files("emend.evals").joinpath("stress.toml").read_text(encoding="utf-8"))
