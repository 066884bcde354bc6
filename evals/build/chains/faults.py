"""Faults of chains that make a question impossible or its score wrong, as MQuAKE-Remastered found them in MQuAKE.

The checks read rows of MQuAKE's files, so that released ones and new ones are checked alike.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from emend.evals.data.benchmarks.mquake.rows import ChainRow
from emend.evals.data.benchmarks.rows import contaminated_ids
from emend.evals.metrics.text import normalise
from emend.graphs.construction.chains import leaked_name
from emend.graphs.construction.filters.name_forms import names

Rows = Sequence[ChainRow]


def find_conflicts(rows: Rows) -> set[int]:
    """Two rows give the same subject and relation different new objects."""
    editors: dict[tuple[str, str], dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for row in rows:
        for subject, relation, target in row.orig.edit_triples:
            editors[subject, relation][target].add(row.id)
    return {number for targets in editors.values() if len(targets) > 1 for each in targets.values() for number in each}


def find_contaminated(rows: Rows) -> set[int]:
    """An edit of another row gives a hop another object, so that the answer is wrong with all edits applied."""
    return set(contaminated_ids({row.id: row.orig for row in rows}))


def find_duplicates(rows: Rows) -> set[int]:
    """Another row has the same chain after the same edits; the first of them is none."""
    seen_chains: set[object] = set()
    duplicates = set()
    for row in rows:
        chain = row.orig.new_triples, frozenset(row.orig.edit_triples)
        if chain in seen_chains:
            duplicates.add(row.id)
        seen_chains.add(chain)
    return duplicates


def find_missing_start(rows: Rows) -> set[int]:
    """A question does not name the entity at which its chain begins."""
    return {row.id for row in rows if (start := start_of(row)) and not all(names(q, start) for q in row.questions)}


def find_leaks(rows: Rows) -> set[int]:
    """A question names an entity of its chain besides the first."""
    leaks = set()
    for row in rows:
        start = normalise(start_of(row))
        hidden = [hop.answer for hop in (*row.single_hops, *row.new_single_hops) if normalise(hop.answer) != start]
        if any(leaked_name(question, hidden) for question in row.questions):
            leaks.add(row.id)
    return leaks


def find_repeated_questions(rows: Rows) -> set[int]:
    """The row asks one question twice."""
    return {row.id for row in rows if len({normalise(each) for each in row.questions}) < len(row.questions)}


def find_same_answer(rows: Rows) -> set[int]:
    """The answer is the same before and after the edits."""
    return {row.id for row in rows if normalise(row.answer) == normalise(row.new_answer)}


def find_shared_names(rows: Rows) -> set[int]:
    """A name stands for the old and the new answer, which are not the same."""
    same = find_same_answer(rows)
    return {row.id for row in rows if row.id not in same and _old_names(row) & _new_names(row)}


def find_broken_chains(rows: Rows) -> set[int]:
    """A hop does not begin where the one before it ends, or an edit is no hop of the chain."""
    return {row.id for row in rows if _is_broken(row)}


def find_other_answers(rows: Rows) -> set[int]:
    """The new answer is not that of the last hop."""
    return {
        row.id
        for row in rows
        if not row.new_single_hops or normalise(row.new_answer) != normalise(row.new_single_hops[-1].answer)
    }


def find_idle_edits(rows: Rows) -> set[int]:
    """An edit has the same object as before it."""
    return {
        row.id
        for row in rows
        if any(normalise(each.target_new.label) == normalise(each.target_true.label) for each in row.requested_rewrite)
    }


FAULTS: Mapping[str, Callable[[Rows], set[int]]] = {
    "contaminated": find_contaminated,
    "conflicting_edits": find_conflicts,
    "duplicated": find_duplicates,
    "start_not_named": find_missing_start,
    "entity_leaks": find_leaks,
    "repeated_question": find_repeated_questions,
    "same_answer": find_same_answer,
    "shared_name": find_shared_names,
    "broken_chain": find_broken_chains,
    "other_answer": find_other_answers,
    "idle_edit": find_idle_edits,
}
"""By name, what finds the rows with a fault."""


def count_faults(rows: Rows) -> Iterator[tuple[str, set[int]]]:
    """The name of each fault with the ids of the rows that have it, and last of those that have any."""
    faulty: set[int] = set()
    for name, find in FAULTS.items():
        found_rows = find(rows)
        faulty |= found_rows
        yield name, found_rows
    yield "any", faulty


def start_of(row: ChainRow) -> str:
    """The entity at which the chain of a row begins; empty if its triples have no labels."""
    labels = row.orig.new_triples_labeled
    return labels[0][0] if labels else ""


def _old_names(row: ChainRow) -> set[str]:
    return {normalise(name) for name in (row.answer, *row.answer_alias, *row.answer_extended)}


def _new_names(row: ChainRow) -> set[str]:
    return {normalise(name) for name in (row.new_answer, *row.new_answer_alias)}


def _is_broken(row: ChainRow) -> bool:
    hops = row.orig.new_triples
    joined = all(before[2] == after[0] for before, after in zip(hops, hops[1:], strict=False))
    return not joined or not {*row.orig.edit_triples} <= {*hops}
