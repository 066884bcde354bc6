"""Verdicts in words are read in the papers' forms, and in a form of the user's own."""

import pytest
from pydantic import ValidationError

from emend.agents.judging.reply_form import ReplyForm, read_forms
from emend.memory.errors import ModelReplyError
from tests.graphs.judge_items import said

TAG = ReplyForm(line="<{verdict}>", words={"support": "yes", "not-support": "no"})
SCORE = ReplyForm(line="Score: {consistency}")


@pytest.mark.parametrize(
    ("kind", "reply", "values"),
    [
        ("agreement", "Score: 5", {"consistency": 5.0}),
        ("agreement", "Both rise.\nScore: 3.", {"consistency": 3.0}),
        ("agreement", "The consistency is: 2", {"consistency": 2.0}),
        ("coherence", "<support>", {"supported": 1.0}),
        ("coherence", "The thoughts name Sorrel alone, so it follows. <support>", {"supported": 1.0}),
        ("coherence", "They name Dunn.\n<not-support>", {"supported": 0.0}),
        ("equivalence", "Quote: Brenn\nThe verdict is: yes", {"equivalent": 1.0}),
    ],
)
def test_the_papers_forms_are_read(kind, reply, values):
    assert said(kind, reply)[0].values == values


@pytest.mark.parametrize(
    ("kind", "reply"),
    [
        ("agreement", "Score: 6"),
        ("agreement", "Score: 3\nScore: 4"),
        ("agreement", "Score: 4 is too much for this"),
        ("coherence", "<support> or <not-support>"),
        ("coherence", "<not-support>\nBut on reflection: <support>"),
        ("coherence", "<support/>"),
    ],
)
def test_what_is_no_clear_verdict_is_none(kind, reply):
    verdict, _ = said(kind, reply)
    assert verdict.values == {} and verdict.problem


def test_several_forms_and_fields_are_read_by_name():
    marks = ReplyForm(line="Accuracy: {correctness}; Overall: {overall}")
    known = {"verdict": ("yes", "no")}
    forms = [SCORE, TAG, marks]
    assert read_forms("Well.\naccuracy = 4;overall: 3", forms, (), known) == {"correctness": 4, "overall": 3}
    assert read_forms("Well. <SUPPORT>", forms, (), known) == {"verdict": "yes"}
    with pytest.raises(ModelReplyError, match="differ"):
        read_forms("Score: 2\n<support>", forms, (), known)
    with pytest.raises(ModelReplyError, match="quotation"):
        read_forms("Score: 2", forms, ["It says\nScore: 2"], known)


@pytest.mark.parametrize("line", ["", "Score", "{a} {a}"])
def test_a_form_needs_fields_each_once(line):
    with pytest.raises(ValidationError):
        ReplyForm(line=line)
