"""Fields common to the lines of all jobs, so that they share a reader; jobs add their own
fields.
"""

from collections import Counter
from collections.abc import Sequence

from emend.memory.edit import FrozenModel
from emend.memory.probe import Usage


class LineHead(FrozenModel):
    """Fields that identify a line's subject, with the same names since the first run folders."""

    unit: str
    """Key of the unit, made from content."""
    of: int
    """Number of lines of the unit, so that an incomplete unit is recognised."""
    case: str
    """Id of the item."""
    probe: str
    """Id of what was asked about the item; that of the item where nothing else is.

    It is empty in a line that answers nothing, such as one on turns that were read: tables of
    answers leave it out, and it comes before the answers of its unit.
    """
    kind: str
    editor: str
    """What was evaluated: an editor, a memory system, a construction; a row of a table."""
    model: str
    setting: str
    mode: str
    repeat: int = 0


class JobLine(LineHead):
    """Base of a job's lines: a value or an unscored reason for each score (a missing value is never
    0), and the cost.

    Lines of an evaluation of edits have no `job`; for lines with one, a reader only knows the
    common fields.
    """

    job: str = ""
    """Name of the job."""
    values: dict[str, float] = {}
    unscored: dict[str, str] = {}
    path: tuple[str, ...] = ()
    """Nodes of a graph that the unit went through, in order."""
    usage: Usage = Usage()
    seconds: float = 0.0
    tags: dict[str, str | int | float | bool] = {}


def count_lines(lines: Sequence[JobLine]) -> Counter[str]:
    """Count a unit's lines, the lines with an unscored value, and the usage of its calls."""
    counts = Counter(
        finished=1, records=len(lines), unscored=sum(bool(line.unscored) for line in lines)
    )
    for line in lines:
        usage = line.usage
        counts.update(
            input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, calls=usage.calls
        )
    return counts
