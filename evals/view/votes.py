"""Answers on which judges, repeats or orders of a scoring differ."""

from pathlib import Path

from emend.evals.case import Record
from emend.evals.judges.panel import Judgement
from emend.evals.judges.store import find_scoring, installed_judges, plan, read_judgements
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
    reasons = _reasons(folder, {item.item for vote in votes for item in vote.judgements})
    return SplitVotes(scoring=scoring.id, judgements=count, total=total, votes=tuple(_with(v, reasons) for v in votes))


def _differ(judgements: list[Judgement]) -> bool:
    values = {tuple(sorted(judgement.values.items())) for judgement in judgements if not judgement.problem}
    return len(values) > 1


def _reasons(folder: Path, items: set[str]) -> dict[tuple[object, ...], Judgement]:
    """The judgements of some items in full."""
    scoring = find_scoring(folder)
    if scoring is None:
        return {}
    return {each.key: each for each in read_judgements(folder, scoring) if each.item in items}


def _with(vote: SplitVote, full: dict[tuple[object, ...], Judgement]) -> SplitVote:
    judgements = tuple(full.get(judgement.key, judgement) for judgement in vote.judgements)
    return vote.model_copy(update={"judgements": judgements})
