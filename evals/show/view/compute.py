"""The computations behind the viewer's numbers, each the function of a command; also run as a process of its own."""

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from emend.evals.case import Record
from emend.evals.judging.judged_run import open_run
from emend.evals.judging.panel import Judgement
from emend.evals.judging.store import find_scoring, installed_judges, plan, read_judgements, scoring_files
from emend.evals.log.run_index import RunIndex
from emend.evals.log.table.run_table import RunTable
from emend.evals.results.aggregate.rows import Report, report
from emend.evals.results.analyses.base import Analysis, AnalysisRequest
from emend.evals.results.analyses.compare import Comparison, compare
from emend.evals.results.analyses.registry import analyse_runs
from emend.evals.show.view.answers import LARGE, SOURCES
from emend.memory.edit import FrozenModel
from emend.memory.errors import EmendError

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
