"""Events of a type over a small table: who plays the roles, and the answers that follow."""

import random
from pathlib import Path

import pytest

from emend.evals.construction.sources.elken import (
    UNKNOWN,
    BuiltEvent,
    EventBuilder,
    EventType,
    derive_answers,
    facts_left_alone,
    read_event_types,
)
from emend.evals.construction.sources.stored_items import take_turns
from emend.evals.data.facts.fact_graph import FactGraph, FactHop
from emend.memory.errors import BadData

TYPES = read_event_types()
FACTS = [
    *(FactHop(f"Player {n}", "member of sports team", f"Club {n % 3}") for n in range(6)),
    *(FactHop(f"Player {n}", "place of birth", f"Town {n}") for n in range(6)),
    *(FactHop(f"Club {n}", "league or competition", f"League {n % 2}") for n in range(3)),
    *(FactHop(f"Club {n}", "head coach", f"Coach {n}") for n in range(3)),
    FactHop("Club 0", "headquarters location", "Harbour"),
    FactHop("Player 5", "date of death", "1990"),
]
GRAPH = FactGraph(FACTS)


def events(count: int = 4, seed: int = 0, graph: FactGraph = GRAPH) -> list[BuiltEvent]:
    return list(EventBuilder(graph, random.Random(seed)).events("transfer-player", TYPES["transfer-player"], count))


def answers(a: str, b: str) -> dict[str, tuple[str, bool]]:
    derived = derive_answers(GRAPH, TYPES["transfer-player"], {"A": a, "B": b})
    return {each.impact.relation: (each.object, each.needs_background) for each in derived}


def test_answers_follow_from_the_impacts_and_the_facts():
    assert answers("Player 1", "Club 0") == {
        "member of sports team": ("Club 0", False),
        "league or competition": ("League 0", True),
        "coach of sports team": ("Coach 0", True),
        "residence": ("Harbour", True),
        "jersey number": (UNKNOWN, False),
    }


def test_impacts_without_a_fact_or_without_a_change_are_left_out():
    assert "residence" not in answers("Player 0", "Club 1")
    assert "member of sports team" not in answers("Player 0", "Club 0")


def test_no_two_events_change_one_fact_and_nobody_plays_a_role_that_is_not_his():
    built = events(20)
    changed = [(each.subject, each.impact.relation) for event in built for each in event.answers]
    assert len(built) > 2 and len(changed) == len(set(changed))
    assert all(event.players["A"].startswith("Player") and event.players["B"].startswith("Club") for event in built)
    assert "Player 5" not in {event.players["A"] for event in built}


def test_the_same_seed_gives_the_same_events():
    assert events() == events() and events(seed=1) != events()


def test_frequent_entities_are_drawn_more_often_up_to_a_cap():
    facts = [*FACTS, *(FactHop("Player 0", f"relation {n}", f"thing {n}") for n in range(400))]
    graph = FactGraph(facts)
    first = [events(1, seed, graph)[0].players["A"] for seed in range(60)]
    assert 50 <= first.count("Player 0") < 60  # of 300 and some 20 in all; without a cap it would be of 400


def test_questions_out_of_scope_are_about_facts_that_no_event_changes():
    builder = EventBuilder(GRAPH, random.Random(0))
    event = next(builder.events("transfer-player", TYPES["transfer-player"], 1))
    entities = list(event.players.values())
    facts = facts_left_alone(GRAPH, entities, builder.changed, random.Random(0))
    assert facts and not {*facts} & builder.changed and {entity for entity, _ in facts} <= {*entities}
    assert (event.players["A"], "member of sports team") in builder.changed


def test_an_event_does_not_change_a_fact_from_which_an_answer_of_another_follows():
    graph = FactGraph([
        FactHop("Ana", "residence", "Brask"), FactHop("Vaduria", "head of state", "Tom"),
        FactHop("Vaduria", "capital", "Ostmark"), FactHop("Norland", "capital", "Halden"),
    ])  # fmt: skip
    move = EventType.model_validate({
        "split": "test", "template": "{B} moved its capital to {A}.",
        "roles": {"A": {"object_of": "capital"}, "B": {"subject_of": "head of state"}},
        "impacts": [{"subject": "B", "relation": "capital", "object": "A", "question": "What is the capital of {}?"}],
    })  # fmt: skip
    builder = EventBuilder(graph, random.Random(0))
    assert len(list(builder.events("win-election", TYPES["win-election"], 1))) == 1
    assert list(builder.events("move", move, 1)) == []
    assert len(list(EventBuilder(graph, random.Random(0)).events("move", move, 1))) == 1


