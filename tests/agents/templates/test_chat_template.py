"""Chat templates of eight families: their options, the day in them, and where an answer stands behind thoughts."""

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from emend.agents.local.chat_model import LocalChatModel
from emend.agents.templates.chat_template import ChatTemplate
from emend.agents.templates.thoughts import opened_thoughts, written_thoughts
from emend.memory.errors import BadSettings, ModelError

FOLDER = Path(__file__).parents[2] / "data" / "templates"
RENDERINGS = json.loads((FOLDER / "renderings.json").read_text(encoding="utf-8"))
CLASSES: dict[str, Any] = {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}
ASKED = [SystemMessage("Be brief."), HumanMessage("Where is Ostrim?")]
SWITCHED_OFF = {"qwen3", "smollm3"}
"""Families whose models think unless they are told not to."""
BEHIND = {
    ("qwen3", False): "<|im_start|>assistant\n<think>\n\n</think>\n\n",
    ("qwen3", True): "<|im_start|>assistant\n<think>\n\n</think>\n\n",
    ("smollm3", True): "<|im_start|>assistant\n<think>\n\n</think>\n",
    ("deepseek-v3.1", True): "<｜Assistant｜><think></think>",
    ("deepseek-v3.1", False): "<｜Assistant｜></think>",
    ("deepseek-r1", None): "<｜Assistant｜><think>\n\n</think>\n\n",
    ("gpt-oss", None): "<|start|>assistant<|channel|>final<|message|>",
    ("granite", None): "<|start_of_role|>assistant<|end_of_role|>",
    ("granite", True): "<|start_of_role|>assistant<|end_of_role|>",  # no thoughts with a system message
}
"""End of the prompt before an answer, with thoughts switched on or off."""


@pytest.fixture
def lm(random_lm, monkeypatch):
    """A random model of two layers; its tokenizer gets the chat template of a family."""
    model = random_lm("llama", window=1024)

    def with_family(family: str) -> Any:
        text = (FOLDER / f"{family}.jinja").read_text(encoding="utf-8")
        monkeypatch.setattr(model.tokenizer, "chat_template", text)
        return model

    return with_family


def expected_text(family: str, options: dict[str, Any], messages: list[dict[str, str]]) -> Any:
    """The published rendering; of a model that thinks by default, the one without thoughts."""
    wanted = {"enable_thinking": False} if not options and family in SWITCHED_OFF else options
    return next(
        row["text"]
        for row in RENDERINGS
        if (row["family"], row["options"], row["messages"]) == (family, wanted, messages)
    )


@pytest.mark.parametrize("row", RENDERINGS, ids=lambda row: f"{row['family']}-{row['options']}-{len(row['messages'])}")
def test_prompts_are_those_of_the_published_template_token_by_token(row, lm):
    model = lm(row["family"])
    messages = [CLASSES[message["role"]](message["content"]) for message in row["messages"]]
    text = ChatTemplate(model.tokenizer, row["options"], "m").render(messages)
    expected = expected_text(row["family"], row["options"], row["messages"])
    assert text == expected and model.encode(text) == model.encode(expected)


def switches(on: bool | None, family: str) -> dict[str, Any]:
    """Options that switch thoughts on or off."""
    name = "thinking" if family in ("deepseek-v3.1", "granite") else "enable_thinking"
    return {} if on is None else {name: on}


@pytest.mark.parametrize(("family", "on"), BEHIND)
def test_likelihoods_are_taken_where_the_answer_stands_behind_the_thoughts(family, on, lm):
    model = lm(family)
    chat = LocalChatModel(lm=model, model_name=family, template=switches(on, family))
    try:
        prompt = chat._answer_text(ASKED)
        assert prompt.endswith(BEHIND[family, on])
        scores = chat.score(ASKED, ["Karo"])
        expected = model.log_probs([(prompt, "Karo")])[0]
        assert scores.log_probs == (pytest.approx(expected.log_prob, abs=1e-4),)
        begun = chat._answer_text([*ASKED, AIMessage("It is in")])
        assert begun == prompt + "It is in"
    finally:
        chat.close()


def test_granite_thinks_where_it_is_switched_on_and_no_system_message_stands_in_the_way(lm):
    model = lm("granite")
    chat = LocalChatModel(
        lm=model, model_name="granite", template={"thinking": True}, max_new_tokens=3, thought_tokens=5
    )
    try:
        prompt = chat._text(ASKED[1:])
        expected = model.log_probs([(prompt + "<think>\n\n</think>\n\n<response>", "Karo")])[0]
        assert "Write your thoughts between <think></think>" in prompt
        assert chat.score(ASKED[1:], ["Karo"]).log_probs == (pytest.approx(expected.log_prob, abs=1e-4),)
        lengths = [chat.invoke(messages).usage_metadata for messages in (ASKED[1:], ASKED)]
        assert [length and length["output_tokens"] for length in lengths] == [3 + 5, 3]
    finally:
        chat.close()


@pytest.mark.parametrize(
    ("family", "options", "room"),
    [("qwen3", {}, 0), ("qwen3", {"enable_thinking": True}, 5), ("deepseek-r1", {}, 5), ("gpt-oss", {}, 5)],
)
def test_a_reply_has_room_for_its_thoughts_where_the_model_writes_some(family, options, room, lm):
    chat = LocalChatModel(lm=lm(family), model_name=family, template=options, max_new_tokens=3, thought_tokens=5)
    try:
        message = chat.invoke(ASKED)
        assert message.usage_metadata is not None
        assert message.usage_metadata["output_tokens"] == 3 + room
        assert str(message.text).startswith("<think>") == (family == "deepseek-r1")
    finally:
        chat.close()


