"""Which answers agreement and equivalence compare, and what is read of a plain verdict."""

import pytest

from emend.agents.judging.base import Item, JudgeInput
from emend.agents.judging.verdicts import NO_BEFORE, Agreement, Equivalence
from emend.graphs.registry import JUDGES
from emend.memory.errors import ModelReplyError
from tests.graphs.judge_items import EQUIVALENCE, said


def record(**fields):
    return JudgeInput(kind="tendency_open", question="q", local=True, outputs=frozenset({"judged"}), **fields)


def test_both_answers_are_compared_where_there_are_two_and_out_of_scope_alone():
    item = Agreement().pick(record(answer="now", before="then"))
    assert isinstance(item, Item) and {"now", "then"} <= {text for texts in item.parts.values() for text in texts}
    assert Agreement().pick(record(answer="now")) == NO_BEFORE
    assert Agreement().pick(record(answer="now", before="then").model_copy(update={"local": False})) is None


def test_a_plain_verdict_keeps_the_reason_before_it():
    item = Agreement().pick(record(answer="now", before="then"))
    assert isinstance(item, Item)
    (verdict,) = Agreement().read_words("They differ in one name.\nConsistency: 4", [item])
    assert verdict.values["consistency"] == 4.0 and verdict.reason == "They differ in one name."


def test_equivalence_is_of_matched_answers_in_scope_with_gold():
    asked = JudgeInput(kind="k", question="q", gold=("Bo", "Bob"), answer="Bo.", outputs=frozenset({"em"}))
    item = Equivalence().pick(asked)
    assert isinstance(item, Item) and item.parts["one"] == ("Bo.",) and item.parts["other"] == ("Bo\nBob",)
    for changed in ({"local": True}, {"outputs": frozenset({"judged"})}, {"answer": None}, {"gold": ()}):
        assert Equivalence().pick(asked.model_copy(update=changed)) is None


@pytest.mark.parametrize(
    "line", ["Consistency: 4", "**Consistency:** 4", "Consistency: **4**", "### Consistency: 4", "**Consistency: 4**"]
)
def test_a_plain_verdict_may_be_emphasised(line):
    item = Agreement().pick(record(answer="now", before="then"))
    assert isinstance(item, Item)
    (verdict,) = Agreement().read_words(f"They differ in one name.\n\n{line}", [item])
    assert verdict.values["consistency"] == 4.0


def test_an_emphasised_verdict_that_the_text_has_may_be_a_quotation():
    item = Agreement().pick(record(answer="now\n**Consistency:** 4", before="then"))
    assert isinstance(item, Item)
    with pytest.raises(ModelReplyError, match="quotation"):
        Agreement().read_words("Consistency: 4", [item])


@pytest.mark.parametrize(
    ("quote", "kept"),
    [("Brenn", "Brenn"), (["It is", "Brenn"], "It is ... Brenn"), (None, ""), ("", "")],
)
def test_a_quotation_may_be_a_list_or_missing_as_small_models_give_it(quote, kept):
    verdict, _ = said("equivalence", {"reason": "r", "quote": quote, "verdict": "yes"})
    assert (verdict.values, verdict.quote) == ({"equivalent": 1.0}, kept)
    assert said("equivalence", {"reason": "r", "verdict": "yes"})[0].values == {"equivalent": 1.0}
    assert said("equivalence", {"reason": "r", "quote": 5, "verdict": "yes"})[0].values == {}


def test_a_quotation_in_words_is_kept_with_the_verdict():
    verdict, _ = said("equivalence", "The specifics are a name.\nQuote: It is Brenn\nVerdict: yes")
    assert (verdict.values, verdict.quote) == ({"equivalent": 1.0}, "It is Brenn")


def test_the_quotation_is_asked_for_before_the_verdict_and_either_text_comes_first_once():
    role = JUDGES.load("equivalence").role
    first, second = (role.prompt([EQUIVALENCE], swapped) for swapped in (False, True))
    assert first.index("<reply ") < first.index("<reference ")
    assert second.index("<reference ") < second.index("<reply ")
    assert [*role.schema.model_json_schema()["properties"]] == ["reason", "quote", "verdict"]


def test_a_run_by_the_rule_contains_alone_can_be_judged():
    contained = JudgeInput(kind="k", question="q", gold=("Bo",), answer="It is Bo.", outputs=frozenset({"contains"}))
    assert isinstance(Equivalence().pick(contained), Item)
