"""Composition of chains: each answer is changed by its edits, and all edits can be applied together."""

from collections import Counter

import pytest

from emend.evals.construction.sources.chains import ChainRequest, EditedWorld, changes_answer, compose_chains
from emend.evals.construction.sources.fact_graph import Chain
from emend.evals.data.facts.fact_graph import FactGraph, FactHop
from tests.evals.construction.sources.tables import graph

ALL = ChainRequest(hops=(2, 3, 4), edits=(1, 2, 3, 4), cases=24)


def composed(request: ChainRequest = ALL, facts: FactGraph | None = None) -> list[Chain]:
    return compose_chains(facts or graph(), request, lambda chain: True)


def edits_of(chains: list[Chain]) -> dict[tuple[str, str], set[str]]:
    objects: dict[tuple[str, str], set[str]] = {}
    for chain in chains:
        for subject, relation, target in chain.edits:
            objects.setdefault((subject, relation), set()).add(target)
    return objects


def test_a_chain_follows_the_facts_before_its_edits_and_the_edits_after_them():
    facts = graph()
    for chain in composed():
        assert facts.follow(chain.start, chain.relations) == chain.old
        assert facts.follow(chain.start, chain.relations, chain.edits) == chain.new
        assert all(facts.object_of(edit.subject, edit.relation) != edit.object for edit in chain.edits)
        assert all(edit.object in facts.choices(edit.relation) for edit in chain.edits)
        assert all(len({c[0].subject, *(hop.object for hop in c)}) == len(c) + 1 for c in (chain.old, chain.new))


def test_with_all_edits_applied_every_chain_still_holds():
    chains = composed()
    everything = [edit for chain in chains for edit in chain.edits]
    assert len(chains) > 10 and all(len(objects) == 1 for objects in edits_of(chains).values())
    assert all(graph().follow(chain.start, chain.relations, everything) == chain.new for chain in chains)
    assert len({(chain.start, chain.relations) for chain in chains}) == len(chains)


def test_edits_may_conflict_where_that_is_asked_for_and_no_chain_is_made_twice():
    chains = composed(ChainRequest((2,), (1,), cases=60, allow_conflicts=True))
    assert any(len(objects) > 1 for objects in edits_of(chains).values())
    assert len({chain.new for chain in chains}) == len(chains)


def test_numbers_of_hops_and_edits_are_balanced():
    counts = Counter((len(chain.new), len(chain.edited)) for chain in composed(ALL._replace(cases=18), wide(40)))
    assert counts == dict.fromkeys(ALL.cells, 2)
    assert sorted(counts) == [(2, 1), (2, 2), (3, 1), (3, 2), (3, 3), (4, 1), (4, 2), (4, 3), (4, 4)]


def test_where_the_facts_give_no_more_of_one_number_the_others_fill_up():
    chains = composed(ChainRequest((2, 4), (1,), cases=20), FactGraph(list(layered(30, depth=3))))
    assert Counter(len(chain.new) for chain in chains) == {2: 20}


def test_the_same_seed_gives_the_same_chains_and_another_one_others():
    facts = wide(20)
    assert composed(ALL, facts) == composed(ALL, facts)
    assert composed(ALL, facts) != composed(ALL._replace(seed=1), facts)


def test_an_edit_that_could_be_left_out_makes_no_chain():
    facts = FactGraph([
        FactHop("Pujols", "sport", "baseball"),
        FactHop("infielder", "origin", "Britain"),
        FactHop("baseball", "origin", "America"),
        FactHop("golf", "origin", "Britain"),
        FactHop("Woods", "sport", "golf"),
    ])  # fmt: skip
    old = (FactHop("Pujols", "sport", "baseball"), FactHop("baseball", "origin", "America"))
    needed = Chain(old, (FactHop("Pujols", "sport", "golf"), FactHop("golf", "origin", "Britain")), (0,))
    idle = Chain(old, (FactHop("Pujols", "sport", "golf"), FactHop("golf", "origin", "Britain")), (0, 1))
    assert changes_answer(facts, needed)
    assert not changes_answer(facts, idle)


@pytest.mark.parametrize("shared", ["Brask", "the BRASK."])
def test_an_answer_that_shares_a_name_with_the_old_one_makes_no_chain(shared: str):
    facts = graph({"Kesselby": ("Kesselby", shared), "Brask": ("Brask",)})
    old, new = (FactHop("Ana Rojo", "place of birth", place) for place in ("Brask", "Kesselby"))
    assert not changes_answer(facts, Chain((old,), (new,), (0,)))
    assert changes_answer(graph(), Chain((old,), (new,), (0,)))


def test_a_world_refuses_a_chain_of_which_another_one_edits_a_hop():
    world = EditedWorld(allow_conflicts=False)
    first, *others = composed()
    world.add(first)
    hop = first.edits[0]
    other = Chain(first.old, (hop._replace(object="elsewhere"), *first.new[1:]), (0,))
    assert not world.admits(first)
    assert not world.admits(Chain((FactHop("x", "y", hop.subject), hop), (FactHop("x", "y", hop.subject),
                                                                          hop._replace(object="z")), (1,)))  # fmt: skip
    assert EditedWorld(allow_conflicts=True).admits(other) and others


def test_subjects_with_several_objects_are_left_out_and_counted():
    facts = FactGraph([FactHop("a", "child", "b"), FactHop("a", "child", "c"), FactHop("b", "child", "d")])
    assert facts.ambiguous == 1 and len(facts) == 1 and facts.object_of("a", "child") is None


def layered(width: int, depth: int):
    """Facts in layers, each entity with one object in the next layer."""
    return (
        FactHop(f"e{layer}-{place}", f"r{layer}", f"e{layer + 1}-{(place * 7 + layer) % width}")
        for layer in range(depth)
        for place in range(width)
    )


def wide(width: int) -> FactGraph:
    return FactGraph(list(layered(width, depth=4)))
