"""Chains of facts whose answer changes by edits, balanced over hops and edits, as items and as rows of MQuAKE.

The checks read rows of MQuAKE's files, so that released ones and new ones are checked alike.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, islice
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from emend.evals.build.card import FilterCount, count_filter
from emend.evals.build.sources.fact_graph import (
    Chain,
    FactGraph,
    FactHop,
    TemplateBook,
    fill,
    read_fact_table,
    read_templates,
)
from emend.evals.build.sources.stored_items import KeptItem, in_turn, store_items, take_turns, write_json
from emend.evals.config.task_config import BuildConfig
from emend.evals.data.benchmarks.mquake import ChainRow
from emend.evals.data.benchmarks.registry import BenchmarkFiles
from emend.evals.data.benchmarks.rows import contaminated_ids
from emend.evals.metrics.text import normalise
from emend.graphs.construction.chains import leaked_name
from emend.graphs.construction.filters.name_forms import names
from emend.graphs.construction.filters.texts import summary_of
from emend.memory.errors import BadData, BadSettings

TRIES = 8
"""Ways of editing a chain that are tried for each choice of edited hops."""
CHOICES = 20
"""Objects that are tried for an edit."""


class ChainRequest(NamedTuple):
    """Numbers of hops and of edits, the number of chains, a seed, and whether edits of two chains may conflict."""

    hops: tuple[int, ...]
    edits: tuple[int, ...]
    cases: int
    seed: int = 0
    allow_conflicts: bool = False

    @property
    def cells(self) -> list[tuple[int, int]]:
        """Pairs of numbers of hops and of edits, an edit for each hop at most; the rarest chains come first."""
        pairs = ((hops, edits) for hops in self.hops for edits in self.edits if edits <= hops)
        return sorted(pairs, reverse=True)


class EditedWorld:
    """The facts of all chosen chains after their edits; with all edits applied, each chain must still hold."""

    def __init__(self, allow_conflicts: bool) -> None:
        self._allow_conflicts = allow_conflicts
        self._objects: dict[tuple[str, str], str] = {}
        self._chains: set[object] = set()

    def admits(self, chain: Chain) -> bool:
        """True if the chain asks something new, and no edit of another chain changes one of its hops."""
        if self._key(chain) in self._chains:
            return False
        return self._allow_conflicts or all(
            self._objects.get((hop.subject, hop.relation), hop.object) == hop.object for hop in chain.new
        )

    def add(self, chain: Chain) -> None:
        """Apply the edits of a chain."""
        self._chains.add(self._key(chain))
        self._objects |= {(hop.subject, hop.relation): hop.object for hop in chain.new}

    def _key(self, chain: Chain) -> object:
        """Chains with the same key ask the same; where edits may conflict, with another answer."""
        return chain.new if self._allow_conflicts else (chain.start, chain.relations)


def compose_chains(graph: FactGraph, request: ChainRequest, accepts: Callable[[Chain], bool]) -> list[Chain]:
    """Chains in turn from each pair of numbers of hops and edits; where facts give no more, from the others.

    Args:
        graph: the facts.
        request: what to compose; the same request gives the same chains.
        accepts: a further condition on a chain.
    """
    world = EditedWorld(request.allow_conflicts)

    def admitted(cell: tuple[int, int]) -> Iterator[Chain]:
        for chain in _candidates(graph, *cell, request.seed):
            if world.admits(chain) and accepts(chain):
                world.add(chain)
                yield chain

    return take_turns(map(admitted, request.cells), request.cases)


def _candidates(graph: FactGraph, hops: int, edits: int, seed: int) -> Iterator[Chain]:
    """Chains with these numbers of hops and edits, in an order that depends on the seed."""
    rng = random.Random(f"{seed} {hops} {edits}")
    for old in _old_chains(graph, hops, rng):
        places = list(combinations(range(hops), edits))
        rng.shuffle(places)
        for edited in places:
            for new in islice(_edited_chains(graph, old, edited, rng), TRIES):
                chain = Chain(old, new, edited)
                if changes_answer(graph, chain):
                    yield chain


def _old_chains(graph: FactGraph, hops: int, rng: random.Random) -> Iterator[tuple[FactHop, ...]]:
    """All chains of the graph, one of each subject before a second one of any."""
    subjects = graph.subjects
    rng.shuffle(subjects)

    def steps(place: int, subject: str) -> Iterator[tuple[str, str]]:
        relations = list(graph.relations_of(subject))
        rng.shuffle(relations)
        for relation in relations:
            if (target := graph.object_of(subject, relation)) is not None:
                yield relation, target

    return in_turn(_walks((), subject, hops, steps) for subject in subjects)


Steps = Callable[[int, str], Iterator[tuple[str, str]]]
"""Relations and objects by which a chain may go on, by the number of its hops and the subject at its end."""


def _walks(chain: tuple[FactHop, ...], subject: str, hops: int, steps: Steps) -> Iterator[tuple[FactHop, ...]]:
    """The chains that go on from a subject without coming back to an entity."""
    if len(chain) == hops:
        yield chain
        return
    for relation, target in steps(len(chain), subject):
        if target not in {subject, *(hop.subject for hop in chain)}:
            yield from _walks((*chain, FactHop(subject, relation, target)), target, hops, steps)


def _edited_chains(
    graph: FactGraph, old: tuple[FactHop, ...], edited: tuple[int, ...], rng: random.Random
) -> Iterator[tuple[FactHop, ...]]:
    """The chains along the same relations in which the hops at these places have other objects."""
    relations = [hop.relation for hop in old]

    def steps(place: int, subject: str) -> Iterator[tuple[str, str]]:
        relation, following = relations[place], [*relations, ""][place + 1]
        if (true := graph.object_of(subject, relation)) is not None:
            targets = _other_objects(graph, relation, following, true, rng) if place in edited else [true]
            yield from ((relation, target) for target in targets)

    return _walks((), old[0].subject, len(old), steps)


def _other_objects(graph: FactGraph, relation: str, following: str, true: str, rng: random.Random) -> list[str]:
    """Some objects of a relation that share no name with the true one."""
    choices = graph.choices(relation, following)
    drawn = rng.sample(choices, min(CHOICES, len(choices)))
    return [each for each in drawn if not graph.same_name(each, true)]


def changes_answer(graph: FactGraph, chain: Chain) -> bool:
    """True if the edits change the answer to one that shares no name with the old one, and none could be left out."""
    if graph.same_name(chain.old[-1].object, chain.new[-1].object):
        return False
    for edit in chain.edits:
        others = [each for each in chain.edits if each != edit]
        without = graph.follow(chain.start, chain.relations, others)
        if without and graph.same_name(without[-1].object, chain.new[-1].object):
            return False
    return True


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


def _is_broken(row: ChainRow) -> bool:
    hops = row.orig.new_triples
    joined = all(before[2] == after[0] for before, after in zip(hops, hops[1:], strict=False))
    return not joined or not {*row.orig.edit_triples} <= {*hops}


FILE = "MQuAKE-CF.json"
LIMITS = (
    "An entity is known by its name: two entities of one name in the table are taken for one.",
    "Edits take an object of the same relation; whether a reader would believe them is not checked.",
    "Whether a question that a model worded anew asks the same is for a judge, and for people with --review.",
)


def chain_item(chain: Chain, graph: FactGraph, book: TemplateBook) -> dict[str, Any]:
    """A chain as an item: its composed question, the name of its start, the other names, and its row."""
    start = graph.label(chain.start)
    others = {hop.object: None for hop in (*chain.old, *chain.new) if hop.object != chain.start}
    question = book.question(start, chain.relations)
    hidden = [name for each in others for name in graph.names(each)]
    return {"text": question, "start": start, "hidden": hidden, "row": chain_row(chain, graph, book)}


def chain_row(chain: Chain, graph: FactGraph, book: TemplateBook) -> dict[str, Any]:
    """A row of MQuAKE's files without number and questions."""
    old, new = chain.old[-1].object, chain.new[-1].object
    return {
        "requested_rewrite": [_rewrite(edit, graph, book) for edit in chain.edits],
        "answer": graph.label(old),
        "answer_alias": list(graph.names(old)[1:]),
        "new_answer": graph.label(new),
        "new_answer_alias": list(graph.names(new)[1:]),
        "single_hops": [_hop(hop, graph, book) for hop in chain.old],
        "new_single_hops": [_hop(hop, graph, book) for hop in chain.new],
        "orig": {
            "triples": chain.old,
            "triples_labeled": [_labels(hop, graph) for hop in chain.old],
            "new_triples": chain.new,
            "new_triples_labeled": [_labels(hop, graph) for hop in chain.new],
            "edit_triples": chain.edits,
        },
    }


