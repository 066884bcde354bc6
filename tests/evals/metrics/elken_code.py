"""Parts of ELKEN's code that Emend has no use for, kept for the comparison with its published numbers."""

from collections.abc import Iterable, Sequence

from emend.evals.metrics.elken import FULL_MARK, SCALES, Marks, edit_level

UNREAD = -1
"""The code's mark for a reply that it cannot parse."""


def parse_marks(reply: str, count: int) -> list[Marks | None]:
    """The marks of `count` answers that were judged in one call, one per line; None for each that cannot be read.

    A line is "II. Accuracy: 5; Coherence: 4; Comprehensive: 5; Overall: 4", in any case; what follows the last full
    stop is read. A preface shifts the lines, as in the code.
    """
    lines = reply.strip().split("\n")[:count]
    return [*map(_marks, lines), *[None] * (count - len(lines))]


def parse_consistency(reply: str) -> int | None:
    """The mark for how far two answers agree: the number after the last colon of the first line; None without one."""
    return _number(reply.split("\n", 1)[0].rsplit(":", 1)[-1])


def mean_mark(marks: Sequence[Marks | None], scale: str, original: bool = False) -> float | None:
    """Mean mark on a scale over the answers that have one; `original`: over all, the unread as -1, as the code does."""
    values = [UNREAD if found is None else found[scale] for found in marks if found is not None or original]
    return sum(values) / len(values) if values else None


def consistency_rate(marks: Sequence[int | None]) -> float | None:
    """Locality: share of 5 among the marks that could be read."""
    read = [mark for mark in marks if mark is not None]
    return sum(mark == FULL_MARK for mark in read) / len(read) if read else None


def overall_edit_level(
    facts: Iterable[tuple[str, bool]], marks: Sequence[Marks | None], events: Sequence[str]
) -> float | None:
    """Share of events whose judged answers all have 5 overall and whose fact questions, if any, are all right.

    Args:
        facts: (event, whether right) per fact question in scope; events without judged answers are not counted.
        marks: per judged answer in scope.
        events: the event of each.
    """
    counted = set(events)
    told = [(event, right) for event, right in facts if event in counted]
    told += [(event, _full(found, "overall")) for event, found in zip(events, marks, strict=True)]
    return edit_level([right for _, right in told], [event for event, _ in told])


def _marks(line: str) -> Marks | None:
    pairs = [part.partition(":") for part in line.rsplit(".", 1)[-1].split(";")]
    found = {name.strip().lower(): _number(value) for name, _, value in pairs}
    marks = {scale: mark for scale in SCALES if (mark := found.get(scale)) is not None}
    return marks if len(marks) == len(SCALES) else None


def _full(marks: Marks | None, scale: str) -> bool:
    return marks is not None and marks[scale] == FULL_MARK


def _number(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None
