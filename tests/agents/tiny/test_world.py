"""The invented world: reproducible, consistent, and with templates that are really held back."""

import re

from emend.agents.tiny.world import World, relations


def test_the_same_seed_gives_the_same_world_of_the_documented_size_whose_chains_join() -> None:
    assert World(3).facts == World(3).facts
    assert World(3).facts != World(4).facts
    world = World()
    assert sum(map(len, world.names.values())) == 583
    assert (len(world.facts), len(relations()), len(world.held)) == (2001, 22, 102)
    assert len(world.chains) > 4000
    assert all(chain.first.object == chain.second.subject for chain in world.chains)


def test_every_fact_has_names_of_the_types_that_its_relation_asks_for() -> None:
    world = World()
    for fact in world.facts:
        relation = relations()[fact.relation]
        assert fact.subject in world.names[relation.subject]
        assert fact.object in world.names[relation.object]


def test_templates_are_unseen_or_seen_and_have_one_place_for_the_subject() -> None:
    for relation in relations().values():
        assert not set(relation.unseen_statements) & set(relation.statements)
        assert not set(relation.unseen_questions) & set(relation.questions)
        assert not set(relation.unseen_events) & set(relation.events)
    for relation in relations().values():
        for template in relation.statements + relation.unseen_statements + relation.events + relation.unseen_events:
            assert template.count("{}") == 1
            assert not re.search(r"[\s.?]$", template)
        for question in relation.questions + relation.unseen_questions:
            assert question.count("{}") == 1
            assert question.endswith("?")
