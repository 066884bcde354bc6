"""Graph editors through the real clients of the providers' protocols, against a server on 127.0.0.1."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from emend.editors.base import EditorContext
from emend.editors.conformance import CAPITAL, CURRENCY, EXAMPLES, probe_of
from emend.editors.conformance_toys import PlainMemory, ReadingModel, change_about, next_steps
from emend.editors.registry import EDITORS
from emend.memory.errors import ModelReplyError
from emend.memory.retrieval.registry import RETRIEVERS
from emend.memory.steps import steps_of
from tests.fakes import begun
from tests.params import mostly_slow
from tests.provider.models import PROTOCOLS, asked_model
from tests.provider.protocols import Asked, Said, ToolCall
from tests.provider.server import Provider

METHODS: list[tuple[str, dict[str, Any], int]] = [
    ("rag", {}, 1),
    ("ike", {}, 1),
    ("input_aug", {}, 1),
    ("cot", {}, 1),
    ("serac", {}, 1),
    ("crag", {"evaluator": "model"}, 2),
    ("mello", {"form": "text"}, 2),
    ("mello", {}, 3),
    ("agent", {}, 2),
]
"""With the number of calls that an answer takes."""


def speak(asked: Asked) -> Said | str:
    """Believes what it reads, in whatever form it is asked."""
    text = asked.messages[-1][1]
    if "search_memory" in asked.tools:
        if "<change>" not in asked.prompt:
            return Said(calls=[ToolCall("search_memory", {"query": CAPITAL.cloze})])
        return change_about(asked.prompt, CAPITAL.cloze)
    if "<passage>" in text:
        passages = re.findall(r"<passage>\n(.*?)\n</passage>", text, re.DOTALL)
        return json.dumps({"scores": [0.9 if CAPITAL.text in passage else -0.99 for passage in passages]})
    if "No step yet." in text:
        step = {"done": False, "subquestion": CAPITAL.cloze, "tentative_answer": "Ostrim.", "final_answer": ""}
        return json.dumps(step)
    if "Does the retrieved fact contradict" in text:
        return json.dumps({"contradicts": CAPITAL.text in text, "intermediate_answer": CAPITAL.target_new})
    if "so the intermediate answer is: Kestrel Bay" in text:
        step = {"done": True, "subquestion": "", "tentative_answer": "", "final_answer": CAPITAL.target_new}
        return json.dumps(step)
    return next_steps(block(asked)) or str(ReadingModel().invoke(text).text)


def block(asked: Asked) -> str:
    """The turns since the last question as a text, with the beginning of the reply that they ask for."""
    texts = [text for _, text in asked.messages]
    start = max((place for place, text in enumerate(texts) if "Question: " in text), default=len(texts) - 1)
    return begun("\n".join(texts[start:]))


def editor(name: str, settings: dict[str, Any], model: Any) -> Any:
    plain = EditorContext(model, PlainMemory(), RETRIEVERS.load("bm25"), EXAMPLES)
    return EDITORS.load(name)(replace(plain, settings=settings))


pytestmark = pytest.mark.usefixtures("keys")


@pytest.mark.parametrize("protocol", mostly_slow(PROTOCOLS, "chat"))
@pytest.mark.parametrize(("name", "settings", "calls"), METHODS)
def test_every_method_answers_through_every_protocol_and_counts_its_calls(protocol, name, settings, calls):
    with Provider(speak) as provider:
        model = asked_model(provider, protocol, timeout=30.0)
        with editor(name, settings, model).edit([CAPITAL, CURRENCY]) as answerer:
            answer = answerer.answer(probe_of(CAPITAL))
    assert answer.text == CAPITAL.target_new, answer
    assert answer.usage.calls == provider.count == calls and answer.usage.input_tokens > 0


@pytest.mark.parametrize("fault", ["refusal", "empty"])
@pytest.mark.parametrize(("name", "settings", "calls"), METHODS)
def test_what_a_provider_declines_or_leaves_empty_is_an_error_with_the_steps(fault, name, settings, calls):
    with Provider(speak, faults=[""] * (calls - 1), choose=lambda number: fault) as provider:
        with editor(name, settings, asked_model(provider, "chat", timeout=30.0)).edit([CAPITAL, CURRENCY]) as answerer:
            with pytest.raises(ModelReplyError) as caught:
                answerer.answer(probe_of(CAPITAL))
    steps = steps_of(caught.value)
    assert steps[-1].error and all(step.error is None for step in steps[:-1])