def test_a_role_may_follow_from_another_one():
    graph = FactGraph([
        FactHop("Ana", "residence", "Brask"), FactHop("Vaduria", "head of state", "Tom"),
        FactHop("Vaduria", "capital", "Ostmark"), FactHop("Tom", "position held", "president"),
    ])  # fmt: skip
    (event,) = EventBuilder(graph, random.Random(0)).events("win-election", TYPES["win-election"], 1)
    derived = {(each.subject, each.impact.relation): each.object for each in event.answers}
    assert event.players == {"A": "Ana", "B": "Vaduria", "C": "Tom"}
    assert derived == {
        ("Vaduria", "head of state"): "Ana",
        ("Vaduria", "previous head of state"): "Tom",
        ("Ana", "residence"): "Ostmark",
        ("Ana", "work location"): "Ostmark",
        ("Tom", "position held"): UNKNOWN,
    }


IMPACT = "{subject = 'A', relation = 'r', object = 'unknown', question = 'Who is {}?'}"
HEAD = "split = 'test'\ntemplate = '{A} left.'\nroles.A = {subject_of = 'x'}\n"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("template = 'x'", "split"),
        (f"{HEAD.replace('{A}', 'He')}impacts = [{IMPACT}]", "template"),
        (f"{HEAD}impacts = [{IMPACT.replace('A', 'B')}]", "role 'B'"),
        (f"{HEAD.replace('subject_of', 'without')}impacts = [{IMPACT}]", "without"),
        (f"{HEAD}roles.B = {{}}\nimpacts = [{IMPACT}]", "subject_of"),
        (f"{HEAD}impacts = []", "impacts"),
        ("split = ", "types.toml"),
    ],
)
def test_a_wrong_event_type_is_refused_by_its_name_and_field(tmp_path: Path, text: str, named: str):
    file = tmp_path / "types.toml"
    file.write_text(f"[leave]\n{text}\n")
    with pytest.raises(BadData, match=named):
        read_event_types(file)


RELATIONS = sorted(
    {
        relation
        for each in TYPES.values()
        for role in each.roles.values()
        for relation in (role.subject_of, role.object_of)
    }
    - {""}
)
EVERYTHING = FactGraph(
    [FactHop(f"{relation} holder {n}", relation, f"{relation} {n}") for relation in RELATIONS for n in range(4)]
)
ELKEN_TYPES = {
    "test": "publish resign ipo marry dismissal start-org education born transfer-player".split(),
    "train": "win-election death end-org divorce acquire start-position loss-election".split(),
}


def test_the_shipped_types_are_those_of_elken_in_its_division():
    assert {name: each.split for name, each in TYPES.items()} == {
        name: split for split, names in ELKEN_TYPES.items() for name in names
    }


@pytest.mark.parametrize("name", TYPES)
def test_every_shipped_type_gives_events_over_a_table_with_its_relations(name):
    (event, *_) = EventBuilder(EVERYTHING, random.Random(0)).events(name, TYPES[name], 2)
    assert set(event.players) == set(TYPES[name].roles) and not all(answer.needs_background for answer in event.answers)


def test_something_new_plays_a_role_unless_the_table_knows_it():
    graph = FactGraph([FactHop("Tom", "father", "Ana"), FactHop("Ines", "father", "little Corin")])
    built = list(EventBuilder(graph, random.Random(0)).events("born", TYPES["born"], 3))
    newborn = {event.players["T"] for event in built}
    assert newborn and newborn <= set(TYPES["born"].roles["T"].names) - {"little Corin"}


def test_types_take_turns_and_those_without_facts_leave_theirs_to_the_others():
    chosen = {name: TYPES[name] for name in ("born", "marry", "transfer-player")}
    graph = FactGraph([*FACTS, FactHop("Tom", "father", "Ana"), FactHop("Ines", "father", "Rolf")])
    builder = EventBuilder(graph, random.Random(0))
    turns = take_turns((builder.events(name, each, 4) for name, each in chosen.items()), 4)
    built = [event.type for event in turns]
    assert built[:2] == ["born", "transfer-player"] and len(built) == 4 and "marry" not in built
