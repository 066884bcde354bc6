"""The wordings of one fact: which of them become one triplet, and which must not."""

import tomllib

import pytest

from emend.graphs.extraction.rules import RulesExtractor
from emend.memory.edit import Triplet
from emend.memory.relations.canonical import canonical, parse_verb
from emend.memory.relations.inflection import find_base, is_plural, past
from emend.memory.relations.words import third_person
from emend.memory.store.superseding import fact_id
from tests.paths import DATA


def read(text):
    """What the rules find in a text, in canonical form."""
    rules = RulesExtractor()
    found = rules.extract(rules.resolve(rules.segment(text)), "en").triplets
    return [(t.subject, t.relation, t.object) for t in map(canonical, found) if t is not None]


def form(subject, relation, thing):
    told = canonical(Triplet(subject=subject, relation=relation, object=thing))
    return told and (told.subject, told.relation, told.object)


CASES = tomllib.loads((DATA / "extraction/sentences.toml").read_text("utf-8"))
SAME = CASES["same_role"]


@pytest.mark.parametrize("role", ["mayor", "head coach", "CEO"])
@pytest.mark.parametrize("wording", SAME)
def test_every_wording_of_a_role_gives_its_owner_the_role_and_who_fills_it(wording, role):
    told = read(wording.format(o="Mira Tolvane", r=role, s="Vera Stadrin"))
    assert ("Vera Stadrin", role, "Mira Tolvane") in told
    assert not any(subject == "Mira Tolvane" and role in relation for subject, relation, _ in told)


@pytest.mark.parametrize("text", CASES["former_role"])
def test_who_filled_a_role_before_is_not_who_fills_it(text):
    assert not [one for one in read(text) if "mayor" in one[1] or one[0] == "Vera Stadrin"]


@pytest.mark.parametrize("triplet", CASES["unchanged"])
def test_what_is_one_of_several_denied_or_to_come_stays_as_it_is(triplet):
    assert form(*triplet) == tuple(triplet)


@pytest.mark.parametrize(("relation", "plain"), CASES["relations"])
def test_auxiliaries_agreement_and_words_for_new_make_no_other_relation(relation, plain):
    assert form("Ana Rojo", relation, "Lima") == ("Ana Rojo", plain, "Lima")


@pytest.mark.parametrize("wording", SAME[:12])
def test_the_memory_takes_the_wordings_for_one_fact(wording):
    ids = {fact_id(s, r) for s, r, _ in read(wording.format(o="Mira Tolvane", r="mayor", s="Veld"))}
    assert fact_id("Veld", "mayor") in ids


@pytest.mark.parametrize("relation", [" ", "former", "new", "is", "been", "of", "the", "a an the", "’s", "as as as of"])
def test_odd_relations_break_nothing(relation):
    told = canonical(Triplet(subject="Ana", relation=relation, object="Lima's"))
    assert told is None or (told.subject.strip() and told.object.strip())


def test_a_form_that_is_canonical_stays_and_a_plain_base_takes_its_ending():
    for wording in SAME:
        for triplet in read(wording.format(o="Mira Tolvane", r="mayor", s="Vera Stadrin")):
            assert form(*triplet) == triplet
    assert parse_verb(["live", "in"]) == ("active", "lives", ["in"])


@pytest.mark.parametrize(
    ("inflected", "base"),
    [("wrote", "write"), ("living", "live"), ("studies", "study"), ("running", "run"), ("died", "die"), ("xed", "")],
)
def test_a_verb_has_one_base(inflected, base):
    assert find_base(inflected) == base


def test_forms_are_spelled_as_english_spells_them():
    assert [third_person(verb) for verb in ("study", "teach", "live", "play")] == [
        "studies",
        "teaches",
        "lives",
        "plays",
    ]
    assert [past(verb) for verb in ("study", "write", "live", "work")] == ["studied", "wrote", "lived", "worked"]
    assert is_plural("founders") and not is_plural("boss") and not is_plural("headquarters")


@pytest.mark.parametrize("form", ["found", "set", "spread", "broadcast", "wed"])
def test_a_base_that_is_also_a_past_form_is_kept_as_it_is(form):
    triplet = Triplet(subject="Ana Rojo", relation=f"{form} in", object="Lima")
    assert canonical(triplet) == triplet
    assert parse_verb([form, "in"]) == ("active", form, ["in"])
