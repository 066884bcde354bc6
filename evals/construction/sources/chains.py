"""Composition of MQuAKE chains whose answers change by edits, balanced over hops and edits.

The checks read rows in the format of MQuAKE's files, so that they also apply to the released ones.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, islice
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from emend.evals.config.build_config import BuildConfig
from emend.evals.construction.card import FilterCount, count_filter
from emend.evals.construction.sources.chain_faults import FAULTS
from emend.evals.construction.sources.fact_graph import Chain, notes_on_table
from emend.evals.construction.sources.stored_items import (
    KeptItem,
    in_turn,
    store_items,
    take_turns,
    write_json,
)
from emend.evals.data.benchmarks.mquake import ChainRow
from emend.evals.data.benchmarks.registry import BenchmarkFiles
from emend.evals.data.facts.fact_graph import FactGraph, FactHop, read_fact_table
from emend.evals.data.facts.templates import TemplateBook, fill, read_templates
from emend.graphs.construction.chains import leaked_name
from emend.memory.errors import BadData, BadSettings
from emend.memory.registry import summary_of

# Number of edited chains tried per choice of edited hops.
TRIES = 8
# Number of new objects tried per edit.
CHOICES = 20


class ChainRequest(NamedTuple):
    """Requested numbers of hops and edits, number of chains, seed, and whether edits of different
    chains may conflict.
    """

    hops: tuple[int, ...]
    edits: tuple[int, ...]
    cases: int
    seed: int = 0
    allow_conflicts: bool = False

    @property
    def cells(self) -> list[tuple[int, int]]:
        """Pairs of a number of hops and a number of edits, at most one edit per hop.

        They are sorted in descending order, so that the rarest chains come first.
        """
        pairs = ((hops, edits) for hops in self.hops for edits in self.edits if edits <= hops)
        return sorted(pairs, reverse=True)


class EditedWorld:
    """Facts of the selected chains after their edits, under which every chain must stay valid if
    all edits are applied.
    """

    def __init__(self, allow_conflicts: bool) -> None:
        self._allow_conflicts = allow_conflicts
        self._objects: dict[tuple[str, str], str] = {}
        self._chains: set[object] = set()

    def admits(self, chain: Chain) -> bool:
        """Return whether the chain is new and, unless conflicts are allowed, consistent with the
        edits of all other chains.
        """
        if self._key(chain) in self._chains:
            return False
        return self._allow_conflicts or all(
            self._objects.get((hop.subject, hop.relation), hop.object) == hop.object
            for hop in chain.new
        )

    def add(self, chain: Chain) -> None:
        """Apply the edits of a chain."""
        self._chains.add(self._key(chain))
        self._objects |= {(hop.subject, hop.relation): hop.object for hop in chain.new}

    def _key(self, chain: Chain) -> object:
        """Return the key under which chains count as duplicates.

        The key is the question; if edits may conflict, it is the question with its answer.
        """
        return chain.new if self._allow_conflicts else (chain.start, chain.relations)


def compose_chains(
    graph: FactGraph, request: ChainRequest, accepts: Callable[[Chain], bool]
) -> list[Chain]:
    """Compose chains in round-robin order over the pairs of hops and edits.

    If the facts yield no more chains for a pair, the other pairs provide the rest.

    Args:
        graph: the facts.
        request: requested chains; the same request gives the same chains.
        accepts: additional condition on a chain.
    """
    world = EditedWorld(request.allow_conflicts)

    def admitted(cell: tuple[int, int]) -> Iterator[Chain]:
        for chain in _candidates(graph, *cell, request.seed):
            if world.admits(chain) and accepts(chain):
                world.add(chain)
                yield chain

    return take_turns(map(admitted, request.cells), request.cases)


def _candidates(graph: FactGraph, hops: int, edits: int, seed: int) -> Iterator[Chain]:
    """Yield chains with the given numbers of hops and edits, in an order set by the seed."""
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
    """Yield all chains of the graph in round-robin order over their first subjects."""
    subjects = graph.subjects
    rng.shuffle(subjects)

    def steps(place: int, subject: str) -> Iterator[tuple[str, str]]:
        relations = list(graph.relations_of(subject))
        rng.shuffle(relations)
        for relation in relations:
            if (target := graph.object_of(subject, relation)) is not None:
                yield relation, target

    return in_turn(_walks((), subject, hops, steps) for subject in subjects)


# Function that yields the next relations and objects of a chain, given its number of hops and the
# entity at its end.
Steps = Callable[[int, str], Iterator[tuple[str, str]]]


def _walks(
    chain: tuple[FactHop, ...], subject: str, hops: int, steps: Steps
) -> Iterator[tuple[FactHop, ...]]:
    """Yield the continuations of a chain from a subject that visit no entity twice."""
    if len(chain) == hops:
        yield chain
        return
    for relation, target in steps(len(chain), subject):
        if target not in {subject, *(hop.subject for hop in chain)}:
            yield from _walks((*chain, FactHop(subject, relation, target)), target, hops, steps)


def _edited_chains(
    graph: FactGraph, old: tuple[FactHop, ...], edited: tuple[int, ...], rng: random.Random
) -> Iterator[tuple[FactHop, ...]]:
    """Yield chains along the same relations with new objects at the hop positions `edited`."""
    relations = [hop.relation for hop in old]

    def steps(place: int, subject: str) -> Iterator[tuple[str, str]]:
        relation, following = relations[place], [*relations, ""][place + 1]
        if (true := graph.object_of(subject, relation)) is not None:
            targets = (
                _other_objects(graph, relation, following, true, rng) if place in edited else [true]
            )
            yield from ((relation, target) for target in targets)

    return _walks((), old[0].subject, len(old), steps)


def _other_objects(
    graph: FactGraph, relation: str, following: str, true: str, rng: random.Random
) -> list[str]:
    """Return random objects of a relation that share no name with the true one."""
    choices = graph.choices(relation, following)
    drawn = rng.sample(choices, min(CHOICES, len(choices)))
    return [each for each in drawn if not graph.same_name(each, true)]


def changes_answer(graph: FactGraph, chain: Chain) -> bool:
    """Return whether the edits change the answer and every edit is needed for it.

    Old and new answer must not share a name.
    """
    if graph.same_name(chain.old[-1].object, chain.new[-1].object):
        return False
    for edit in chain.edits:
        others = [each for each in chain.edits if each != edit]
        without = graph.follow(chain.start, chain.relations, others)
        if without and graph.same_name(without[-1].object, chain.new[-1].object):
            return False
    return True


FILE = "MQuAKE-CF.json"


def chain_item(chain: Chain, graph: FactGraph, book: TemplateBook) -> dict[str, Any]:
    """Return a chain as an item: its composed question, the name of its first entity, the names of
    the others, which questions must not reveal, and its row.
    """
    start = graph.label(chain.start)
    others = {hop.object: None for hop in (*chain.old, *chain.new) if hop.object != chain.start}
    question = book.question(start, chain.relations)
    hidden = [name for each in others for name in graph.names(each)]
    return {
        "text": question,
        "start": start,
        "hidden": hidden,
        "row": chain_row(chain, graph, book),
    }


def chain_row(chain: Chain, graph: FactGraph, book: TemplateBook) -> dict[str, Any]:
    """Return a chain as a row of MQuAKE's files, without case id and questions."""
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
    """Write the rows in the format of MQuAKE-CF.json."""
    rows = [
        {"case_id": number, "questions": item.result["questions"], **item.fields["row"]}
        for number, item in enumerate(items, 1)
    ]
    write_json(folder / FILE, rows)
    return BenchmarkFiles(benchmark="mquake", options={"dataset": "CF"}, files=(FILE,))


