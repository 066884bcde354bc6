"""The tinyworld benchmark: stable cases, every kind of probe, nothing that another edit changes."""

from collections import Counter
from typing import Any

import pytest

from emend.agents.tiny.world import World, relations
from emend.evals.case import Case
from emend.evals.data.benchmarks.tinyworld import TinyWorld
from emend.memory.errors import BadSettings
from tests.params import first_quick

KINDS = {"efficacy", "paraphrase", "neighborhood", "reasoning", "multihop", "out_of_scope"}
CITIZEN = "country of citizenship"
WORLD = World()


@pytest.fixture(scope="module", params=first_quick(["unseen", "seen"]))
def cases(request: pytest.FixtureRequest) -> list[Case]:
    return list(TinyWorld(options={"split": request.param}).cases("triplet"))


def test_every_kind_of_probe_comes_up_under_stable_ids_and_a_limit_takes_the_first(cases: list[Case]) -> None:
    counted = Counter(probe.kind for case in cases for probe in case.probes)
    assert set(counted) == KINDS
    assert min(counted.values()) >= 70
    assert len({case.id for case in cases}) == len(cases)
    split = str(cases[0].tags["split"])
    assert list(TinyWorld(options={"split": split}).cases("triplet", limit=7)) == cases[:7]


@pytest.mark.parametrize(
    ("split", "seed", "edited"),
    [
        ("unseen", 0, [("Goia Bereus", "birthplace", "Chazeis"), ("Klebeis Dovlaek", "spouse", "Clea Frodasen")]),
        ("unseen", 1, [("The Hollow Forest", "author", "Madanus Roteov"), ("Korvlaus Lavelus", CITIZEN, "Maveia")]),
        ("seen", 0, [("Plovlaa Triov", "birthplace", "Korgoburg"), ("Madanus Tovoell", "employer", "Koix")]),
    ],
)
def test_the_seed_decides_which_facts_are_edited_and_to_what(split: str, seed: int, edited: list[Any]) -> None:
    cases = TinyWorld(options={"split": split}).cases("triplet", limit=2, seed=seed)
    edits = [edit for case in cases for edit in case.edits]
    assert [(edit.subject, edit.triplets[0].relation, edit.target_new) for edit in edits] == edited


def test_edits_change_a_fact_of_the_world_to_something_else(cases: list[Case]) -> None:
    nouns = {relation.noun: relation.name for relation in relations().values()}
    for case in cases:
        (edit,) = case.edits
        relation = str(case.tags["relation"])
        assert WORLD.objects[edit.subject, relation] == edit.target_true != edit.target_new
        assert nouns[edit.triplets[0].relation] in {relation, "located_in"} or edit.triplets[0].relation in nouns


def test_probes_outside_the_scope_ask_for_what_no_case_edits(cases: list[Case]) -> None:
    edited = {(case.edits[0].subject, case.tags["relation"]) for case in cases}
    for case in cases:
        for probe in case.probes:
            if probe.kind == "neighborhood":
                assert (probe.subject, case.tags["relation"]) not in edited
            if not probe.in_scope:
                assert probe.edit_ids == ()
                assert probe.gold[0] in {fact.object for fact in WORLD.by_subject[probe.subject]}


def test_two_hop_answers_follow_the_edit(cases: list[Case]) -> None:
    hops = [(case, probe) for case in cases for probe in case.probes if probe.kind == "multihop"]
    for case, probe in hops:
        onward = {fact.object for fact in WORLD.by_subject[case.edits[0].target_new]}
        assert probe.gold[0] in onward
        assert probe.rival != probe.gold[0]


@pytest.mark.slow
def test_the_splits_keep_subjects_and_templates_apart() -> None:
    unseen = list(TinyWorld().cases("triplet"))
    seen = list(TinyWorld(options={"split": "seen"}).cases("triplet"))
    assert {case.edits[0].subject for case in unseen} <= WORLD.held
    assert not {case.edits[0].subject for case in seen} & WORLD.held
    known = {form for relation in relations().values() for form in relation.statements}
    assert not {case.edits[0].prompt for case in unseen} & known
    assert {case.edits[0].prompt for case in seen} <= known


@pytest.mark.parametrize("setting", TinyWorld.settings)
def test_every_setting_tells_the_new_fact_in_its_own_form(setting: str) -> None:
    for case in TinyWorld().cases(setting, limit=30):
        (edit,) = case.edits
        assert edit.form == setting
        assert edit.target_new in edit.text
        assert edit.subject in edit.text
        assert (edit.text.count(". ") > 0) == (setting == "document" and "." in edit.text[:-1])


def test_demonstrations_are_about_nothing_that_is_tested() -> None:
    benchmark = TinyWorld()
    cases = list(benchmark.cases("triplet"))
    shown = benchmark.demonstrations("triplet")
    assert {d.kind for d in shown} == {"copy", "update", "retain"}
    assert not {d.fact for d in shown} & {case.edits[0].text for case in cases}
    assert not {d.prompt for d in shown} & {probe.prompt for case in cases for probe in case.probes if probe.in_scope}


def test_unknown_names_are_refused_with_the_nearest_one() -> None:
    with pytest.raises(BadSettings, match="did you mean 'triplet'"):
        list(TinyWorld().cases("triple"))
    with pytest.raises(BadSettings, match="did you mean 'unseen'"):
        TinyWorld(options={"split": "unsen"})
    with pytest.raises(BadSettings, match="unknown option 'splits'"):
        TinyWorld(options={"splits": "seen"})


@pytest.mark.parametrize("setting", ["document", "event"])
def test_a_text_comes_without_subject_and_target_and_its_probes_are_those_of_the_triplet(setting: str) -> None:
    texts, triplets = (list(TinyWorld().cases(told, limit=20)) for told in (setting, "triplet"))
    for case in texts:
        (edit,) = case.edits
        assert edit.model_dump(exclude_defaults=True).keys() == {"id", "form", "text"} and edit.form == setting
        (asked,) = (probe for probe in case.probes if probe.kind == "efficacy")
        assert asked.subject and asked.gold[0] in edit.text and asked.edit_ids == (edit.id,)
    told = [[len(probe.gold) for probe in case.probes] for case in texts]
    assert told == [[len(probe.gold) for probe in case.probes] for case in triplets]


@pytest.mark.parametrize("split", ["seen", "unseen"])
def test_no_solved_example_retains_what_a_case_edits(split: str) -> None:
    benchmark = TinyWorld(options={"split": split})
    table = relations()
    asked = {
        text.replace("{}", fact.subject)
        for fact, _ in benchmark._plan(0)
        for text in (*table[fact.relation].statements, *table[fact.relation].questions)
    }
    retained = [one.prompt for one in benchmark.demonstrations("triplet") if one.kind == "retain"]
    assert asked and retained and not asked.intersection(retained)


@pytest.mark.parametrize(
    ("seed", "prompt"), [(0, "The native language of Lomio Kraini is"), (1, "Selova is a country where people speak")]
)
def test_demonstrations_are_drawn_by_the_seed(seed, prompt):
    assert TinyWorld().demonstrations("triplet", seed=seed)[0].prompt == prompt
