"""A text is continued: up to a stop, and without what a reasoning model thinks on the way."""

import pytest

from emend.agents.roles.completion import continue_text
from emend.agents.roles.conversation import Prompt
from emend.memory.errors import ModelReplyError, RequestRefused
from tests.fakes import ScriptedChatModel
from tests.provider.models import asked_model
from tests.provider.protocols import Raw
from tests.provider.server import Provider

QUESTION = Prompt().plus("Question: who?\n")


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (" Who is it?\n", " Who is it?\n"),
        ("<think>\nSubquestion: none?\n</think>\n\nSubquestion: Who is it?", "Subquestion: Who is it?"),
    ],
)
def test_thoughts_are_no_part_of_a_continuation(reply, said):
    assert continue_text(ScriptedChatModel(reply=lambda prompt: reply), QUESTION).text == said


def test_thoughts_without_an_end_are_told_with_the_reply():
    reply = "<think>\nSubquestion: none?"
    with pytest.raises(ModelReplyError, match="thoughts and no answer") as caught:
        continue_text(ScriptedChatModel(reply=lambda prompt: reply), QUESTION)
    assert caught.value.reply == reply


@pytest.mark.parametrize("said", ["It is Oslo.\nRetrieved fact: none\nFinal answer: Bergen", "It is Oslo."])
def test_a_model_that_does_not_heed_a_stop_is_cut_there(said):
    told = continue_text(ScriptedChatModel(reply=lambda prompt: said), QUESTION, ["\nRetrieved fact:"])
    assert told.text == "It is Oslo."


def test_a_provider_that_refuses_stop_texts_is_sent_none_and_its_reply_is_cut(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")

    def says(asked):
        refused = "Unsupported parameter: 'stop' is not supported with this model."
        return Raw({"error": {"message": refused, "param": "stop"}}, 400) if "stop" in asked.body else "Oslo.\nNext: x"

    with Provider(says) as provider:
        model = asked_model(provider)
        told = [continue_text(model, QUESTION, ["\nNext:"]).text for _ in range(2)]
    assert told == ["Oslo.", "Oslo."] and ["stop" in one.body for one in provider.requests] == [True, False, False]


def test_another_rejection_is_not_taken_for_one_of_stop_texts(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
    with Provider(faults=["400"]) as provider, pytest.raises(RequestRefused, match="temperature"):
        continue_text(asked_model(provider), QUESTION, ["\nNext:"])
    assert provider.count == 1
