"""Which answers agreement and equivalence compare, and what is read of a plain verdict."""

import pytest

from emend.agents.judging.base import Item, JudgeInput
from emend.agents.judging.verdicts import NO_BEFORE, Agreement, Equivalence
from emend.memory.errors import ModelReplyError


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
