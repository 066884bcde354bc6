"""Local chat models are shown tools by their templates, and calls are read in the form that each family writes."""

import json
import shutil
from typing import Any, ClassVar

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel
from transformers import AutoTokenizer

from emend.agents.llm import load_model
from emend.agents.local.causal_lm import CausalLM
from emend.agents.local.chat_model import CALL_TOKENS, LocalChatModel
from emend.agents.local.replies import Generated
from emend.agents.parsing.tool_calls import parse_reply, render_chat, supports_tools, with_calls_from_text
from emend.agents.roles.tools import can_call_tools
from emend.agents.structured import ask_structured
from emend.editors.base import EditorContext
from emend.editors.registry import EDITORS
from emend.graphs.agent_tools import TOOLS, lookup
from emend.memory.edit import Edit, Triplet
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import BadSettings, ModelError, ModelReplyError
from emend.memory.probe import Probe
from emend.memory.retrieval.compose import load_retriever
from emend.memory.store.chroma import ChromaMemory

SHOWN = (
    "{% if tools %}{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}MARKS\n{% endif %}"
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}"
    "{% for call in m.tool_calls or [] %}<call {{ call.id }}>{{ call.function | tojson }}{% endfor %}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
HERMES = SHOWN.replace("MARKS", "<tool_call></tool_call>")
OFFERED = [convert_to_openai_tool(tool) for tool in TOOLS]
CALL = {"subject": "Vouna", "relation": "capital"}
GIVEN = json.dumps(CALL)
WRITTEN = {
    "Qwen and Hermes": (
        "<tool_call></tool_call>",
        f'<tool_call>\n{{"name": "lookup", "arguments": {GIVEN}}}\n</tool_call>',
    ),
    "not closed": ("<tool_call></tool_call>", f'<tool_call>{{"name": "lookup", "arguments": {GIVEN}}}'),
    "behind thoughts": (
        "<tool_call>",
        f'<think>A {{brace.</think><tool_call>{{"name": "lookup", "arguments": {GIVEN}}}</tool_call>',
    ),
    "Qwen 3.5": (
        "<tool_call><function=",
        "<tool_call>\n<function=lookup>\n<parameter=subject>\nVouna\n</parameter>\n<parameter=relation>\ncapital\n"
        "</parameter>\n</function>\n</tool_call>",
    ),
    "Mistral": ("[TOOL_CALLS][ARGS]", f"[TOOL_CALLS]lookup[ARGS]{GIVEN}"),
    "Mistral with ids": ("[TOOL_CALLS][ARGS]", f"[TOOL_CALLS]lookup[CALL_ID]a1b2c3d4e[ARGS]{GIVEN}"),
    "Mistral before": ("[TOOL_CALLS]", f'[TOOL_CALLS] [{{"name": "lookup", "arguments": {GIVEN}}}]'),
    "Llama": ('"parameters"', f'{{"name": "lookup", "parameters": {GIVEN}}}'),
    "fenced": ("<tool_call>", f'I look it up.\n```json\n{{\n  "name": "lookup",\n  "arguments": {GIVEN}\n}}\n```'),
    "doubled braces": ("<tool_call>", f'{{{{"name": "lookup", "arguments": {GIVEN}}}}}'),
    "arguments as text": ("<tool_call>", json.dumps({"name": "lookup", "arguments": GIVEN})),
}


@pytest.fixture
def tokenizer(random_folder):
    return AutoTokenizer.from_pretrained(random_folder())


def read(tokenizer, marks: str, reply: str) -> AIMessage:
    tokenizer.chat_template = SHOWN.replace("MARKS", marks)
    assert supports_tools(tokenizer)
    return parse_reply(tokenizer, tokenizer(reply, add_special_tokens=False)["input_ids"], reply, "asked", OFFERED)


@pytest.mark.parametrize("form", WRITTEN)
def test_a_call_is_read_in_the_form_of_its_family(tokenizer, form):
    message = read(tokenizer, *WRITTEN[form])
    assert [(call["name"], call["args"]) for call in message.tool_calls] == [("lookup", CALL)]
    assert not message.invalid_tool_calls and "Vouna" not in message.text
    told = message.tool_calls[0]["id"] or ""
    assert len(told) == 9 and told.isalnum()


def test_two_calls_have_different_ids(tokenizer):
    written = WRITTEN["Qwen and Hermes"][1]
    message = read(tokenizer, "<tool_call>", f"First.\n{written}\n{written}")
    assert message.text == "First."
    assert len({call["id"] for call in message.tool_calls}) == 2


@pytest.mark.parametrize(
    "reply",
    [
        '<tool_call>{"name": "lookup", "argu</tool_call>',
        "<tool_call>[1]</tool_call>",
        '{"name": "lookup", "arguments": {',
    ],
)
def test_a_call_in_a_broken_form_is_no_answer(tokenizer, reply):
    message = read(tokenizer, "<tool_call>", reply)
    assert not message.tool_calls and message.invalid_tool_calls and message.text == reply


