"""Wordings that are held out: enough of them, unlike the standard ones, and read exactly."""

import pytest

from emend.agents.tiny.world import World, relations
from emend.evals.streams.fairness import check_stream
from emend.evals.streams.generator import generate_stream
from emend.evals.streams.sentences.held_out import held_out_templates
from emend.evals.streams.sentences.wordings import fill_statement, read_turn, sentence_templates
from emend.evals.streams.stream_config import StreamOptions
from emend.evals.streams.turn import FactClaim, StreamRule, Turn

HELD_OUT, STANDARD = held_out_templates(), sentence_templates("standard")
FACT = {"subject": "Vireus Seduov", "relation": "head of state", "object": "Luncleor"}
NAMES = FACT | {"first": "country of citizenship", "last": "head of state", "condition": "Ostrim"}
KINDS = ("updates", "corrections", "backdated", "deletions", "along", "conditional")


@pytest.mark.parametrize("noun", [each.noun for each in relations().values()])
def test_each_relation_has_eight_wordings_that_are_none_of_the_standard_ones(noun: str):
    wordings = {*HELD_OUT.statements[noun]}
    assert len(wordings) >= 8
    assert not wordings & {*STANDARD.statements_of(noun)}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_change_has_eight_wordings(kind: str):
    assert len({*getattr(HELD_OUT, kind)}) >= 8


def test_every_fact_of_a_world_is_read_back_in_every_wording():
    nouns = {name: each.noun for name, each in relations().items()}
    for fact in World(0).facts[::23]:
        for wording in HELD_OUT.statements_of(nouns[fact.relation]):
            text = fill_statement(wording, fact.subject, fact.object)
            claim = FactClaim(subject=fact.subject, relation=nouns[fact.relation], object=fact.object)
            assert read_turn(text) == (claim,), text


def test_a_relation_of_a_table_is_read_back_in_every_wording():
    for wording in HELD_OUT.statements_of("shoe size"):
        claim = FactClaim(subject="Ana Ruiz", relation="shoe size", object="41")
        assert read_turn(fill_statement(wording, "Ana Ruiz", "41")) == (claim,)


@pytest.mark.parametrize("template", HELD_OUT.deletions)
def test_a_request_to_forget_is_read_back(template: str):
    assert read_turn(template.format(**NAMES)) == (FactClaim(**(FACT | {"object": None})),)  # type: ignore[arg-type]


@pytest.mark.parametrize("template", HELD_OUT.along)
def test_a_rule_along_two_relations_is_read_back(template: str):
    names = NAMES | {"relation": "travel desk"}
    path = ("country of citizenship", "head of state")
    rule = StreamRule(subject="Vireus Seduov", relation="travel desk", path=path)
    assert read_turn(template.format(**names)) == (rule,)


@pytest.mark.parametrize("template", HELD_OUT.conditional)
def test_a_rule_under_a_condition_is_read_back(template: str):
    names = NAMES | {"relation": "travel desk", "object": "Blue 125"}
    rule = StreamRule(
        subject="Vireus Seduov",
        relation="travel desk",
        path=("country of citizenship",),
        condition="Ostrim",
        object="Blue 125",
    )
    assert read_turn(template.format(**names)) == (rule,)


@pytest.mark.slow
def test_a_stream_of_them_shares_no_sentence_with_the_standard_one_and_its_gold_is_what_it_says():
    streams = []
    for wordings in ("standard", "held-out"):
        items = list(generate_stream(StreamOptions(turns=80, chatter=0, seed=2, wordings=wordings)))
        assert not any(check.failed for check in check_stream(items))
        streams.append({item.text for item in items if isinstance(item, Turn)})
    assert not streams[0] & streams[1]