def test_the_run_says_what_it_does_with_thoughts_and_with_the_day(lm, caplog):
    for family, options in [("smollm3", {}), ("deepseek-r1", {}), ("granite", {"date": "2024-06-01"}), ("gemma3", {})]:
        ChatTemplate(lm(family).tokenizer, options, family).warn()
    words = [f"{record.args[0]}: {record.args[1]}" for record in caplog.records]
    assert len(words) == 3
    assert "smollm3: the template writes today's date: 2025-01-01" in words[0]
    assert "switched off (model.template.enable_thinking=true" in words[1]
    assert "model.thought_tokens" in words[2] and words[2].startswith("deepseek-r1")


def test_a_switch_that_a_system_message_makes_void_is_said(lm, caplog):
    ChatTemplate(lm("granite").tokenizer, {"thinking": True, "date": "2024-06-01"}, "granite").warn()
    assert "thinking has no effect in a conversation with a system message" in caplog.text
    ChatTemplate(lm("deepseek-v3.1").tokenizer, {"thinking": True}, "deepseek").warn()
    assert caplog.text.count("has no effect") == 1


def test_another_day_changes_prompt_and_fingerprint_and_no_template_writes_today(lm):
    template = ChatTemplate(lm("granite").tokenizer, {"date": "2024-06-01"}, "m")
    assert "June 01, 2024" in template.render(ASKED[1:])
    default = ChatTemplate(lm("granite").tokenizer, {}, "m")
    assert "January 01, 2025" in default.render(ASKED[1:])
    assert template.suffix != default.suffix and default.suffix
    assert ChatTemplate(lm("gemma3").tokenizer, {}, "m").suffix == ""


def test_options_are_part_of_a_models_fingerprint(lm):
    model = lm("qwen3")
    names = [{}, {"enable_thinking": False}, {"enable_thinking": True}]
    chats = [LocalChatModel(lm=model, model_name="m", template=options) for options in names]
    off, same, on = (chat.fingerprint for chat in chats)
    assert off == same != on and off.startswith(model.fingerprint)
    assert chats[0]._identifying_params["options"] != chats[2]._identifying_params["options"]


@pytest.mark.parametrize(
    ("family", "options", "words"),
    [
        ("llama3", {"enable_thinking": False}, "template.enable_thinking.*no such option"),
        ("deepseek-v3.1", {"enable_thinking": False}, "It has 'thinking'"),
        ("qwen3", {"date": "2025-01-01"}, "template.date.*no such option"),
        ("qwen3", {"messages": []}, "template.messages"),
        ("granite", {"date": "today"}, "2025-01-01"),
    ],
)
def test_an_option_that_the_template_does_not_have_is_refused(family, options, words, lm):
    with pytest.raises(BadSettings, match=words):
        ChatTemplate(lm(family).tokenizer, options, "m")


def test_a_system_message_goes_in_front_of_the_user_where_there_is_no_such_role(lm):
    for family in ("gemma2", "gemma3"):
        text = ChatTemplate(lm(family).tokenizer, {}, "m").render(ASKED)
        assert "<start_of_turn>user\nBe brief.\n\nWhere is Ostrim?<end_of_turn>" in text


def test_thoughts_that_only_the_first_token_shows_are_recognised(lm, monkeypatch):
    tokenizer = lm("gemma3").tokenizer
    monkeypatch.setattr(tokenizer, "get_added_vocab", lambda: {"<think>": 1})
    template = ChatTemplate(tokenizer, {}, "m")
    assert template.thoughts is None
    template.observe(lambda prompt: "<think>\n")
    assert template.render_answer(ASKED).endswith("<start_of_turn>model\n<think>\n\n</think>\n\n")
    quiet = ChatTemplate(tokenizer, {}, "m")
    quiet.observe(lambda prompt: "Karo")
    assert quiet.thoughts is None and quiet.render_answer(ASKED) == quiet.render(ASKED)


def test_stop_texts_end_an_answer_and_no_thoughts():
    thoughts, opened = written_thoughts("<think>"), opened_thoughts("A: <think>\n")
    assert thoughts is not None and opened is not None
    assert thoughts.cut("<think>\na;\n\n</think>\n\nKaro; no", (";",)) == "<think>\na;\n\n</think>\n\nKaro"
    assert thoughts.cut("<think>\na;", (";",)) == "<think>\na;"
    in_tags = "<think>a</think>\n<response>\nKaro\nno</response>"
    assert thoughts.cut(in_tags, ("\n",)) == "<think>a</think>\n<response>\nKaro"
    assert opened_thoughts("User: <think>?") is None
    assert opened.complete("so") == "<think>\nso"


def test_a_template_that_refuses_everything_and_several_templates_are_no_error_until_they_are_asked(lm, monkeypatch):
    tokenizer = lm("gemma3").tokenizer
    monkeypatch.setattr(tokenizer, "chat_template", "{{ raise_exception('no') }}<think>")
    with pytest.raises(ModelError, match="rejects messages of user"):
        ChatTemplate(tokenizer, {}, "m").render(ASKED[1:])
    texts = {name: (FOLDER / f"{name}.jinja").read_text(encoding="utf-8") for name in ("qwen3", "gemma3")}
    monkeypatch.setattr(tokenizer, "chat_template", {"default": texts["qwen3"], "tool_use": texts["gemma3"]})
    assert ChatTemplate(tokenizer, {}, "m").render(ASKED).endswith("assistant\n<think>\n\n</think>\n\n")