def _rewrite(edit: FactHop, graph: FactGraph, book: TemplateBook) -> dict[str, Any]:
    templates, subject = book.templates(edit.relation), graph.label(edit.subject)
    true = str(graph.object_of(edit.subject, edit.relation))
    return {
        "prompt": templates.cloze,
        "relation_id": edit.relation,
        "target_new": {"str": graph.label(edit.object), "id": edit.object},
        "target_true": {"str": graph.label(true), "id": true},
        "subject": subject,
        "question": fill(templates.question, subject),
    }


def _hop(hop: FactHop, graph: FactGraph, book: TemplateBook) -> dict[str, Any]:
    templates, subject = book.templates(hop.relation), graph.label(hop.subject)
    answer, *aliases = graph.names(hop.object)
    texts = {"question": fill(templates.question, subject), "cloze": fill(templates.cloze, subject)}
    return {**texts, "answer": answer, "answer_alias": aliases}


def _labels(hop: FactHop, graph: FactGraph) -> list[str]:
    return [graph.label(hop.subject), hop.relation, graph.label(hop.object)]


def write_rows(items: Sequence[KeptItem], folder: Path) -> BenchmarkFiles:
    """Write the rows in the form of MQuAKE-CF.json."""
    rows = [
        {"case_id": number, "questions": item.result["questions"], **item.fields["row"]}
        for number, item in enumerate(items, 1)
    ]
    write_json(folder / FILE, rows)
    return BenchmarkFiles(benchmark="mquake", options={"dataset": "CF"}, files=(FILE,))


