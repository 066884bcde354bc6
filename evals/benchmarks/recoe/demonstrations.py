"""ReCoE's demonstrations: a record's question under its counterfactuals, and what these say by themselves."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from emend.editors.base import Demonstration
from emend.evals.benchmarks.demonstrations import ROWS, Names, gathered, last_drawn
from emend.evals.benchmarks.recoe.rows import ReCoERow, atoms_of, edits_of, triples_of


def question_examples(tables: Mapping[str, Sequence[ReCoERow]], setting: str, seed: int = 0) -> Iterator[Demonstration]:
    """As many of each scheme, of records all of whose subjects are theirs alone; the data has nothing to retain.

    An example's fact is all of a record's counterfactuals, as its answer follows from them together.
    """
    rows = [row for table in tables.values() for row in table]
    names, asked = Names(map(_texts, rows)), Counter(row.asked for row in rows)
    for table in tables.values():
        places = last_drawn(range(len(table)), lambda place: place, seed)
        fitting = (table[place] for place in places if _fits(table[place], names, asked))
        yield from gathered((_examples(row, setting) for row in fitting), max(1, ROWS // len(tables)))


def _fits(row: ReCoERow, names: Names, asked: Counter[str]) -> bool:
    subjects = {triple.subject for triple in triples_of(row)}
    return bool(subjects) and asked[row.asked] == 1 and all(map(names.alone, subjects))


def _examples(row: ReCoERow, setting: str) -> list[Demonstration]:
    edits = edits_of(row, setting)
    told = " ".join(edit.text for edit in edits)
    asked = Demonstration(kind="update", fact=told, prompt=row.asked, style="question", target=row.golds[0])
    copied = next((edit for edit in edits if edit.cloze and edit.target_new), None)
    if copied is None:
        return [asked]
    return [Demonstration(kind="copy", fact=told, prompt=copied.cloze, target=copied.target_new), asked]


def _texts(row: ReCoERow) -> Iterator[str]:
    yield row.asked
    yield from atoms_of(row.facts)
    yield from atoms_of(row.known)
