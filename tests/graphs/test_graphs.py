"""Whole graphs: what they look like, and what comes out."""

import pytest
from langgraph.errors import GraphRecursionError

from emend.graphs import ike, rag
from emend.graphs.ike import IkeContext, Pool
from emend.graphs.rag import RECURSION_LIMIT, RagContext
from emend.graphs.registry import GRAPHS
from emend.graphs.running import run_graph, steps_of
from emend.memory.embed import LexicalEmbedding
from emend.memory.exact import ExactCorpus
from emend.memory.probe import Probe
from emend.memory.retrieval.base import Entry
from emend.memory.retrieval.dense import Dense
from tests.fakes import ScriptedChatModel, ScriptedScoringModel

PROBE = Probe(kind="efficacy", prompt="The capital of Veldania is", gold=("Ostrim",))
ENTRIES = [
    Entry(id="a0", edit_id="a", text="The capital of Veldania is Ostrim."),
    Entry(id="b0", edit_id="b", text="The river Aske flows into the sea."),
]
EDGES = {
    "rag": "__start__ retrieve compose respond __end__",
    "ike": "__start__ retrieve demonstrate compose respond __end__",
}


def model():
    return ScriptedScoringModel(reply=lambda prompt: "Ostrim.", log_prob=lambda prompt, target: -1.0)


def retriever():
    return Dense(ExactCorpus.of(ENTRIES, LexicalEmbedding()))


def state(**more):
    return {"probe": PROBE.model_dump(mode="json"), **more}


def test_every_graph_is_listed_here():
    assert {*EDGES, "extract"} == set(GRAPHS.names())  # extract answers no probe: see test_extract.py


@pytest.mark.parametrize("name", EDGES)
def test_the_drawing_shows_every_node_in_its_order(name):
    drawn = GRAPHS.load(name)().get_graph().draw_mermaid()
    names = EDGES[name].split()
    edges = [line.strip() for line in drawn.splitlines() if "-->" in line]
    assert sorted(edges) == sorted(f"{one} --> {other};" for one, other in zip(names, names[1:], strict=False))


@pytest.mark.parametrize("name", EDGES)
def test_every_graph_has_a_small_limit_of_its_own_that_it_does_not_reach(name):
    app = GRAPHS.load(name)()
    assert (app.config or {}).get("recursion_limit") == RECURSION_LIMIT < 100
    context = IkeContext(model(), retriever())
    run_graph(app, state(), context)
    with pytest.raises(GraphRecursionError):
        run_graph(app.with_config(recursion_limit=2), state(), context)


def test_rag_finds_composes_and_responds():
    speaker = model()
    final, steps = run_graph(rag.build(), state(), RagContext(speaker, retriever()))
    assert [step.node for step in steps] == ["retrieve", "compose", "respond"]
    assert [hit["edit_id"] for hit in final["hits"]] == ["a"]
    assert speaker.calls == [final["prompt"]] == [f"New Fact: {ENTRIES[0].text}\nPrompt: {PROBE.prompt}"]
    assert final["reply"] == "Ostrim." and "log_probs" not in final
    assert steps[1].update == {"prompt": final["prompt"]}


@pytest.mark.parametrize("graph", [rag, ike])
def test_targets_are_scored_under_the_prompt_that_would_be_answered(graph):
    context = IkeContext(model(), retriever(), pool=Pool(()))
    said, _ = run_graph(graph.build(), state(), context)
    scored, _ = run_graph(graph.build(), state(targets=["Ostrim", "Rome"]), context)
    assert scored["prompt"] == said["prompt"] and scored["log_probs"] == [-1.0, -1.0]
    assert "reply" not in scored and not scored.keys() - graph.build().get_output_jsonschema()["properties"].keys()


def test_a_models_error_comes_out_with_the_steps_and_the_exact_prompt():
    def broken(prompt):
        raise ConnectionError("no answer")

    with pytest.raises(ConnectionError) as caught:
        run_graph(rag.build(), state(), RagContext(ScriptedChatModel(reply=broken), retriever()))
    steps = steps_of(caught.value)
    assert [step.error for step in steps] == [None, None, "ConnectionError: no answer"]
    assert steps[1].update["prompt"].endswith(PROBE.prompt)
