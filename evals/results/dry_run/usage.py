"""Calls and tokens of a sample, for answers and for reading edits, and their scaling to a run."""

from collections import defaultdict
from functools import reduce
from pathlib import Path
from typing import NamedTuple

from emend.agents.llm import is_local_spec
from emend.evals.log.records import read_records
from emend.evals.results.dry_run.estimate import COUNTS
from emend.memory.probe import Usage

# Factor by which a local model's replies are longer if the prompt has no edit; most of them reach
# the limit of new tokens.
UNTAUGHT = 2


class SampleUsage(NamedTuple):
    """Cases and usage of a sample, as asked of the stand-in.

    `cases` holds case ids by setting. `whole` and `fresh` hold usage by setting and editor, with
    and without answers reused from the baseline. `edit_tokens` holds the tokens that an editor used
    to read a case's edits, by setting, editor and case.
    """

    cases: dict[str, set[str]]
    fresh: dict[tuple[str, str], Usage]
    whole: dict[tuple[str, str], Usage]
    edit_tokens: dict[tuple[str, str, str], int]


def read_sample(folder: Path) -> SampleUsage:
    """Read the usage of a sample from its run folder."""
    sample = SampleUsage(defaultdict(set), defaultdict(Usage), defaultdict(Usage), {})
    for record in read_records(folder):
        sample.edit_tokens[record.setting, record.editor, record.case] = record.edit_cost.tokens
        sample.cases[record.setting].add(record.case)
        row = record.setting, record.editor
        sample.whole[row] = sample.whole[row].plus(record.usage)
        if not record.from_baseline:
            sample.fresh[row] = sample.fresh[row].plus(record.usage)
    return sample


def usage_of_edits(
    sample: SampleUsage, used: Usage, baseline: Usage
) -> dict[tuple[str, str], Usage]:
    """Return the usage of reading edits, by setting and editor.

    The usage that is left after all answers is divided in proportion to the tokens of each editor's
    calls.
    """
    tokens: dict[tuple[str, str], int] = defaultdict(int)
    for (setting, editor, _), number in sample.edit_tokens.items():
        tokens[setting, editor] += number
    answers = reduce(Usage.plus, sample.fresh.values(), baseline)
    reading = Usage(
        **{name: max(0, getattr(used, name) - getattr(answers, name)) for name in COUNTS}
    )
    return {
        row: scaled(reading, count / sum(tokens.values())) for row, count in tokens.items() if count
    }


def scaled(usage: Usage, factor: float) -> Usage:
    """Return the usage multiplied by a factor."""
    return Usage(**{name: round(getattr(usage, name) * factor) for name in COUNTS})


def untaught(model: str, usage: Usage | None) -> Usage | None:
    """Return the usage of the named model without edits in its prompt.

    A local model writes `UNTAUGHT` times longer replies then.
    """
    if usage is None or not is_local_spec(model):
        return usage
    return usage.model_copy(update={"output_tokens": UNTAUGHT * usage.output_tokens})
