"""Answers on which judges, repeats or orders of a scoring differ."""

from pathlib import Path

from emend.evals.case import Record
from emend.evals.judging.panel import Judgement
from emend.evals.judging.store import find_scoring, installed_judges, plan, read_judgements
from emend.memory.edit import FrozenModel

LIMIT = 500
"""Number of answers that are listed; all are counted."""


class SplitVote(FrozenModel):
    """An answer with the judgements of it that differ."""

    kind: str
    record: Record
    judgements: tuple[Judgement, ...]


class SplitVotes(FrozenModel):
    """The answers on which the newest scoring's votes differ, the first ones, and how many there are."""

    scoring: str = ""
    judgements: int = 0
    total: int = 0
    votes: tuple[SplitVote, ...] = ()


def split_votes(folder: Path) -> SplitVotes:
    """Collect them.

    Raises:
        BadData: a damaged line.
    """
    scoring = find_scoring(folder)
    if scoring is None:
        return SplitVotes()
    by_item: dict[str, list[Judgement]] = {}
    count = 0
    for judgement in read_judgements(folder, scoring):
        count += 1
        by_item.setdefault(judgement.item, []).append(judgement.without_texts())
    split = {item: judgements for item, judgements in by_item.items() if _differ(judgements)}
    votes, total = list[SplitVote](), 0
    for record, items in plan(folder, installed_judges(scoring)) if split else ():
        for kind, item in items.items():
            if not isinstance(item, str) and item.id in split:
                total += 1
                if len(votes) < LIMIT:
                    votes.append(SplitVote(kind=kind, record=record, judgements=tuple(split[item.id])))
    listed = {judgement.item for vote in votes for judgement in vote.judgements}
    full = {each.key: each for each in read_judgements(folder, scoring) if each.item in listed}
    with_texts = (
        vote.model_copy(update={"judgements": tuple(full.get(each.key, each) for each in vote.judgements)})
        for vote in votes
    )
    return SplitVotes(scoring=scoring.id, judgements=count, total=total, votes=tuple(with_texts))


def _differ(judgements: list[Judgement]) -> bool:
    values = {tuple(sorted(judgement.values.items())) for judgement in judgements if not judgement.problem}
    return len(values) > 1
