"""Replies of a server behind which the embedded model computes are those of the embedded model."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, SystemMessage

from emend.agents.llm import load_model
from emend.agents.roles.completion import continue_text
from emend.agents.roles.conversation import Prompt
from emend.agents.served.chat_model import cut_at
from emend.agents.served.client import NEUTRAL
from emend.agents.structured import supports_structure
from emend.memory.errors import BadSettings
from tests.fakes import with_template
from tests.params import mostly_slow
from tests.provider.completions import CompletionsServer, is_scoring
from tests.provider.models import quick_policy

FACT = "New Fact: the capital of Veldania is Ostrim.\n"
QUESTION = FACT + "Q: What is the capital of Veldania?\nA:"


@pytest.mark.slow
@pytest.mark.parametrize("prompt", mostly_slow((QUESTION, FACT + "The capital of Veldania is", FACT.strip()), QUESTION))
def test_a_base_model_continues_plain_text_as_in_this_process(prompt, tiny):
    with CompletionsServer(tiny.lm) as server:
        model: Any = load_model(server.spec(), quick_policy(), max_new_tokens=8)
        reply, expected = model.invoke(prompt), tiny.invoke(prompt, max_new_tokens=8)
        assert reply.text == expected.text
        # What begins with a stop text is asked for a second time without it, and both requests are counted.
        requests = sum("temperature" in body and not is_scoring(body) for _, body in server.requests)
        usage = reply.usage_metadata
        assert usage["input_tokens"] == requests * expected.usage_metadata["input_tokens"]
        assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
        assert server.requests[-1][1]["prompt"] == list(tiny.lm.encode(prompt))


def test_a_stop_text_in_front_of_the_first_word_ends_no_reply(tiny):
    """A server stops there; a local model goes on."""
    with CompletionsServer(tiny.lm) as server:
        model: Any = load_model(server.spec(), quick_policy(), max_new_tokens=6)
        expected = tiny.invoke(QUESTION, max_new_tokens=6).text
        asked = server.next_ids
        server.next_ids = lambda *args: ("\n", "stop") if args[-1] else (f"\n {asked(*args)[0]}", "length")  # type: ignore[method-assign]
        reply = model.invoke(QUESTION)
    assert reply.text == expected and [body.get("stop") for path, body in server.requests[-2:]] == [["\n"], None]
    assert reply.usage_metadata["output_tokens"] == 2  # of two requests


def test_limits_and_stop_texts_of_a_call_are_sent_and_tools_are_refused(tiny):
    with CompletionsServer(tiny.lm) as server:
        policy = quick_policy()
        model: Any = load_model(server.spec(), policy, tokenizer=str(tiny.lm.folder))
        assert hasattr(model, "max_new_tokens") and not supports_structure(model)
        continue_text(model, Prompt(QUESTION), stop=[" is"], new_tokens=3)
        model.invoke([SystemMessage("Be brief."), HumanMessage(QUESTION)], max_tokens=2)
        bodies = [body for path, body in server.requests[-2:]]
        assert [(body["max_tokens"], body.get("stop")) for body in bodies] == [(3, [" is"]), (2, None)]
        assert bodies[1]["prompt"] == list(tiny.lm.encode(f"Be brief.\n\n{QUESTION}"))
        with pytest.raises(BadSettings, match="called with tools.*as openai:NAME@URL"):
            model.invoke(QUESTION, tools=[])
    (spent,) = policy.ledger.by_model().values()
    sent = NEUTRAL["vllm"] | {"temperature": 0.0, "model": "tiny", "max_tokens": 2}
    assert spent.output_tokens and sent in spent.sent


def test_a_chat_template_is_applied_here_for_replies_and_scores(tiny, tmp_path):
    folder = with_template(tiny.lm.tokenizer, tmp_path)
    with CompletionsServer(tiny.lm) as server:
        model: Any = load_model(server.spec(), quick_policy(), tokenizer=str(folder), max_new_tokens=3)
        assert model.chats
        model.invoke("Who?")
        assert server.requests[-1][1]["prompt"] == list(tiny.lm.encode("<user>Who?</user><assistant>"))
        assert "stop" not in server.requests[-1][1]
        scores = model.score("Who?", ["Karo"])
        expected = tiny.score("<user>Who?</user><assistant>", ["Karo"])
        assert scores.log_probs == pytest.approx(expected.log_probs, abs=1e-4)
        plain: Any = load_model(server.spec(), quick_policy(), tokenizer=str(folder), chat=False)
        assert not plain.chats and plain.fingerprint == model.fingerprint
        assert plain._identifying_params != model._identifying_params


QWEN3 = Path(__file__).parents[2] / "data" / "templates" / "qwen3.jinja"


@pytest.mark.parametrize(("options", "tokens"), [({}, 3), ({"enable_thinking": True}, 3 + 7)])
def test_options_of_the_template_and_room_for_thoughts_reach_the_server(options, tokens, tiny, tmp_path):
    tiny.lm.tokenizer.save_pretrained(tmp_path)
    (tmp_path / "chat_template.jinja").write_text(QWEN3.read_text(encoding="utf-8"), encoding="utf-8")
    settings = {"tokenizer": str(tmp_path), "max_new_tokens": 3, "thought_tokens": 7, "template": options}
    with CompletionsServer(tiny.lm) as server:
        model: Any = load_model(server.spec(), quick_policy(), **settings)
        model.invoke("Who?")
        asked = "<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\n"
        body = server.requests[-1][1]
        closed = "<think>\n\n</think>\n\n"
        assert body["prompt"] == list(tiny.lm.encode(asked if options else asked + closed))
        assert body["max_tokens"] == tokens
        expected = tiny.score(asked + closed, ["Karo"])
        assert model.score("Who?", ["Karo"]).log_probs == pytest.approx(expected.log_probs, abs=1e-4)
        assert "+template-" in model.fingerprint


@pytest.mark.parametrize(
    ("text", "stop", "cut"),
    [(" a\nb", ["\n"], "a"), ("\n\na; b\nc", ["\n", ";"], "a"), ("a", [], "a"), ("\n", ["\n"], "")],
)
def test_a_continuation_is_cut_at_the_first_stop_text_behind_its_first_word(text, stop, cut):
    assert cut_at(text, stop) == cut