@pytest.mark.parametrize(
    "reply", ["Meburg", "<think>Hm.</think>Meburg", '{"name": "Karo"}', '{"name": "other", "x": 1}']
)
def test_a_reply_without_tool_calls_is_an_answer_unchanged(tokenizer, reply):
    message = read(tokenizer, "<tool_call>", reply)
    assert message.text == reply and not message.tool_calls and not message.invalid_tool_calls


def test_a_tokenizer_may_say_itself_how_its_replies_are_read(tokenizer):
    tokenizer.chat_template = SHOWN.replace("MARKS", "")
    assert not supports_tools(tokenizer)  # shown, but how calls are written is not known
    call = {"open": "CALL", "close": "END", "content": "json", "repeats": True}
    tokenizer.response_template = {"start_anchor": "<assistant>", "fields": {"tool_calls": call, "content": {}}}
    assert supports_tools(tokenizer)
    ids = tokenizer(f'CALL{{"name": "lookup", "arguments": {GIVEN}}}END', add_special_tokens=False)["input_ids"]
    assert parse_reply(tokenizer, ids, "", "<user>x\n<assistant>", OFFERED).tool_calls[0]["args"] == CALL


def test_a_template_without_tools_takes_none(tokenizer):
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}<tool_call>"
    assert not supports_tools(tokenizer)
    tokenizer.chat_template = None
    assert not supports_tools(tokenizer)


def test_the_conversation_is_written_with_calls_and_results(tokenizer):
    tokenizer.chat_template = HERMES
    call = {"name": "lookup", "args": CALL, "id": "a1b2c3d4e", "type": "tool_call"}
    said = [
        SystemMessage("Be short."),
        HumanMessage("Where?"),
        AIMessage("", tool_calls=[call]),
        ToolMessage("Meburg", tool_call_id="a1b2c3d4e", name="lookup"),
    ]
    text = render_chat(tokenizer, said, OFFERED)
    assert text.count('"name": "lookup"') == 2 and "<call a1b2c3d4e>" in text
    assert text.endswith("<tool>Meburg<assistant>")
    assert "lookup" not in render_chat(tokenizer, said[:2])


def test_a_conversation_that_the_template_refuses_raises(tokenizer):
    tokenizer.chat_template = "{{ raise_exception('no system here') }}"
    with pytest.raises(ModelError, match="rejects messages of system, user: no system here"):
        render_chat(tokenizer, [SystemMessage("Be short."), HumanMessage("Where?")])


class Scripted(CausalLM):
    """A model that says what it is told to, one reply a call; prompts and limits are kept."""

    texts: ClassVar[list[str]] = []
    asked: ClassVar[list[tuple[str, int]]] = []

    def generate_joining(self, requests, next_requests):
        for place, (prompt, limit, _) in enumerate(requests):
            self.asked.append((prompt, limit))
            text = self.texts.pop(0)
            ids = (*self.encode(text)[1:], self.tokenizer.eos_token_id)
            yield place, Generated(text, len(self.encode(prompt)), len(ids), 0, True, ids)


