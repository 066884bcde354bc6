"""Combination of a panel's votes on one item."""

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from emend.evals.judging.disputes import (
    DISPUTED,
    PEOPLE,
    CastVote,
    Settlement,
    dispute_among,
    settle,
)
from emend.evals.judging.judgement import Judgement
from emend.evals.judging.panel import Panel

if TYPE_CHECKING:
    from emend.graphs.judges.graph import Judge

NOT_YET = "not judged yet"
ORDER_DEPENDENT = "the verdict changes with the order of the two texts"


class CombinedVerdict(NamedTuple):
    """Numbers of an item, a reason for each missing number, and who settled a dispute (`open` if
    nobody did).
    """

    values: dict[str, float]
    unscored: dict[str, str]
    dispute: Settlement = ""


def combine(panel: Panel, judge: "Judge", judgements: Sequence[Judgement]) -> CombinedVerdict:
    """Combine one item's judgements into one number per output.

    Both orders of one judge and repeat are one vote: marks are averaged, and a yes or no that
    changes with the order does not count. Yes-or-no outputs and full marks are decided by majority;
    marks and shares are averaged. With `combine` mean, all outputs are averaged. An item has no
    number if at most half of the voters have a vote, or while its acceptance is disputed and not
    settled by people, second judges or several accepting judges.
    """
    role = judge.role
    votes, problems = _votes(panel, panel.judges, judge, judgements)
    if len(votes) <= len(problems):
        return CombinedVerdict(
            {}, dict.fromkeys(role.outputs, _reason(problems, len(votes) + len(problems)))
        )
    combined = CombinedVerdict({}, {})
    for name in role.outputs:
        values = [vote.values[name] for vote in votes if name in vote.values]
        value = _decide(values, name in role.voted and panel.combine == "majority")
        if isinstance(value, str):
            combined.unscored[name] = value if values else role.missing
        else:
            combined.values[name] = value
    if role.output not in combined.values or all(
        judgement.dispute is None for judgement in judgements
    ):
        return combined
    return _settled(panel, judge, judgements, votes, combined)


def _settled(
    panel: Panel,
    judge: "Judge",
    judgements: Sequence[Judgement],
    votes: Sequence[CastVote],
    combined: CombinedVerdict,
) -> CombinedVerdict:
    """Return the verdict after handling its dispute: settled, or without a number if it is open."""
    output = judge.role.output
    reason = dispute_among(votes, output) if combined.values[output] else ""
    if not reason:
        return combined._replace(values={**combined.values, DISPUTED: 0.0})
    second, _ = _votes(panel, panel.second, judge, judgements)
    people = [
        CastVote(PEOPLE, judgement.values) for judgement in judgements if judgement.judge == PEOPLE
    ]
    settlement, value = settle(votes, second, people, output)
    if settlement == "open":
        unscored = {**combined.unscored, output: f"{DISPUTED}: {reason}"}
        values = {name: number for name, number in combined.values.items() if name != output}
        return CombinedVerdict({**values, DISPUTED: 1.0}, unscored, settlement)
    return CombinedVerdict(
        {**combined.values, output: value, DISPUTED: 0.0}, combined.unscored, settlement
    )


def _votes(
    panel: Panel, specs: Sequence[str], judge: "Judge", judgements: Sequence[Judgement]
) -> tuple[list[CastVote], list[str]]:
    """Return the votes of these judges in all repeats, and the reasons for missing votes."""
    votes, problems = list[CastVote](), list[str]()
    by_voter: dict[tuple[str, int], list[Judgement]] = {}
    for judgement in judgements:
        by_voter.setdefault((judgement.judge, judgement.repeat), []).append(judgement)
    for spec in specs:
        for repeat in range(panel.repeats):
            cast = by_voter.get((spec, repeat), [])
            vote = _vote(cast, len(panel.orders(judge)), judge)
            if isinstance(vote, str):
                problems.append(vote)
            else:  # a vote is disputed only if it is disputed in both orders
                disputes = [judgement.dispute or "" for judgement in cast]
                votes.append(CastVote(spec, vote, disputes[0] if all(disputes) else ""))
    return votes, problems


def _vote(judgements: Sequence[Judgement], orders: int, judge: "Judge") -> dict[str, float] | str:
    """Return one judge's vote in one repeat, or the reason why there is none."""
    if len(judgements) < orders:
        return NOT_YET
    for judgement in judgements:
        if judgement.problem:
            return judgement.problem
    values: dict[str, list[float]] = {}
    for name in judgements[0].values:
        by_order = [judgement.values[name] for judgement in judgements if name in judgement.values]
        if len(by_order) == len(judgements):
            values[name] = by_order
    if judge.role.scale == "yes or no" and any(
        len(set(by_order)) > 1 for by_order in values.values()
    ):
        return ORDER_DEPENDENT
    try:
        return judge.role.derive({name: fmean(by_order) for name, by_order in values.items()})
    except KeyError as error:  # the scoring was written by another version of the judge
        return f"the judgement has no value {error}"


def _decide(values: Sequence[float], by_majority: bool) -> float | str:
    if not values:
        return "no vote"
    if not by_majority:
        return fmean(values)
    ayes = sum(vote == 1.0 for vote in values)
    if 2 * ayes == len(values):
        return f"the votes are split {ayes} to {len(values) - ayes}"
    return float(2 * ayes > len(values))


def _reason(problems: Sequence[str], voters: int) -> str:
    if voters == 1:
        return problems[0]
    return f"{len(problems)} of {voters} judgements are unusable: {problems[0]}"
