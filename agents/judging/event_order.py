"""Lists of events in a reply, and BEAM's score of their order by tau-b."""

import re
from collections.abc import Sequence
from typing import NamedTuple

# Prefix of a list item: a number, a letter in brackets, or a dash.
_LIST_MARK = re.compile(r"^\s*(?:[-*•]+|\(?\d{1,3}[.):]|\(?[a-z][.)])\s+", re.IGNORECASE)
_NUMBERED = re.compile(r"(?:(?<=\s)|^)\(?\d{1,3}[.)]\s")


class OrderScores(NamedTuple):
    """F1 of the events, tau-b of their order scaled to 0..1 (if defined), and the product of
    both.
    """

    f1: float
    tau: float | None
    score: float | None


def events_of(reply: str) -> list[str]:
    """Return the events listed in a reply: its lines, or the numbered items of a single line,
    without list marks.

    Blank lines and an introduction that ends in a colon ("You mentioned, in this order:") are not
    events; BEAM's code counts them as wrong ones.
    """
    lines = [line for line in reply.splitlines() if line.strip()]
    if len(lines) == 1:
        lines = _NUMBERED.split(lines[0])
    if len(lines) > 1 and lines[0].rstrip(" \t*").endswith((":", "：")):
        lines = lines[1:]
    events = [_LIST_MARK.sub("", line).strip(" \t,;") for line in lines]
    return [event for event in events if event]


def order_scores(count: int, matches: Sequence[int | None]) -> OrderScores:
    """Return BEAM's score of an order of events: tau-b scaled to 0..1, times F1.

    Events that are missing on one side share the last rank of that side.

    Args:
        count: number of gold events, in order.
        matches: for each event of the reply, the index of its gold event from 0, or None; each
            index at most once.
    """
    from scipy.stats import kendalltau  # imported here because it is slow to import

    hits = [match for match in matches if match is not None]
    if not count or not hits:
        return OrderScores(0.0, None, 0.0)
    precision, recall = len(hits) / len(matches), len(hits) / count
    f1 = 2 * precision * recall / (precision + recall)
    strangers = [position for position, match in enumerate(matches) if match is None]
    last = count + len(strangers) + 1
    positions = {match: rank for rank, match in enumerate(matches, 1) if match is not None}
    right = [*range(1, count + 1), *(last for _ in strangers)]
    replied = [positions.get(event, last) for event in range(count)]
    replied += [position + 1 for position in strangers]
    if len(right) == 1:
        return OrderScores(f1, None, None)
    tau = float(kendalltau(right, replied, variant="b").statistic)
    share = (tau + 1) / 2
    return OrderScores(f1, share, share * f1)