@pytest.fixture
def scripted(random_folder, tmp_path):
    """A chat model with tools, whose replies the test gives."""
    folder = tmp_path / "instruct"
    shutil.copytree(random_folder(window=8192), folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = HERMES
    tokenizer.save_pretrained(folder)
    Scripted.texts, Scripted.asked = [], []
    model = LocalChatModel(lm=Scripted(folder, device="cpu"), model_name="scripted")
    yield model
    model.close()


def test_a_local_chat_model_calls_tools(scripted, random_lm):
    assert can_call_tools(scripted)
    Scripted.texts = [WRITTEN["Qwen and Hermes"][1], "Meburg"]
    bound = scripted.bind_tools([lookup])
    message = bound.invoke("Where?")
    assert message.tool_calls[0]["args"] == CALL and message.usage_metadata["output_tokens"] > 0
    assert bound.invoke("Where?", max_new_tokens=7).text == "Meburg"
    assert [limit for _, limit in Scripted.asked] == [CALL_TOKENS, 7]
    plain: BaseChatModel = LocalChatModel(lm=random_lm(), model_name="random")
    assert not can_call_tools(plain)
    with pytest.raises(BadSettings, match="'random' cannot call tools"):
        plain.bind_tools([lookup])


class Fact(BaseModel):
    """The relation of a subject."""

    subject: str
    relation: str


@pytest.mark.slow
def test_a_structured_reply_is_asked_for_in_text_whether_there_are_tools_or_not(scripted):
    Scripted.texts = [f"Here it is: {GIVEN}"]
    assert ask_structured(scripted, "Which fact?", Fact).value == Fact(**CALL)
    assert "Fact" not in Scripted.asked[0][0].split("relation")[0]  # no tool was shown
    tiny: Any = load_model("tiny")
    with pytest.raises(ModelReplyError):  # it writes no JSON, but it is asked
        ask_structured(tiny, "Which fact?", Fact, retries=0)
    tiny.close()


def asked(scripted, folder, *replies):
    memory = ChromaMemory(folder, LexicalEmbedding())
    context = EditorContext(model=scripted, memory=memory, retriever=load_retriever("default"))
    told = Triplet(subject="Vouna", relation="capital", object="Meburg")
    Scripted.texts = list(replies)
    with EDITORS.load("agent")(context).edit([Edit.from_triplet(told, "The capital of {} is")]) as answerer:
        return answerer.answer(
            Probe(kind="efficacy", prompt="What is the capital of Vouna?", style="question", gold=("Meburg",))
        )


@pytest.mark.slow
def test_the_agent_works_with_a_local_chat_model(scripted, tmp_path):
    answer = asked(scripted, tmp_path / "memory", WRITTEN["Qwen and Hermes"][1], "<think>So it is.</think>Meburg")
    assert answer.text == "Meburg" and len(answer.retrieved) == 1
    last = Scripted.asked[-1][0]
    assert "<tool><change>The capital of Vouna is Meburg" in last and "<call " in last


def test_a_broken_call_is_answered_and_the_model_goes_on(scripted, tmp_path):
    answer = asked(scripted, tmp_path / "memory", '<tool_call>{"name": "lookup"', "Meburg")
    assert answer.text == "Meburg" and "was called wrongly" in Scripted.asked[-1][0]


# --- calls that servers leave standing in the text of a message

NAMES = {"lookup", "search_memory"}
CALL_OF_HERMES = f'<tool_call>\n{{"name": "lookup", "arguments": {GIVEN}}}\n</tool_call>'


@pytest.mark.parametrize(
    "text",
    [
        *(text for _, text in WRITTEN.values()),
        f"I look it up.\n{CALL_OF_HERMES}",
        f'<tool_call>{{"arguments": {GIVEN}, "name": "lookup"}}',
        f"<function=lookup>{GIVEN}</function>",
        f'{{"type": "function", "name": "lookup", "parameters": {GIVEN}}}',
        f'{{"type": "function", "function": {{"name": "lookup", "arguments": {GIVEN}}}}}',
        f'{{"tool_calls": [{{"function": {{"name": "lookup", "arguments": {json.dumps(GIVEN)}}}}}]}}',
        f'```json\n{{"tool": "lookup", "arguments": {GIVEN}}}\n```',
    ],
)
def test_a_call_is_parsed_from_the_text_in_any_form(text):
    message = with_calls_from_text(AIMessage(text, response_metadata={"model_name": "m"}), NAMES, "2")
    assert [(call["name"], call["args"]) for call in message.tool_calls] == [("lookup", CALL)]
    assert not message.text and not message.invalid_tool_calls and message.response_metadata == {"model_name": "m"}


def test_calls_have_different_ids_in_a_message_and_between_messages():
    first, second = (with_calls_from_text(AIMessage(CALL_OF_HERMES * 2), NAMES, place) for place in "24")
    assert len({call["id"] for message in (first, second) for call in message.tool_calls}) == 4


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "lookup", "argu</tool_call>',
        f"{CALL_OF_HERMES}<tool_call>{{half</tool_call>",
        "<tool_call>[1]</tool_call>",
        "<tool_call>",
        "<function=lookup>Vouna</function>",
        "[TOOL_CALLS]lookup[ARGS]Vouna",
        '[TOOL_CALLS]lookup[ARGS]{"subject": ',
        '{"name": "lookup", "arguments": {',
        '{"name": "lookup", "arguments": [1]}',
    ],
)
def test_an_unparsable_call_is_kept_as_invalid_beside_the_text(text):
    message = with_calls_from_text(AIMessage(text), NAMES, "2")
    assert message.invalid_tool_calls and not message.tool_calls and message.text == text
    assert message.invalid_tool_calls[0]["error"]


@pytest.mark.parametrize(
    "text", ["Meburg", "", '{"name": "Karo"}', '{"capital": "Meburg"}', "{Meburg}", "<think>[TOOL_CALLS]</think>Meburg"]
)
def test_a_text_without_calls_stays_an_answer(text):
    message = with_calls_from_text(AIMessage(text), NAMES, "2")
    assert message == AIMessage(text)


def test_behind_a_mark_a_call_of_a_tool_that_is_not_there_is_a_call():
    message = with_calls_from_text(AIMessage('<tool_call>{"name": "web", "arguments": {}}</tool_call>'), NAMES, "2")
    assert [call["name"] for call in message.tool_calls] == ["web"]


def test_without_a_mark_a_call_of_a_tool_that_is_not_there_is_one_if_it_has_arguments():
    text = f'{{"name": "web", "parameters": {{"q": "x"}}}}\n{{"name": "lookup", "arguments": {GIVEN}}}'
    message = with_calls_from_text(AIMessage(text), NAMES, "2")
    assert [call["name"] for call in message.tool_calls] == ["web", "lookup"]
