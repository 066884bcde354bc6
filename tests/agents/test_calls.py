"""Every call to a model is kept with what was asked and said, and each attempt that failed."""

import threading
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langgraph.graph import END, START, StateGraph

from emend.agents.calls import drop_state_texts, record_calls, score_targets
from emend.agents.llm import load_model
from emend.agents.providers.policy import Backoff, CallPolicy
from emend.graphs.execution import run_graph
from emend.graphs.rag import RagContext, RagState, build
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import KeyRefused, RateLimited
from emend.memory.probe import LOCAL_PROVIDER, ModelCall, Probe
from emend.memory.retrieval.base import Entry
from emend.memory.retrieval.dense import Dense
from emend.memory.retrieval.exact import ExactCorpus
from emend.memory.steps import steps_of
from tests.fakes import ScriptedChatModel, ScriptedScoringModel
from tests.provider.models import PLENTY
from tests.provider.server import Provider

PROBE = Probe(kind="efficacy", prompt="The capital of Veldania is", gold=("Ostrim",))
QUICK = Backoff(first=0.01, longest=0.02, rate_limited=0.0)


def asked(provider, **more):
    pytest.importorskip("langchain_openai", reason="the extra 'openai' is not installed")
    return load_model(provider.spec("chat"), CallPolicy(backoff=QUICK, rpm=PLENTY), **more)


def retriever():
    entries = [Entry(id="a0", edit_id="a", text="The capital of Veldania is Ostrim.")]
    return Dense(ExactCorpus.of(entries, LexicalEmbedding()))


def test_each_failed_attempt_is_recorded_with_its_error_status_and_wait():
    with Provider(lambda told: "Ostrim", faults=["429", "503", "reset"]) as provider, record_calls() as recorder:
        message = asked(provider).invoke("Where?")
        (call,) = recorder.take()
    assert message.text == "Ostrim" and message.response_metadata["tries"] == 4
    told = [(one.attempt, one.error, one.status) for one in call.retries]
    assert told == [(1, "RateLimited", 429), (2, "ModelUnreachable", 503), (3, "ModelUnreachable", 0)]
    assert all(one.wait > 0 and call.at <= one.at for one in call.retries)
    assert call.ms / 1000 >= sum(one.wait for one in call.retries)
    assert (call.provider, call.model, call.finish, call.error) == ("openai", "any-model", "stop", None)
    assert call.messages == ({"role": "user", "content": "Where?"},) and call.reply["content"] == "Ostrim"
    assert (call.input_tokens, call.output_tokens) == (1, 1)


@pytest.mark.slow
def test_a_call_that_fails_for_good_is_recorded_with_its_error_and_attempts():
    with Provider(choose=lambda number: "429") as provider, record_calls() as recorder:
        model = asked(provider)
        with pytest.raises(RateLimited):
            model.invoke("Where?")
        provider.choose = lambda number: "401"
        with pytest.raises(KeyRefused):
            model.invoke("Where?")
        given_up, refused = recorder.take()
    assert len(given_up.retries) == QUICK.attempts - 1 and str(given_up.error).startswith("RateLimited: ")
    assert refused.retries == () and str(refused.error).startswith("KeyRefused: ")
    assert given_up.reply == refused.reply == {}


def test_other_tracers_get_retries_in_langchains_form():
    heard = []

    class Tracer(BaseCallbackHandler):
        def on_retry(self, retry_state, **more):
            error = retry_state.outcome.exception()
            heard.append((retry_state.attempt_number, type(error).__name__, retry_state.upcoming_sleep > 0))

    with Provider(lambda told: "x", faults=["500"]) as provider:
        asked(provider).invoke("Where?", config={"callbacks": [Tracer()]})
    assert heard == [(1, "ModelUnreachable", True)]


def test_the_steps_of_a_graph_have_the_calls_and_retries_that_happened_in_them():
    with Provider(lambda told: "Ostrim", faults=["429"]) as provider:
        final, steps = run_graph(build(), {"probe": PROBE}, RagContext(asked(provider), retriever()))
    assert [(step.place, step.node, len(step.calls)) for step in steps] == [
        (1, "retrieve", 0), (2, "compose", 0), (3, "respond", 1),
    ]  # fmt: skip
    (call,) = steps[-1].calls
    assert [one.error for one in call.retries] == ["RateLimited"]
    assert final["usage"].retries == 1
    assert steps[0].at <= steps[1].at <= steps[2].at <= call.at + 0.001


def answering_twice(within: str):
    """A graph with rag as one of its nodes, or run inside a node, and a node that asks by itself."""
    model, inner = ScriptedChatModel(reply=lambda prompt: "Ostrim"), build()

    def inside(state: RagState) -> RagState:
        given: Any = {"probe": state["probe"]}
        context = RagContext(model, retriever())
        told: Any = inner.invoke(given, context=context) if within == "invoked" else run_graph(inner, given, context)[0]
        return {"reply": told["reply"], "prompt": told["prompt"]}

    def alone(state: RagState) -> RagState:
        return {"reply": str(model.invoke("Sure?").text)}

    graph = StateGraph(RagState, context_schema=RagContext)
    graph.add_node("inner", inner if within == "a node" else inside)
    graph.add_node("alone", alone)
    graph.add_edge(START, "inner")
    graph.add_edge("inner", "alone")
    graph.add_edge("alone", END)
    return graph.compile(), RagContext(model, retriever())


