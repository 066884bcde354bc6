"""A text is continued: up to a stop, and without what a reasoning model thinks on the way."""

import pytest

from emend.agents.continuing import continue_text
from emend.memory.errors import ModelReplyError
from tests.fakes import ScriptedChatModel


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (" Who is it?\n", " Who is it?\n"),
        ("<think>\nSubquestion: none?\n</think>\n\nSubquestion: Who is it?", "Subquestion: Who is it?"),
    ],
)
def test_thoughts_are_no_part_of_a_continuation(reply, said):
    assert continue_text(ScriptedChatModel(reply=lambda prompt: reply), "Question: who?\n").text == said


def test_thoughts_without_an_end_are_told_with_the_reply():
    reply = "<think>\nSubquestion: none?"
    with pytest.raises(ModelReplyError, match="thoughts and no answer") as caught:
        continue_text(ScriptedChatModel(reply=lambda prompt: reply), "Question: who?\n")
    assert caught.value.reply == reply


@pytest.mark.parametrize("said", ["It is Oslo.\nRetrieved fact: none\nFinal answer: Bergen", "It is Oslo."])
def test_a_model_that_does_not_heed_a_stop_is_cut_there(said):
    told = continue_text(ScriptedChatModel(reply=lambda prompt: said), "Question: who?\n", ["\nRetrieved fact:"])
    assert told.text == "It is Oslo."
