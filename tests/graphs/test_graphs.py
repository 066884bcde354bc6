"""Whole graphs: what they look like, and what comes out."""

from itertools import pairwise

import pytest

from emend.graphs import ike, rag
from emend.graphs.execution import run_graph
from emend.graphs.ike import IkeContext, Pool
from emend.graphs.rag import RagContext
from emend.graphs.registry import GRAPHS
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.probe import Probe
from emend.memory.retrieval.base import Entry
from emend.memory.retrieval.dense import Dense
from emend.memory.retrieval.exact import ExactCorpus
from emend.memory.steps import steps_of
from tests.fakes import ScriptedChatModel, ScriptedScoringModel

PROBE = Probe(kind="efficacy", prompt="The capital of Veldania is", gold=("Ostrim",))
ENTRIES = [
    Entry(id="a0", edit_id="a", text="The capital of Veldania is Ostrim."),
    Entry(id="b0", edit_id="b", text="The river Aske flows into the sea."),
]
EDGES = {
    "direct": "start>compose>respond>end",
    "in_context": "start>choose>compose>respond>end",
    "rag": "start>retrieve>compose>respond>end",
    "ike": "start>retrieve>demonstrate>compose>respond>end",
    "cot": "start>retrieve retrieve?think retrieve?compose think>respond compose>respond>end",
    "serac": "start>retrieve>classify classify?counterfact classify?leave counterfact>respond leave>respond>end",
    "crag": "start>retrieve>evaluate evaluate?refine evaluate?search refine?search refine?compose search>compose "
    "compose>respond>end",
    "mello": "start?decompose start?compose decompose?decompose decompose?retrieve "
    "decompose?compose retrieve?decompose retrieve?check "
    "check>decompose compose>respond>end",
    "kg_walk": "start?match start?compose match?plan match?compose plan?link plan?compose link?recall link?link "
    "link?compose recall?link recall?compose compose>respond>end",
    "agent": "start?plan start?compose plan?use_tools plan?compose use_tools>plan compose>respond>end",
}
"""Ways that are always taken (`>`), and ways that a router chooses (`?`)."""


def model():
    return ScriptedScoringModel(reply=lambda prompt: "Ostrim.", log_prob=lambda prompt, target: -1.0)


def retriever():
    return Dense(ExactCorpus.of(ENTRIES, LexicalEmbedding()))


def state(**more):
    return {"probe": PROBE, **more}


def test_every_graph_is_listed_here():
    others = {"extract", "debate"}  # they answer no probe: see test_extract.py and test_debate.py
    assert {*EDGES} | others == set(GRAPHS.names())


def edges_of(name):
    """The ways of a graph as they are drawn."""
    for path in EDGES[name].split():
        nodes = [f"__{one}__" if one in ("start", "end") else one for one in path.replace("?", ">").split(">")]
        for one, other in pairwise(nodes):
            yield f"{one} {'-.->' if '?' in path else '-->'} {other};"


@pytest.mark.parametrize("name", EDGES)
def test_the_drawing_shows_every_way_to_respond_and_a_loop_has_a_small_limit_of_its_own(name):
    app = GRAPHS.load(name)()
    drawn = app.get_graph().draw_mermaid()
    assert sorted(line.strip() for line in drawn.splitlines() if "->" in line) == sorted(edges_of(name))
    assert name not in ("agent", "mello") or 0 < (app.config or {})["recursion_limit"] < 100
    assert [edge.source for edge in app.get_graph().edges if edge.target == "__end__"] == ["respond"]


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
