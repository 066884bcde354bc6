"""Disputed verdicts, in which a judge accepts a reply whose words do not support it, and their
settlement.
"""

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Literal, NamedTuple

from emend.agents.judging.base import Item, Role, Verdict
from emend.agents.judging.evidence import find_doubt

# Maps question, gold answers and reply to the probability that the reply is equivalent to a gold
# answer.
EquivalenceScorer = Callable[[str, Sequence[str], str], float]
# Probability below which the scorer contradicts a judge.
#
# On LoCoMo's replies, with the scorer without an encoder, 0.05 lowers the share of vague wrong
# answers that are still accepted from 17.1 to 16.1%, and raises the share of right answers that are
# disputed from 5.3 to 5.7%; with 0.1 the shares are 14.2 and 6.4%.
IMPOSSIBLE = 0.05
CONTRADICTED = "the equivalence scorer finds it impossible"
# Additional output of a judge: 1 if a verdict is disputed and not settled, else 0.
DISPUTED = "disputed"
# Judge of the verdicts with which people settle disputes.
PEOPLE = "people"
# Who settled a dispute; empty if there is none.
Settlement = Literal["", "open", "panel", "second", "people"]


def find_dispute(
    role: Role, item: Item, verdict: Verdict, scorer: EquivalenceScorer | None = None
) -> str | None:
    """Return why a verdict that accepts a reply is disputed; an empty text if it is not.

    Args:
        role: the judge's role; if it does not compare replies with gold answers, the result is
            None.
        item: item that was judged.
        verdict: a judge's verdict on the item.
        scorer: optional equivalence scorer without a language model, as a second opinion.
    """
    compared = role.compared(item)
    if compared is None:
        return None
    if verdict.values.get(role.output) != 1.0:
        return ""
    if doubt := find_doubt(compared, verdict.quote):
        return doubt
    if scorer is not None and scorer(*compared) < IMPOSSIBLE:
        return CONTRADICTED
    return ""


class CastVote(NamedTuple):
    """Vote of one judge in one repeat: its numbers, and why its acceptance is disputed, if so."""

    judge: str
    values: dict[str, float]
    dispute: str = ""


def dispute_among(votes: Sequence[CastVote], output: str) -> str:
    """Return why the accepting votes are disputed; "" if most of them are not disputed."""
    ayes = [vote for vote in votes if vote.values.get(output) == 1.0]
    reasons = [vote.dispute for vote in ayes if vote.dispute]
    if 2 * len(reasons) >= max(1, len(ayes)) and reasons:
        return reasons[0]
    return ""


def settle(
    votes: Sequence[CastVote],
    second: Sequence[CastVote],
    people: Sequence[CastVote],
    output: str,
) -> tuple[Settlement, float]:
    """Return who settles a dispute, and the settled value.

    People take precedence over second judges, and second judges over the panel. The panel settles a
    dispute if judges with different names accept the reply. With a single accepting judge, even if
    asked repeatedly, the dispute stays open unless people or second judges, without a tie, settle
    it.
    """
    if people:
        return "people", people[-1].values[output]
    seconds = [vote.values[output] for vote in second if output in vote.values]
    if seconds and (share := fmean(seconds)) != 0.5:
        return "second", float(share > 0.5)
    ayes = {vote.judge for vote in votes if vote.values.get(output) == 1.0}
    return "panel" if len(ayes) > 1 else "open", 1.0
