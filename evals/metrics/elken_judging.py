"""What ELKEN's judge says of free answers, read and counted as its code does; the judge itself is asked elsewhere.

Definitions are those of examiner/ and overall_event_level_metric.py in THU-KEG/Event-Level-Knowledge-Editing. The edit
level follows the paper unless `original` is asked for. How far a judge agrees with a person has no code there: that is
`evals/metrics/agreement.py`.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from emend.evals.metrics.elken import edit_level

SCALES = ("accuracy", "coherence", "comprehensive", "overall")
FULL_MARK = 5
UNREAD = -1
"""What the code notes for a reply that it cannot read."""

Marks = Mapping[str, int]
"""Scale -> 1 to 5, for one answer."""


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


def full_mark_rate(marks: Sequence[Marks | None], scale: str) -> float | None:
    """Share of answers with 5 on a scale; one whose marks cannot be read counts as without, as in the code."""
    return sum(_full(found, scale) for found in marks) / len(marks) if marks else None


def mean_mark(marks: Sequence[Marks | None], scale: str, original: bool = False) -> float | None:
    """Mean mark on a scale over the answers that have one; `original`: over all, the unread as -1, as the code does."""
    values = [UNREAD if found is None else found[scale] for found in marks if found is not None or original]
    return sum(values) / len(values) if values else None


def consistency_rate(marks: Sequence[int | None]) -> float | None:
    """Locality: share of 5 among the marks that could be read."""
    read = [mark for mark in marks if mark is not None]
    return sum(mark == FULL_MARK for mark in read) / len(read) if read else None


def judged_edit_level(marks: Sequence[Marks | None], events: Sequence[str], original: bool = False) -> float | None:
    """Share of events whose answers all have 5 overall; None when there are none.

    Args:
        marks: per judged answer.
        events: the event of each.
        original: as the code counts: answers that could not be read are passed over, and of the last event the verdict
            is lost while the number of its answers is added to the denominator.
    """
    if not original:
        return edit_level([_full(found, "overall") for found in marks], events)
    read = [(event, _full(found, "overall")) for event, found in zip(events, marks, strict=True) if found is not None]
    groups = [[full for _, full in group] for _, group in groupby(read, key=lambda pair: pair[0])]
    if not groups:
        return None
    *closed, last = groups
    return sum(map(all, closed)) / (len(closed) + len(last))


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