def prepare_chains(config: BuildConfig, out: Path) -> Path:
    """Compose the chains, store them in the benchmark folder, and return their file; idempotent.

    Raises:
        BadSettings: `--hops` or `--edits` are not numbers, or the source is not a file of facts.
        BadData: a row or a template is invalid, or no chain can be composed from the facts.
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
            f"the {len(table.graph)} facts of '{config.source}' form no chain of {config.hops} "
            f"hops and {config.edits} edits: objects must be subjects of other rows, and a "
            "relation needs two objects for an edit."
        )
    items = [chain_item(chain, table.graph, book) for chain in chains]
    notes = replace(
        notes_on_table(config.source, table),
        name=f"{config.source}: {len(table.graph)} facts, {_cells(chains)}",
    )
    return store_items(items, notes, out)


def read_request(config: BuildConfig) -> ChainRequest:
    """Return the chain request for the options.

    Raises:
        BadSettings: an option has no numbers, or all numbers of edits exceed those of hops.
    """
    hops, edits = _numbers("--hops", config.hops, 2), _numbers("--edits", config.edits, 1)
    cases = config.cases if config.limit is None else min(config.cases, config.limit)
    request = ChainRequest(hops, edits, cases, config.seed, config.allow_conflicts)
    if not request.cells:
        raise BadSettings(
            f"--edits {config.edits} with --hops {config.hops}: a chain has at most one edit per "
            "hop."
        )
    return request


def _numbers(option: str, text: str, lowest: int) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) >= lowest for part in parts):
        raise BadSettings(
            f"{option} '{text}': give numbers from {lowest} upwards, separated by commas, such as "
            "2,3,4."
        )
    return tuple(sorted({int(part) for part in parts}))


def _cells(chains: Sequence[Chain]) -> str:
    counts = Counter((len(chain.new), len(chain.edited)) for chain in chains)
    cells = ", ".join(f"{hops}/{edits} {count}" for (hops, edits), count in sorted(counts.items()))
    return f"{len(chains)} chains by hops/edits: {cells}"


def check_chains(folder: Path) -> list[FilterCount]:
    """Check the chains of a folder, and return the share of rows that pass each check."""
    rows = TypeAdapter(list[ChainRow]).validate_json((folder / FILE).read_bytes())
    counts = []
    for name, find in FAULTS.items():
        faulty = find(rows)
        outcomes = {str(row.id): [row.id not in faulty] for row in rows}
        counts.append(count_filter(name, outcomes, len(faulty), summary_of(find)))
    return counts
