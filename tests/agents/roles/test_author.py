"""The authoring role: prompts in two forms, texts without what is said before them, and decisions."""

from pathlib import Path

import pytest

from emend.agents.roles.author import SHIPPED, choose_option, decide, load_prompts, write_text
from emend.memory.errors import BadData, ModelReplyError
from tests.fakes import ScriptedChatModel

PROMPT = SHIPPED["paragraph"].fill(fact="Pell Lock was built in Norway.", language="English")


def replying(text: str) -> ScriptedChatModel:
    return ScriptedChatModel(reply=lambda prompt: text)


def test_a_prompt_is_turns_for_a_chat_model_and_one_text_for_a_base_model():
    assert [turn.type for turn in PROMPT.turns] == ["human", "ai", "human"]
    assert str(PROMPT.turns[-1].text) == "Fact: Pell Lock was built in Norway."
    assert PROMPT.text.endswith("Fact: Pell Lock was built in Norway.\nParagraph:")


def test_what_was_wrong_stands_after_what_is_asked():
    again = SHIPPED["paragraph"].fill("the text is empty", fact="A {b} c.", language="English")
    assert str(again.turns[-1].text).startswith("Fact: A {b} c.\n\n(An earlier attempt")


@pytest.mark.parametrize(
    "reply",
    [
        "Pell Lock is old.",
        "Sure, here you go!\n\nHere is a paragraph about it:\n\nPell Lock is old.",
        "**Paragraph:** Pell Lock is old.",
        "Here's the paragraph you asked for:\n\nPell Lock is old.",
        "<think>A lock?</think>Pell Lock is old.",
    ],
)
def test_what_a_model_says_before_its_text_is_left_out(reply: str):
    assert write_text(replying(reply), PROMPT).text == "Pell Lock is old."


def test_thoughts_alone_are_an_empty_text():
    assert write_text(replying("<think>A lock?"), PROMPT).text == ""


@pytest.mark.parametrize(
    ("reply", "holds"),
    [
        ("True", True),
        ("false.", False),
        ("**True** - it says so.\nNothing is false.", True),
        ("Yes", True),
        ("True. The paragraph says so, and there is no contradiction.", True),
        ("No, it leaves this out: the sentence is not true of it.", False),
        ("Answer: False", False),
        ("The paragraph says that it is elsewhere, so the answer is **False**.", False),
    ],
)
def test_a_decision_is_the_word_that_a_reply_begins_with_or_the_only_one_in_it(reply: str, holds: bool):
    assert decide(replying(reply), PROMPT).word == str(holds)


@pytest.mark.parametrize("reply", ["Perhaps.", "True and False", ""])
def test_a_reply_without_one_decision_is_refused(reply: str):
    with pytest.raises(ModelReplyError):
        decide(replying(reply), PROMPT)


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("B", "B"),
        ("(B)", "B"),
        ("**A**", "A"),
        ("C.", "C"),
        ("Answer: B", "B"),
        ("A) Increase", "A"),
        ("Option C, for nothing changes.", "C"),
        ("The likeliest is (B) Decrease.", "B"),
    ],
)
def test_an_option_is_the_letter_that_a_reader_names(reply: str, letter: str):
    assert choose_option(replying(reply), PROMPT).word == letter


@pytest.mark.parametrize(
    "reply",
    [
        "B\n\nExplanation: a new tax lowers demand, so (A) is unlikely.",
        "B. Unlike (A), it follows.",
        "**B**\n\nReasoning: (A) and (C) are out.",
        "The correct answer is B",
        "Answer: B\n\nA higher price lowers demand.",
    ],
)
def test_an_option_that_comes_first_counts_whatever_is_said_of_others(reply: str):
    assert choose_option(replying(reply), PROMPT).word == "B"


@pytest.mark.parametrize("reply", ["A decrease is likely.", "(A) or (B)", "A or B", "Neither.", ""])
def test_a_reply_without_one_option_is_refused(reply: str):
    with pytest.raises(ModelReplyError):
        choose_option(replying(reply), PROMPT)


def test_prompts_of_a_file_take_the_place_of_the_shipped_ones(tmp_path: Path):
    file = tmp_path / "prompts.toml"
    file.write_text('[paragraph]\ntask = "Write in {language}."\nask = "The fact: {fact}"\nlabel = "Text:"\n')
    prompts = load_prompts(str(file))
    assert prompts["paragraph"].fill(fact="A.", language="French").text == "Write in French.\n\nThe fact: A.\nText:"
    assert prompts["conveys"] == SHIPPED["conveys"] and prompts["paragraph"].id != SHIPPED["paragraph"].id


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('[paragraf]\ntask = "a"\nask = "{fact}"\nlabel = "b"', "paragraph"),
        ('[paragraph]\ntask = "a"\nask = "b"\nlabel = "c"', "{fact}"),
        ("[paragraph", "cannot be read"),
        ("x = " + "[" * 9_000, "cannot be read"),
        ('[paragraph]\nask = "{fact}"', "task"),
        ('[paragraph]\ntask = "a"\nask = "{fact}"\nlabel = "c"\nexamples = [{fact = "b"}]', "reply"),
    ],
)
def test_a_wrong_file_of_prompts_is_refused_with_what_is_wrong(tmp_path: Path, text: str, named: str):
    file = tmp_path / "prompts.toml"
    file.write_text(text)
    with pytest.raises(BadData) as error:
        load_prompts(str(file))
    assert named in str(error.value)
