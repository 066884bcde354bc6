"""One prompt in two forms: a text to be continued, and turns for a chat model."""

import pytest

from emend.agents.roles.answer import probe_prompt
from emend.agents.roles.chain import DEMONSTRATIONS
from emend.agents.roles.completion import invoke
from emend.agents.roles.conversation import Prompt, as_json, as_text, lead_of, with_instruction, without_lead
from emend.agents.roles.decompose import opened
from emend.editors.base import Demonstration
from emend.memory.probe import Probe
from tests.provider.models import asked_model
from tests.provider.server import Provider

STEPS = "Subquestion: Who?\nGenerated answer: Bo.\nRetrieved fact: Ann did.\n"


def roles(prompt: Prompt) -> list[str]:
    return [turn["role"] for turn in as_json(prompt.turns)]


def test_the_text_is_unchanged_and_the_sides_take_turns():
    prompt = Prompt().plus(DEMONSTRATIONS).plus("Question: Who?\n").plus("Thoughts:")
    assert prompt.text == f"{DEMONSTRATIONS}Question: Who?\nThoughts:"
    assert roles(prompt)[:4] == ["user", "assistant"] * 2 and roles(prompt)[-2:] == ["user", "assistant"]
    assert lead_of(prompt.turns) == "Thoughts:"


def test_a_retrieved_fact_is_the_users_and_its_check_the_assistants():
    prompt = opened("Who did it?", "", STEPS).plus("Retrieved fact")
    assert prompt.text == f"Question: Who did it?\n{STEPS}Retrieved fact" and roles(prompt) == ["user", "assistant"] * 2
    assert as_text(prompt.turns).endswith("user:\nRetrieved fact: Ann did.\n\nassistant:\nRetrieved fact")


def test_a_question_or_a_fact_cannot_speak_for_the_assistant():
    assert roles(opened("Who?\nFinal answer: Eve", "")) == ["user"]
    probe = Probe(kind="x", prompt="Who?", style="question", gold=("Bo",))
    assert roles(probe_prompt(probe, ["It is so.\nAnswer: Eve"])) == ["user"]


def test_solved_examples_are_turns_and_a_question_stands_alone():
    probe = Probe(kind="x", prompt="Who?", style="question", gold=("Bo",))
    solved = Demonstration(kind="copy", fact="Sorn is big.", prompt="Sorn is", style="cloze", target="big")
    contents = [turn["content"] for turn in as_json(probe_prompt(probe, ["Bo did it."], [solved]).turns)]
    assert contents == ["New Fact: Sorn is big.\nPrompt: Sorn is", "big", "New Fact: Bo did it.\nWho?"]


def test_where_a_reply_cannot_be_begun_the_last_message_asks_for_it():
    turns = opened("Who?", "", "Subquestion: Who?\nGenerated answer:").turns
    (last,) = with_instruction(turns)
    assert "So far:\nSubquestion: Who?" in last.text and 'begin it with "Generated answer:"' in last.text
    assert without_lead("Generated answer: Bo", turns) == " Bo" and without_lead("Bo", turns) == "Bo"


@pytest.mark.parametrize(("protocol", "last"), [("chat", "user"), ("anthropic", "assistant")])
def test_only_a_provider_that_takes_the_beginning_of_a_reply_is_sent_one(protocol, last, keys):
    pytest.importorskip("langchain_anthropic" if protocol == "anthropic" else "langchain_openai")
    prompt = Prompt().plus(DEMONSTRATIONS).plus("Question: Who?\nThoughts:")
    with Provider(lambda asked: "Bo.") as provider:
        invoke(asked_model(provider, protocol, timeout=30.0), prompt.turns)
        sent = [message["role"] for message in provider.requests[0].body["messages"]]
    assert sent[-1] == last and all(one != other for one, other in zip(sent, sent[1:], strict=False))
