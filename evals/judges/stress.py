"""Stress test of judges: texts that try to dictate the verdict, and the order that verdicts must keep."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from emend.evals.judges.panel import CombinedVerdict, Judgement, Panel, ask_all, combine, load_judge, make_calls
from emend.evals.judges.stress_cases import WORDS, StressCase, StressRule, case_of, rules_of
from emend.graphs.registry import JUDGES
from emend.memory.edit import FrozenModel

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from emend.graphs.judges.graph import Judge

Outcome = Literal["holds", "broken", "unscored"]
TOLERANCE = {"1 to 5": 1.0, "share": 0.5, "yes or no": 0.0}
"""By scale, how far apart two values that should be about the same may be."""


class StressRow(FrozenModel):
    """One text and its verdict."""

    kind: str
    variant: str
    about: str
    output: str
    value: float | None
    why: str = ""
    """Why there is no number."""


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
    loaded = [(kind, load_judge(kind), case_of(kind, cases or {})) for kind in named]  # all, before one is asked
    rows: list[StressRow] = []
    relations: list[Relation] = []
    for kind, judge, case in loaded:
        verdicts, failure = _judged(panel, models, kind, judge, case, concurrency)
        rows += [_row(kind, variant, judge.role.output, verdict, failure) for variant, verdict in verdicts.items()]
        values = {variant: verdict.values.get(judge.role.output) for variant, verdict in verdicts.items()}
        relations += [_relation(kind, rule, values, TOLERANCE[judge.role.scale]) for rule in rules_of(case)]
    return StressReport(judge=", ".join(panel.judges), rows=tuple(rows), relations=tuple(relations))


def _judged(
    panel: Panel, models: "Mapping[str, BaseChatModel]", kind: str, judge: "Judge", case: StressCase, concurrency: int
) -> tuple[dict[str, CombinedVerdict], str]:
    """The numbers by variant, and the first failure."""
    items = case.items(judge.name)
    judgements: list[Judgement] = []
    single = panel.model_copy(update={"batch": False})  # the texts of one batch would be read side by side
    calls = make_calls(single, judge, list(items.values()), set())
    with JUDGES.plugin_errors(kind):
        counts = ask_all(calls, models, judgements.extend, panel.retries, concurrency)
    verdicts = {
        variant: combine(panel, judge, [judgement for judgement in judgements if judgement.item == item.id])
        for variant, item in items.items()
    }
    return verdicts, counts.first_failure


def _row(kind: str, variant: str, output: str, verdict: CombinedVerdict, failure: str) -> StressRow:
    why = verdict.unscored.get(output, "")
    return StressRow(
        kind=kind,
        variant=variant,
        about=WORDS[variant],
        output=output,
        value=verdict.values.get(output),
        why=failure if failure and "not judged" in why else why,
    )


def _relation(kind: str, rule: StressRule, values: dict[str, float | None], tolerance: float) -> Relation:
    left, right = values.get(rule.left), values.get(rule.right)
    outcome: Outcome = "unscored"
    if left is not None and right is not None:
        holds = {">": left > right, "<=": left <= right, "about": abs(left - right) <= tolerance}[rule.op]
        outcome = "holds" if holds else "broken"
    return Relation(kind=kind, outcome=outcome, **rule.model_dump())
