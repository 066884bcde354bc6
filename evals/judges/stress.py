"""A judge under stress: texts that want to speak for it, and the order that its verdicts must keep."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from emend.agents.judging.base import Item
from emend.evals.judges.lookup import judge_of
from emend.evals.judges.panel import Combined, Judgement, Panel, ask_all, calls_of, combine
from emend.evals.judges.stress_cases import WORDS, Rule, StressCase, case_of, rules_of
from emend.graphs.registry import JUDGES
from emend.memory.edit import FrozenModel

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from emend.graphs.judges.graph import Judge

Outcome = Literal["holds", "broken", "unscored"]
STEP = 1.0
"""Of marks from 1 to 5, which two that are about the same may be apart; shares may by half of it."""
SLACK = {"1 to 5": STEP, "share": STEP / 2, "yes or no": 0.0}


class StressRow(FrozenModel):
    """One text and what the judge made of it."""

    kind: str
    variant: str
    about: str
    output: str
    value: float | None
    why: str = ""
    """Why there is no number."""


class Relation(FrozenModel):
    """What must hold between two texts, and whether it does; unscored where one of them has no number."""

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


def stress_items(kind: str) -> dict[str, Item]:
    """The shipped texts of that kind of judge by variant.

    Raises:
        BadSettings: there are none.
    """
    return case_of(kind, {}).items(kind)


def stress(
    panel: Panel,
    models: "dict[str, BaseChatModel]",
    kinds: Sequence[str] = (),
    concurrency: int = 4,
    cases: Mapping[str, StressCase] | None = None,
) -> StressReport:
    """Have the stress set judged.

    Args:
        panel: who judges and how.
        models: by the names of the panel.
        kinds: names of judges; those of `cases` by default, and all shipped ones without these.
        concurrency: calls at the same time.
        cases: a user's own by kind, which count before the shipped ones.

    Raises:
        BadSettings: an unknown judge, or one without a stress set.
        ModelError: a judge cannot be asked.
    """
    named = list(dict.fromkeys(kinds or cases or JUDGES.builtin))
    told = [(kind, judge_of(kind), case_of(kind, cases or {})) for kind in named]  # all, before one is asked
    rows: list[StressRow] = []
    relations: list[Relation] = []
    for kind, judge, case in told:
        found, failure = _judged(panel, models, kind, judge, case, concurrency)
        rows += [_row(kind, variant, judge.role.output, one, failure) for variant, one in found.items()]
        values = {variant: one.values.get(judge.role.output) for variant, one in found.items()}
        relations += [_relation(kind, rule, values, SLACK[judge.role.scale]) for rule in rules_of(case)]
    return StressReport(judge=", ".join(panel.judges), rows=tuple(rows), relations=tuple(relations))


def _judged(
    panel: Panel, models: "dict[str, BaseChatModel]", kind: str, judge: "Judge", case: StressCase, concurrency: int
) -> tuple[dict[str, Combined], str]:
    """The numbers by variant, and the first failure."""
    items = case.items(judge.name)
    told: list[Judgement] = []
    single = panel.model_copy(update={"batch": False})  # the texts of one batch would be read side by side
    calls = calls_of(single, judge, list(items.values()), set())
    with JUDGES.plugin_errors(kind):
        tally = ask_all(calls, models, told.extend, panel.retries, concurrency)
    found = {
        variant: combine(panel, judge, [one for one in told if one.item == item.id]) for variant, item in items.items()
    }
    return found, tally.first


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


def _relation(kind: str, rule: Rule, values: dict[str, float | None], slack: float) -> Relation:
    one, other = values.get(rule.left), values.get(rule.right)
    outcome: Outcome = "unscored"
    if one is not None and other is not None:
        holds = {">": one > other, "<=": one <= other, "about": abs(one - other) <= slack}[rule.op]
        outcome = "holds" if holds else "broken"
    return Relation(kind=kind, outcome=outcome, **rule.model_dump())