def prepare_chains(config: BuildConfig, out: Path) -> Path:
    """Compose the chains into the benchmark's folder, and return their file; the same call again changes nothing.

    Raises:
        BadSettings: `--hops` or `--edits` are no numbers, or the source is no file of facts.
        BadData: a row or a template is wrong, or the facts give no chain.
        RunRefused: the folder holds other chains.
    """
    request = read_request(config)
    user_templates = read_templates(Path(config.relations).expanduser()) if config.relations else {}
    table = read_fact_table(config.source)
    book = TemplateBook(user_templates, table.templates)

    def is_usable(chain: Chain) -> bool:
        item = chain_item(chain, table.graph, book)
        return not leaked_name(item["text"], item["hidden"])

    chains = compose_chains(table.graph, request, is_usable)
    if not chains:
        raise BadData(
            f"the {len(table.graph)} facts of '{config.source}' give no chain of {config.hops} hops and {config.edits} "
            "edits: objects must be subjects of other rows, and a relation needs two objects for an edit."
        )
    items = [chain_item(chain, table.graph, book) for chain in chains]
    notes = replace(table.notes, name=f"{config.source}: {len(table.graph)} facts, {_cells(chains)}")
    return store_items(items, notes, out)


def read_request(config: BuildConfig) -> ChainRequest:
    """The request that the options make.

    Raises:
        BadSettings: an option has no numbers, or no chain has as many edits as asked for.
    """
    hops, edits = _numbers("--hops", config.hops, 2), _numbers("--edits", config.edits, 1)
    cases = config.cases if config.limit is None else min(config.cases, config.limit)
    request = ChainRequest(hops, edits, cases, config.seed, config.allow_conflicts)
    if not request.cells:
        raise BadSettings(
            f"--edits {config.edits} with --hops {config.hops}: a chain has at most an edit for each hop."
        )
    return request


def _numbers(option: str, text: str, lowest: int) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) >= lowest for part in parts):
        raise BadSettings(f"{option} '{text}': give numbers from {lowest} on with commas between them, such as 2,3,4.")
    return tuple(sorted({int(part) for part in parts}))


def _cells(chains: Sequence[Chain]) -> str:
    counts = Counter((len(chain.new), len(chain.edited)) for chain in chains)
    cells = ", ".join(f"{hops}/{edits} {count}" for (hops, edits), count in sorted(counts.items()))
    return f"{len(chains)} chains by hops/edits: {cells}"


def check_chains(folder: Path) -> list[FilterCount]:
    """The checks of a folder of chains, each with the share of rows that pass."""
    rows = TypeAdapter(list[ChainRow]).validate_json((folder / FILE).read_bytes())
    faults = {name: (find(rows), summary_of(find)) for name, find in FAULTS.items()}
    return [
        count_filter(name, {str(row.id): row.id not in faulty for row in rows}, len(faulty), rejects)
        for name, (faulty, rejects) in faults.items()
    ]
