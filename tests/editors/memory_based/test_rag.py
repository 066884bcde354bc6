from dataclasses import replace

import pytest

from emend.editors.base import EditorContext, Scorable
from emend.editors.conformance import CAPITAL, CURRENCY, EXAMPLES, probe_of
from emend.editors.conformance_toys import PlainMemory, ReadingModel
from emend.editors.registry import EDITORS
from emend.memory.errors import BadSettings
from emend.memory.retrieval.registry import RETRIEVERS
from emend.memory.steps import steps_of
from tests.fakes import ScriptedChatModel

NAMES = ["rag", "ike"]


def context(**changed):
    plain = EditorContext(ReadingModel(), PlainMemory(), RETRIEVERS.load("dense"), EXAMPLES)
    return replace(plain, **changed)


def build(name, **changed):
    return EDITORS.load(name)(context(**changed))


@pytest.mark.parametrize("name", NAMES)
def test_only_applied_edits_are_retrieved_from_a_larger_memory(name):
    memory = PlainMemory()
    memory.add([CAPITAL])
    with build(name, memory=memory).edit([CURRENCY]) as answerer:
        assert answerer.answer(probe_of(CAPITAL)).retrieved == (CURRENCY.id,)
    with build(name, memory=memory, settings={"k": 5}).edit([CURRENCY, CAPITAL]) as answerer:
        assert answerer.answer(probe_of(CAPITAL)).retrieved == (CAPITAL.id, CURRENCY.id)


@pytest.mark.parametrize("name", NAMES)
def test_two_edits_may_be_applied_side_by_side_each_for_its_own_answerer(name):
    editor = build(name)
    with editor.edit([CAPITAL]) as one, editor.edit([CURRENCY]) as other:
        assert one.answer(probe_of(CAPITAL)).text == CAPITAL.target_new
        assert other.answer(probe_of(CAPITAL)).text != CAPITAL.target_new


@pytest.mark.parametrize("name", NAMES)
def test_a_retriever_that_finds_nothing_leaves_the_probe_as_it_is(name):
    class Never:
        def __init__(self, corpus):
            pass

        def search(self, query, k):
            return []

    with build(name, retriever=Never).edit([CAPITAL]) as answerer:
        answer = answerer.answer(probe_of(CAPITAL))
    assert answer.prompt == CAPITAL.cloze and answer.retrieved == ()


@pytest.mark.parametrize("name", NAMES)
def test_without_edits_no_retriever_is_built(name):
    def refuses(corpus):
        raise AssertionError("an empty view")

    with build(name, retriever=refuses).edit([]) as answerer:
        assert answerer.answer(probe_of(CAPITAL)).prompt == CAPITAL.cloze


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("missing", ["memory", "retriever"])
def test_a_missing_memory_or_retriever_is_named(name, missing):
    with pytest.raises(BadSettings, match=f"editor '{name}' needs a memory, and EditorContext.{missing} is None"):
        build(name, **{missing: None})


@pytest.mark.parametrize("name", [*NAMES, "unedited", "in_context"])
def test_an_answerer_has_probabilities_only_if_its_model_has(name):
    for model, scorable in ((ReadingModel(), True), (ScriptedChatModel(reply=lambda prompt: "x"), False)):
        with build(name, model=model).edit([CAPITAL]) as answerer:
            assert isinstance(answerer, Scorable) == scorable


@pytest.mark.parametrize("name", [*NAMES, "unedited", "in_context"])
def test_a_models_error_carries_the_prompt_that_it_failed_on(name):
    def broken(prompt):
        raise ConnectionError("no answer")

    with build(name, model=ScriptedChatModel(reply=broken)).edit([CAPITAL]) as answerer:
        with pytest.raises(ConnectionError) as caught:
            answerer.answer(probe_of(CAPITAL))
    steps = steps_of(caught.value)
    assert steps[-1].error == "ConnectionError: no answer"
    assert any(CAPITAL.cloze in step.update.get("prompt", "") for step in steps)
