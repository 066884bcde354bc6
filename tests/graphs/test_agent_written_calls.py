"""The tool-calling agent on a server that leaves calls of tools standing in the text."""

import pytest
from langchain_core.messages import AIMessage

from emend.graphs.agent import AgentContext
from emend.graphs.execution import run_graph, steps_of
from emend.memory.errors import ModelReplyError
from tests.graphs.test_agent import APP, NEW, PROBE, run, toolbox
from tests.provider.models import asked_model
from tests.provider.protocols import Asked
from tests.provider.server import Provider

CALL = '<tool_call>\n{"name": "list_updates", "arguments": {"entity": "Veldania"}}\n</tool_call>'
STATE = {"probe": PROBE.model_dump(mode="json")}


def says_it_in_text(asked: Asked) -> str:
    return "Ostrim" if "<change>" in asked.prompt else CALL


@pytest.mark.parametrize("protocol", ["chat", "responses", "anthropic"])
def test_a_call_in_the_text_of_a_provider_is_made_and_its_result_is_sent_back(protocol):
    pytest.importorskip("langchain_anthropic" if protocol == "anthropic" else "langchain_openai")
    tools = toolbox()
    with Provider(says_it_in_text) as provider:
        model = asked_model(provider, protocol, timeout=30.0)
        final, steps = run_graph(APP, STATE, AgentContext(model, tools.retriever, toolbox=tools))
    assert [step.node for step in steps] == ["plan", "use_tools", "plan", "compose", "respond"]
    assert final["reply"] == "Ostrim" and final["usage"]["calls"] == 2
    assert NEW.id in {hit["edit_id"] for hit in final["hits"]}
    assert 'list_updates({"entity": "Veldania"})' in final["prompt"]


@pytest.mark.parametrize("text", ["<tool_call>\n{half", "[TOOL_CALLS]lookup", '{"name": "lookup", "arguments": {'])
def test_a_call_in_the_text_that_cannot_be_read_is_an_error_and_no_answer(text):
    with pytest.raises(ModelReplyError, match="a tool is called in a broken form") as caught:
        run(AIMessage(text))
    assert caught.value.reply == text and steps_of(caught.value)[-1].node == "plan"


def test_calls_in_the_text_count_towards_the_limit_of_rounds():
    with pytest.raises(ModelReplyError, match="no answer after 3 rounds"):
        run(AIMessage(CALL), rounds=3)
