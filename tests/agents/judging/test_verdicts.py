"""Which answers agreement and equivalence compare, and what is read of a plain verdict."""

from emend.agents.judging.base import Item, JudgeInput
from emend.agents.judging.verdicts import NO_BEFORE, Agreement, Equivalence


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
