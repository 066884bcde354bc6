"""Leniency of judges: the share of constructed wrong answers, specific and vague, that a judge
accepts, beside the share of right ones.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from emend.agents.judging.base import Item, JudgeInput
from emend.agents.judging.conversations import ABSTENTION
from emend.evals.judging.calibration.stored import read_calibration
from emend.evals.judging.calls import ask_calls, make_calls
from emend.evals.judging.disputes import EquivalenceScorer
from emend.evals.judging.items import judge_inputs, plan
from emend.evals.judging.judgement import Judgement
from emend.evals.judging.panel import Panel
from emend.evals.judging.votes import CombinedVerdict, combine
from emend.evals.judging.wrong_answers import (
    KINDS,
    PLANTED_KINDS,
    GoldQuestion,
    PlantedAnswer,
    PlantedKind,
    Writer,
    WrongKind,
    make_wrong,
    right_answer,
)
from emend.evals.log.manifest import Manifest
from emend.evals.metrics.estimate import Estimate
from emend.evals.metrics.share_interval import wilson
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from emend.graphs.judges.graph import Judge

# The judge that compares replies with gold answers.
KIND = "equivalence"
# Judges of answers about conversations, which compare a reply with a rubric or by a criterion.
CONVERSATION_KINDS = ("nuggets", "order", "remembered")
NO_ITEM = "the judge does not judge such an answer"


class LeniencyRow(FrozenModel):
    """Results for right answers or one kind of wrong ones: the share that the judge accepts, and
    the share (`left`) that is still accepted after disputes.

    Both shares are over the same `n` answers, with 95 % Wilson intervals; `reasons` has the numbers
    of unscored answers by reason.
    """

    kind: PlantedKind
    accepted: Estimate
    disputed: int
    left: Estimate
    reasons: dict[str, int]


class LeniencyExample(FrozenModel):
    """Wrong answer that is still accepted after disputes."""

    kind: WrongKind
    question: str
    gold: str
    answer: str


class LeniencyReport(FrozenModel):
    """Leniency of a judge by kind of planted answer, with accepted wrong examples and its
    calibration.
    """

    judge: str
    writer: str
    rows: tuple[LeniencyRow, ...]
    examples: tuple[LeniencyExample, ...]
    calibration: dict[str, Any] | None
    """Stored agreement of these judges, with this prompt, with people."""


def gold_questions(folder: Path, judge: "Judge", size: int, seed: int = 0) -> list[GoldQuestion]:
    """Sample distinct questions of a run with their gold answers.

    Raises:
        BadData: the folder has no run.
        BadSettings: the run has no question whose answers the judge compares with gold answers.
    """
    Manifest.read(folder)
    drawn: dict[GoldQuestion, None] = {}
    for _, items in plan(folder, {judge.name: judge}):
        item = items.get(judge.name)
        compared = judge.role.compared(item) if isinstance(item, Item) else None
        if compared is not None and compared.golds:
            drawn.setdefault(GoldQuestion(compared.question, compared.golds))
    if not drawn:
        raise BadSettings(
            f"the run in '{folder}' has no answer that is compared with gold: {KIND} "
            "judges none of it."
        )
    return _sample(drawn, size, seed)


def rubric_questions(
    folder: Path, judge: "Judge", size: int, seed: int = 0
) -> dict[GoldQuestion, JudgeInput]:
    """Sample questions of a run for a judge of conversations, with the judge's inputs.

    Questions whose correct answer is to abstain are left out, since a vague answer to them may be
    correct.

    Raises:
        BadData: the folder has no run.
        BadSettings: the run has no such question with a gold answer.
    """
    Manifest.read(folder)
    drawn: dict[GoldQuestion, JudgeInput] = {}
    for view in judge_inputs(folder):
        abstains = ABSTENTION in (view.kind, view.criterion)
        if view.gold and not abstains and isinstance(judge.role.pick(view), Item):
            drawn.setdefault(GoldQuestion(view.question, view.gold), view)
    if not drawn:
        raise BadSettings(
            f"the run in '{folder}' has no answer with gold that {judge.name} judges: name "
            "another --kind."
        )
    return {question: drawn[question] for question in _sample(drawn, size, seed)}


def _sample(drawn: Iterable[GoldQuestion], size: int, seed: int) -> list[GoldQuestion]:
    questions = sorted(drawn)
    Random(seed).shuffle(questions)
    return questions[:size]


def leniency_questions(
    folder: Path, judge: "Judge", size: int, seed: int = 0
) -> tuple[list[GoldQuestion], dict[GoldQuestion, JudgeInput] | None]:
    """Sample questions of a run for a judge, with the inputs of a judge of conversations.

    Raises:
        EmendError: see `gold_questions` and `rubric_questions`.
    """
    if judge.name not in CONVERSATION_KINDS:
        return gold_questions(folder, judge, size, seed), None
    views = rubric_questions(folder, judge, size, seed)
    return list(views), views


def measure_leniency(
    panel: Panel,
    models: "Mapping[str, BaseChatModel]",
    answers: Sequence[GoldQuestion],
    write: Writer,
    writer_name: str,
    concurrency: int = 4,
    scorer: EquivalenceScorer | None = None,
    kind: str = KIND,
    views: Mapping[GoldQuestion, JudgeInput] | None = None,
) -> LeniencyReport:
    """Generate two wrong answers to each question and judge them and the gold answer; more than
    half of the judge's scale counts as accepted.

    Args:
        panel: models, repeats and orders of the judging.
        models: models by their names in the panel.
        answers: questions with gold answers.
        write: function that generates the wrong answers.
        writer_name: name of the writer, for the report.
        concurrency: maximum number of calls at the same time.
        scorer: scorer that disputes acceptances which it finds impossible.
        kind: name of the judge.
        views: inputs of a judge of conversations, by question.

    Raises:
        ModelError: the judges cannot be called.
    """
    judge = panel.load(kind)
    planted, items = _planted(judge, answers, write, views)
    calls = make_calls(panel, judge, list(items.values()), set())
    results = ask_calls(calls, models, panel.retries, concurrency, scorer)
    results.require_any()
    by_item = _by_item(results.judgements)
    outcomes = {
        answer: _outcome(panel, judge, by_item.get(item.id, ())) for answer, item in items.items()
    }
    return LeniencyReport(
        judge=", ".join(panel.judges),
        writer=writer_name,
        rows=tuple(_row(kind, planted, outcomes) for kind in PLANTED_KINDS),
        examples=tuple(_examples(outcomes)),
        calibration=_calibration(panel, judge),
    )


def _planted(
    judge: "Judge",
    answers: Sequence[GoldQuestion],
    write: Writer,
    views: Mapping[GoldQuestion, JudgeInput] | None,
) -> tuple[list[PlantedAnswer], dict[PlantedAnswer, Item]]:
    """Return right answers and wrong ones of both kinds, and the items of those that can be
    judged.
    """
    planted: list[PlantedAnswer] = []
    items: dict[PlantedAnswer, Item] = {}
    wrong = (make_wrong(source, kind, write) for kind, source in product(KINDS, answers))
    for answer in (*map(right_answer, answers), *wrong):
        item = _item(judge, answer, views) if not answer.problem else None
        if item is not None:
            items[answer] = item
        elif not answer.problem:
            answer = answer._replace(problem=NO_ITEM)
        planted.append(answer)
    return planted, items


def _item(
    judge: "Judge", answer: PlantedAnswer, views: Mapping[GoldQuestion, JudgeInput] | None
) -> Item | None:
    """Return the item with the planted answer instead of the run's; None if the judge makes
    none.
    """
    source = answer.source
    if views:
        view = views[source].model_copy(update={"answer": answer.text, "reply": None})
        item = judge.role.pick(view)
        return item if isinstance(item, Item) else None
    return Item.of(
        judge.name, question=source.question, one=answer.text, other="\n".join(source.golds)
    )


def _by_item(judgements: Sequence[Judgement]) -> dict[str, list[Judgement]]:
    by_item: dict[str, list[Judgement]] = {}
    for judgement in judgements:
        by_item.setdefault(judgement.item, []).append(judgement)
    return by_item


class JudgedAnswer(FrozenModel):
    """Verdict on a planted answer before (`accepted`) and after disputes (`left`), or the reason
    why there is no verdict.
    """

    accepted: bool = False
    left: bool = False
    problem: str = ""


def _outcome(panel: Panel, judge: "Judge", judgements: Sequence[Judgement]) -> JudgedAnswer:
    alone = [judgement.model_copy(update={"dispute": None}) for judgement in judgements]
    verdict, output = combine(panel, judge, alone), judge.role.output
    if output not in verdict.values:
        return JudgedAnswer(problem=verdict.unscored[output])
    final: CombinedVerdict = combine(panel, judge, judgements)
    return JudgedAnswer(
        accepted=verdict.values[output] > 0.5, left=final.values.get(output, 0.0) > 0.5
    )


def _row(
    kind: PlantedKind,
    planted: Sequence[PlantedAnswer],
    outcomes: Mapping[PlantedAnswer, JudgedAnswer],
) -> LeniencyRow:
    answers = [answer for answer in planted if answer.kind == kind]
    problems = [answer.problem or outcomes[answer].problem for answer in answers]
    scored = [
        outcomes[answer] for answer, problem in zip(answers, problems, strict=True) if not problem
    ]
    accepted, left = sum(each.accepted for each in scored), sum(each.left for each in scored)
    unscored = len(answers) - len(scored)
    return LeniencyRow(
        kind=kind,
        accepted=_share(accepted, len(scored), unscored),
        disputed=accepted - left,
        left=_share(left, len(scored), unscored),
        reasons=dict(Counter(filter(None, problems)).most_common()),
    )


def _share(count: int, n: int, unscored: int) -> Estimate:
    """Return a share with its Wilson interval, since the questions are independent."""
    if not n:
        return Estimate(mean=None, n=0, unscored=unscored)
    low, high = wilson(count, n)
    return Estimate(mean=count / n, n=n, unscored=unscored, low=low, high=high)


def _examples(outcomes: Mapping[PlantedAnswer, JudgedAnswer]) -> Iterator[LeniencyExample]:
    for answer, outcome in outcomes.items():
        if outcome.left and answer.kind != "right":
            source = answer.source
            yield LeniencyExample(
                kind=answer.kind, question=source.question, gold=source.golds[0], answer=answer.text
            )


def _calibration(panel: Panel, judge: "Judge") -> dict[str, Any] | None:
    stored = read_calibration(panel.judges, judge.name)
    if stored and stored.get("prompt_id") == judge.role.prompt_id:
        return stored
    return None