@pytest.mark.parametrize("within", ["a node", "invoked", "run"])
def test_calls_of_a_graph_within_a_node_are_the_nodes(within):
    app, context = answering_twice(within)
    _, steps = run_graph(app, {"probe": PROBE}, context)
    assert [(step.node, len(step.calls)) for step in steps] == [("inner", 1), ("alone", 1)]
    assert all(call.output_tokens == 1 for step in steps for call in step.calls)


def test_a_text_of_the_state_is_not_recorded_twice():
    _, steps = run_graph(
        build(), {"probe": PROBE},
        RagContext(ScriptedChatModel(reply=lambda prompt: "Ostrim"), retriever()),
    )  # fmt: skip
    (call,) = steps[-1].calls
    assert (call.messages, call.messages_field, call.reply, call.reply_field) == ((), "prompt", {}, "reply")


def test_a_text_that_is_not_in_the_state_is_recorded():
    call = ModelCall(messages=({"role": "user", "content": "a"},), reply={"role": "assistant", "content": "b"})
    assert drop_state_texts(call, {"prompt": "other"}, {"reply": "other"}) == call
    tools = call.model_copy(update={"reply": {"role": "assistant", "content": "b", "tool_calls": []}})
    assert drop_state_texts(tools, {}, {"reply": "b"}).reply == tools.reply
    two = call.model_copy(update={"messages": call.messages * 2})
    assert drop_state_texts(two, {"prompt": "a"}, {}).messages == two.messages


def test_a_step_that_fails_has_its_call_too():
    def broken(prompt):
        raise ConnectionError("no answer")

    with pytest.raises(ConnectionError) as caught:
        run_graph(build(), {"probe": PROBE}, RagContext(ScriptedChatModel(reply=broken), retriever()))
    (call,) = steps_of(caught.value)[-1].calls
    assert call.error == "ConnectionError: no answer" and call.messages_field == "prompt"


def test_scoring_is_a_call_of_a_model_in_this_process():
    model = ScriptedScoringModel(reply=lambda prompt: "", log_prob=lambda prompt, target: -1.0)
    with record_calls() as recorder:
        assert score_targets(model, "one two", ["a"]).log_probs == (-1.0,)
        (call,) = recorder.take()
    assert (call.kind, call.provider, call.input_tokens) == ("score", LOCAL_PROVIDER, 2)
    assert call.messages[0]["content"] == "one two" and call.reply == {}


def test_threads_record_only_their_own_calls():
    model, found = ScriptedChatModel(reply=lambda prompt: prompt), {}
    gate = threading.Barrier(4)

    def work(name):
        with record_calls() as recorder:
            for number in range(20):
                gate.wait()
                model.invoke(f"{name} {number}")
            found[name] = [call.messages[0]["content"] for call in recorder.take()]

    threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert found == {f"t{n}": [f"t{n} {number}" for number in range(20)] for n in range(4)}


def test_nobody_records_outside():
    model = ScriptedChatModel(reply=lambda prompt: "x")
    with record_calls() as recorder:
        model.invoke("inside")
    model.invoke("outside")
    assert [call.messages[0]["content"] for call in recorder.take()] == ["inside"]


def test_the_error_of_a_call_has_no_keys_of_the_environment(monkeypatch):
    monkeypatch.setenv("OTHER_API_KEY", "sk-planted-0123456789")

    def broken(prompt):
        raise ConnectionError("sk-planted-0123456789 is wrong")

    with record_calls() as recorder:
        with pytest.raises(ConnectionError):
            ScriptedChatModel(reply=broken).invoke("x")
        (call,) = recorder.take()
    assert call.error == "ConnectionError: <OTHER_API_KEY> is wrong"


def test_calls_of_earlier_versions_are_read():
    line = {
        "asked": [{"role": "user", "content": "a"}],
        "said_in": "reply",
        "asked_in": "prompt",
        "said": {"role": "x"},
    }
    call = ModelCall.model_validate(line)
    assert (call.messages_field, call.reply_field, call.reply) == ("prompt", "reply", {"role": "x"})
    assert call.messages == ({"role": "user", "content": "a"},) and "asked" not in call.model_dump()


def test_a_call_whose_content_has_no_form_is_recorded_by_its_text():
    odd = AIMessage([{"type": "hologram", "data": "x"}, {"type": "text", "text": "Ostrim"}])
    with record_calls() as recorder:
        GenericFakeChatModel(messages=iter([odd])).invoke([HumanMessage([{"type": "hologram"}, "Which town?"])])
    call = recorder.take()[0]
    assert "Which town?" in str(call.messages) and "Ostrim" in str(call.reply)


def test_a_reply_that_is_refused_after_it_was_recorded_is_one_call():
    with record_calls() as recorder:
        run_id = uuid4()
        recorder.on_chat_model_start({}, [[HumanMessage("x")]], run_id=run_id)
        recorder.on_llm_end(LLMResult(generations=[[ChatGeneration(message=AIMessage("y"))]]), run_id=run_id)
        recorder.on_llm_error(ValueError("of no use"), run_id=run_id)
    assert len(recorder.take()) == 1
