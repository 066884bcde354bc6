"""The computations behind the viewer's numbers, each the function of a command; also run as a process of its own."""

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from emend.evals.judging.judged_run import open_run
from emend.evals.judging.store import find_scoring, scoring_files
from emend.evals.log.run_index import RunIndex
from emend.evals.log.table.run_table import RunTable
from emend.evals.results.aggregate.rows import Report, report
from emend.evals.results.analyses.base import Analysis, AnalysisRequest
from emend.evals.results.analyses.compare import Comparison, compare
from emend.evals.results.analyses.registry import analyse_runs
from emend.evals.show.view.answers import LARGE, SOURCES
from emend.evals.show.view.votes import SplitVotes, split_votes
from emend.memory.edit import FrozenModel
from emend.memory.errors import EmendError


class Computation(NamedTuple):
    """A computation: the record that it gives, its function of folders and words, and whether results are kept."""

    model: type[FrozenModel]
    function: Callable[[Sequence[Path], Sequence[str]], FrozenModel]
    stored: bool = True


class TablesMade(FrozenModel):
    """A run's tables and its index are as far as its files."""


def _report(folders: Sequence[Path], words: Sequence[str]) -> Report:
    return report(folders[0])


def _compare(folders: Sequence[Path], words: Sequence[str]) -> Comparison:
    editor_a, editor_b, checkpoint = words
    other = folders[1] if len(folders) > 1 else None
    return compare(folders[0], other, editor_a, editor_b, int(checkpoint))


def _retrieval(folders: Sequence[Path], words: Sequence[str]) -> Analysis:
    return analyse_runs("retrieval", [open_run(folders[0])], AnalysisRequest())


def _votes(folders: Sequence[Path], words: Sequence[str]) -> SplitVotes:
    return split_votes(folders[0])


def _make_tables(folders: Sequence[Path], words: Sequence[str]) -> TablesMade:
    with RunTable(folders[0], SOURCES, large=LARGE), RunIndex(folders[0], LARGE) as index:
        index.update()
        with suppress(EmendError):  # the pages that need the scoring say what is wrong with it
            scoring = find_scoring(folders[0])
            for name in scoring_files(scoring) if scoring else ():
                index.lines(name, [""])
    return TablesMade()


COMPUTATIONS = {
    "report": Computation(Report, _report),
    "compare": Computation(Comparison, _compare),
    "retrieval": Computation(Analysis, _retrieval),
    "votes": Computation(SplitVotes, _votes),
    "tables": Computation(TablesMade, _make_tables, stored=False),
}


def compute(kind: str, folders: Sequence[Path], words: Sequence[str]) -> bytes:
    """Compute and return the result as JSON.

    Raises:
        EmendError: what the command would print.
    """
    return COMPUTATIONS[kind].function(folders, words).model_dump_json().encode()


def main() -> None:
    """Print the result of the computation that the first argument names; an `EmendError` becomes one line."""
    kind, folders, words = json.loads(sys.argv[1])
    try:
        content = compute(kind, [Path(folder) for folder in folders], words)
    except EmendError as error:
        sys.exit(" ".join(str(error).split()))
    sys.stdout.buffer.write(content)


if __name__ == "__main__":
    main()
