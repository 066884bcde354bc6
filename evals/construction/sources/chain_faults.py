"""Checks that find faulty rows among MQuAKE's chains; their docstrings are printed on cards."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from emend.evals.data.benchmarks.mquake import ChainRow
from emend.evals.data.benchmarks.rows import contaminated_ids
from emend.evals.metrics.text.exact import normalise
from emend.graphs.construction.chains import leaked_name
from emend.graphs.construction.filters.name_forms import names

Rows = Sequence[ChainRow]


def find_conflicts(rows: Rows) -> set[int]:
    """Two rows edit the same subject and relation to different objects."""
    editors: dict[tuple[str, str], dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for row in rows:
        for subject, relation, target in row.orig.edit_triples:
            editors[subject, relation][target].add(row.id)
    return {
        number
        for targets in editors.values()
        if len(targets) > 1
        for each in targets.values()
        for number in each
    }


def find_contaminated(rows: Rows) -> set[int]:
    """An edit of another row changes a hop of the chain, so that the gold answer is wrong when all
    edits are applied.
    """
    return set(contaminated_ids({row.id: row.orig for row in rows}))


def find_duplicates(rows: Rows) -> set[int]:
    """An earlier row has the same chain and the same edits."""
    seen_chains: set[object] = set()
    duplicates = set()
    for row in rows:
        chain = row.orig.new_triples, frozenset(row.orig.edit_triples)
        if chain in seen_chains:
            duplicates.add(row.id)
        seen_chains.add(chain)
    return duplicates


def find_missing_start(rows: Rows) -> set[int]:
    """A question does not name the first entity of its chain."""
    missing = set()
    for row in rows:
        start = start_of(row)
        if start and not all(names(question, start) for question in row.questions):
            missing.add(row.id)
    return missing


def find_leaks(rows: Rows) -> set[int]:
    """A question names an entity of its chain other than the first."""
    leaks = set()
    for row in rows:
        start = normalise(start_of(row))
        hidden = [
            hop.answer
            for hop in (*row.single_hops, *row.new_single_hops)
            if normalise(hop.answer) != start
        ]
        if any(leaked_name(question, hidden) for question in row.questions):
            leaks.add(row.id)
    return leaks


def find_repeated_questions(rows: Rows) -> set[int]:
    """The row has the same question twice."""
    return {row.id for row in rows if len(set(map(normalise, row.questions))) < len(row.questions)}


def find_same_answer(rows: Rows) -> set[int]:
    """The answer is the same before and after the edits."""
    return {row.id for row in rows if normalise(row.answer) == normalise(row.new_answer)}


def find_shared_names(rows: Rows) -> set[int]:
    """The old and the new answer differ but share a name or alias."""
    shared = {
        row.id
        for row in rows
        if _fold_all(row.answer, *row.answer_alias, *row.answer_extended)
        & _fold_all(row.new_answer, *row.new_answer_alias)
    }
    return shared - find_same_answer(rows)


def _fold_all(*names: str) -> set[str]:
    return {normalise(name) for name in names}


def find_broken_chains(rows: Rows) -> set[int]:
    """A hop does not start where the previous one ends, or an edit is not a hop of the chain."""
    return {row.id for row in rows if _is_broken(row)}


def find_other_answers(rows: Rows) -> set[int]:
    """The new answer differs from the answer of the last hop."""
    return {
        row.id
        for row in rows
        if not row.new_single_hops
        or normalise(row.new_answer) != normalise(row.new_single_hops[-1].answer)
    }


def find_idle_edits(rows: Rows) -> set[int]:
    """The new object of an edit equals the old one."""
    return {
        row.id
        for row in rows
        for edit in row.requested_rewrite
        if normalise(edit.target_new.label) == normalise(edit.target_true.label)
    }


# Functions that return the ids of the rows with a fault, by name.
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


def count_faults(rows: Rows) -> Iterator[tuple[str, set[int]]]:
    """Yield each fault's name with the ids of its rows, and finally `any` with those of all faulty
    rows.
    """
    faulty: set[int] = set()
    for name, find in FAULTS.items():
        found_rows = find(rows)
        faulty |= found_rows
        yield name, found_rows
    yield "any", faulty


def start_of(row: ChainRow) -> str:
    """Return the first entity of a row's chain; empty if its triples have no labels."""
    labels = row.orig.new_triples_labeled
    return labels[0][0] if labels else ""


def _is_broken(row: ChainRow) -> bool:
    hops = row.orig.new_triples
    joined = all(before[2] == after[0] for before, after in zip(hops, hops[1:], strict=False))
    return not joined or not {*row.orig.edit_triples} <= {*hops}
