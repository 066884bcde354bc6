"""Lines that a run file repeats, as after its content was appended to it again."""

import re
from collections.abc import Iterable, Iterator

from emend.evals.case import Record
from emend.evals.log.lines import warn_once
from emend.evals.log.records import FileLine

# The time of a step; steps of editors that do not measure it may be equal.
_TIME = re.compile(rb'"at": ?[1-9]')


def last_records(records: Iterable[Record], name: str) -> list[Record]:
    """Return the last record of each unit and probe, in order, with a warning about the others.

    Args:
        records: records of complete units.
        name: the file's name, for the warning.
    """
    last, count = dict[tuple[str, str], Record](), 0
    for record in records:
        count += 1
        last[record.unit, record.probe] = record
    _warn(name, "records", count, len(last))
    return list(last.values())


def without_repeats(lines: Iterable[FileLine], name: str) -> Iterator[FileLine]:
    """Yield the lines of steps, in order, and equal ones with a time once, with a warning at the
    end.
    """
    earlier, count, repeats = set[bytes](), 0, 0
    for line in lines:
        count += 1
        if line.content in earlier:
            repeats += 1
            continue
        yield line
        if _TIME.search(line.content):
            earlier.add(line.content)
    _warn(name, "steps", count, count - repeats)


def _warn(name: str, what: str, count: int, different: int) -> None:
    if count > different:
        warn_once(
            f"{name} repeats lines: of {count:,} {what} of a case, the last one of each is shown, "
            f"{different:,} in all."
        )
