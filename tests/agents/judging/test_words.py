"""Replies in plain words: what a judge thinks aloud is not a verdict."""

import pytest

from emend.agents.judging.base import Item, JudgeInput
from emend.agents.judging.recall import Recall
from emend.agents.judging.tendency import SCALES, Tendency
from emend.agents.judging.verdicts import read_thoughts
from emend.memory.errors import ModelReplyError

MARKS = "Correctness: {0}; Coherence: {0}; Comprehensive: {0}; Overall: {0}"


def item(kind: str) -> Item:
    return Item.of(kind, event="e", question="q", answer="a", label="l", text="t", facts="f")


def test_facts_are_read_behind_the_thoughts():
    reply = "<think>\n1. The text names Paris\n2. Or France?\n</think>\n1. Paris is in Italy."
    assert Recall().words_to_atoms(reply).facts == ["Paris is in Italy."]


def test_labels_and_marks_in_thoughts_are_none():
    with pytest.raises(ModelReplyError):
        Recall().words_to_labels("<think>\n1: inconsistent\n</think>\nFact 1 stays.", item("recall"))
    with pytest.raises(ModelReplyError, match="no end"):
        Recall().words_to_labels("<think>\n1: inconsistent\n", item("recall"))
    items = [item("tendency")] * 2
    said = "\n".join(f"{number}. {MARKS.format(5)}" for number in ("I", "II"))
    assert [one.values["overall_mark"] for one in Tendency().read_words(said, items)] == [5.0, 5.0]
    marks = {1: 0.0, 2: 0.0, 3: 0.0, 4: 1.0, 5: 1.0}
    counted = {mark: Tendency().derive({f"{scale}_mark": float(mark) for scale in SCALES}) for mark in marks}
    assert {mark: values["correct"] for mark, values in counted.items()} == marks
    found = Tendency().read_words(f"<think>\n{said}\n</think>\nThe lowest everywhere.", items)
    assert all(one.problem and not one.values for one in found)
    assert all("no end" in one.problem for one in Tendency().read_words(f"<think>\n{said}", items))


@pytest.mark.parametrize(
    "reply",
    ["Die Straße in Meißen, Gießen und İzmir.\nAnswer: 4", "Die Straße in Meißen, Gießen und İzmir.\nAnswer : 4"],
)
def test_thoughts_end_where_the_answer_begins(reply):
    asked = JudgeInput(kind="counting", question="q", reply=reply, answer="4", outputs=frozenset({"pre_edit"}))
    assert read_thoughts(asked) == "Die Straße in Meißen, Gießen und İzmir."
