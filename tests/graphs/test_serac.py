"""SERAC: in scope the edit is shown, out of it the model is left alone; and who answers."""

from typing import Any, ClassVar

import numpy as np
import pytest

from emend.graphs.execution import run_graph
from emend.graphs.serac import ScopeRetriever, SeracContext, build
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.probe import Probe
from emend.memory.retrieval.base import Entry
from emend.memory.retrieval.dense import Dense
from emend.memory.retrieval.exact import ExactCorpus
from tests.fakes import ScriptedChatModel

APP = build()
TEXTS = ("The capital of Veldania is Ostrim.", "The river Aske flows into the sea.", "Mira plays the cello.")
PROBE = Probe(kind="efficacy", prompt="The capital of Veldania is", gold=("Ostrim",))


class Given:
    """A classifier whose probabilities are told it."""

    pairwise: ClassVar[bool] = True
    identity, threshold, lower = "given", 0.5, 0.05

    def __init__(self, **of: float) -> None:
        self.of = of
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    def over(self, corpus):
        texts = [entry.text for entry in corpus.entries()]

        def probabilities(question):
            self.asked.append((question, tuple(texts)))
            return np.asarray([next((p for word, p in self.of.items() if word in text), 0.0) for text in texts])

        return probabilities


def corpus():
    entries = [Entry(id=f"{place}", edit_id=f"edit-{place}", text=text) for place, text in enumerate(TEXTS)]
    return ExactCorpus.of(entries, LexicalEmbedding())


def run(scope: Any, **more: Any):
    model = ScriptedChatModel(reply=lambda prompt: "base")
    context = SeracContext(model, ScopeRetriever(corpus(), scope), **more)
    final, steps = run_graph(APP, {"probe": PROBE}, context)
    return final, [step.node for step in steps]


def test_in_scope_the_edit_is_shown_and_out_of_it_only_what_was_considered_is_kept():
    final, nodes = run(Given(Veldania=0.7, Aske=0.1))
    assert nodes == ["retrieve", "classify", "counterfact", "respond"]
    assert final["prompt"] == f"New Fact: {TEXTS[0]}\nPrompt: {PROBE.prompt}"
    assert [(hit["edit_id"], hit["score"]) for hit in final["hits"]] == [("edit-0", 0.7)]
    final, nodes = run(Given(Veldania=0.4))
    assert nodes == ["retrieve", "classify", "leave", "respond"]
    assert final["prompt"] == PROBE.prompt and final["hits"] == []
    assert [hit["score"] for hit in final["candidates"]] == [0.4]


@pytest.mark.parametrize(("threshold", "shown"), [(0.4, True), (0.41, False)])
def test_a_probability_at_the_threshold_is_in_scope(threshold, shown):
    assert bool(run(Given(Veldania=0.4), threshold=threshold)[0]["hits"]) == shown


def test_of_several_edits_those_in_scope_are_shown_and_a_second_model_answers_for_them_alone():
    final, _ = run(Given(Veldania=0.9, Aske=0.6, Mira=0.1), k=3)
    assert [hit["edit_id"] for hit in final["hits"]] == ["edit-0", "edit-1"]
    second = ScriptedChatModel(reply=lambda prompt: "second")
    assert run(Given(Veldania=0.9), counterfactual=second)[0]["reply"] == "second"
    assert run(Given(Veldania=0.1), counterfactual=second)[0]["reply"] == "base"


def test_a_strategy_may_choose_what_is_classified():
    scope = Given(Veldania=0.9)
    hits = ScopeRetriever(corpus(), scope, Dense(corpus()), candidates=1).search("Where does the Aske flow?", 5)
    assert [hit.entry.text for hit in hits] == [TEXTS[1]] and scope.asked == [
        ("Where does the Aske flow?", (TEXTS[1],))
    ]
