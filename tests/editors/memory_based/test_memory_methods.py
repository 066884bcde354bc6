"""Contract of the memory-based editors: any number of edits, any view, any reply; and the settings of each."""

from typing import Any

import pytest

from emend.editors.base import EditorContext, Scorable
from emend.editors.conformance import CAPITAL, CURRENCY, probe_of
from emend.editors.conformance_toys import PlainMemory, ReadingModel, StepwiseModel, ToolModel
from emend.editors.memory_based.chain_of_thought import AllEntries
from emend.editors.memory_based.in_context import FactSelector, InContext
from emend.memory.edit import Edit, Triplet
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import BadSettings, MissingData, ModelReplyError
from emend.memory.probe import Probe
from emend.memory.registry import trust_typed
from emend.memory.retrieval.registry import RETRIEVERS
from emend.memory.steps import steps_of
from emend.memory.store.chroma import ChromaMemory
from tests.editors.methods import MANY, build
from tests.editors.speakers import speaker_for
from tests.fakes import ScriptedChatModel
from tests.graphs import forms
from tests.params import mostly_slow

NAMES = forms.EDITORS


# --- what all of them owe


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("count", mostly_slow([0, 1, 1000], 1))
def test_it_answers_whatever_the_number_of_edits(name, count):
    edits = [CAPITAL, *MANY][:count]
    with build(name).edit(edits) as answerer:
        said = answerer.answer(probe_of(CAPITAL))
        assert isinstance(answerer, Scorable)
        scored = answerer.score(probe_of(CAPITAL), (CAPITAL.target_new, "nothing"))
    assert (said.text == CAPITAL.target_new) == (count > 0), said
    assert (scored.log_probs[0] > scored.log_probs[1]) == (count > 0) and scored.prompt == said.prompt
    assert count or said.prompt == CAPITAL.cloze


@pytest.mark.parametrize("name", NAMES)
def test_only_applied_edits_are_used_from_a_larger_memory(name):
    memory = PlainMemory()
    memory.add([CAPITAL, *MANY[:5]])
    with build(name, memory=memory).edit([CURRENCY]) as answerer:
        answer = answerer.answer(probe_of(CAPITAL))
    assert answer.text != CAPITAL.target_new and set(answer.retrieved) <= {CURRENCY.id}


@pytest.mark.parametrize("name", NAMES)
def test_unedited_facts_and_other_entries_of_the_memory_stay_unchanged(name):
    memory = PlainMemory()
    memory.add(MANY[:3])
    with build(name, memory=memory).edit([CAPITAL]):
        pass
    assert {entry.edit_id for entry in memory.entries.values()} == {CAPITAL.id, *(edit.id for edit in MANY[:3])}


@pytest.mark.parametrize("name", ["mello", "cot"])
def test_a_reply_off_the_form_is_an_error_with_the_reply_and_the_steps_and_asking_again_works(name):
    model = Wrong(speaker_for(name))
    with build(name, model=model.of()).edit([CAPITAL]) as answerer:
        model.wrong = True
        with pytest.raises(ModelReplyError) as caught:
            answerer.answer(probe_of(CAPITAL))
        steps = steps_of(caught.value)
        assert steps[-1].error and all(step.error is None for step in steps[:-1])
        model.wrong = False
        assert answerer.answer(probe_of(CAPITAL)).text == CAPITAL.target_new


class Wrong:
    """Lets a toy model speak off its form as long as `wrong` is set."""

    def __init__(self, model: Any) -> None:
        self.wrong, self.model = False, model

    def of(self) -> Any:
        outer, kind = self, type(self.model)

        class Turned(kind):  # type: ignore[misc, valid-type]
            def _generate(self, messages: Any, *rest: Any, **more: Any) -> Any:
                result = super()._generate(messages, *rest, **more)
                if outer.wrong:
                    message = result.generations[0].message
                    message.tool_calls, message.content = [], ""
                return result

        return Turned()


@pytest.mark.parametrize("name", NAMES)
def test_the_graph_settings_and_prompts_are_in_the_fingerprint(name):
    told = build(name).fingerprint
    assert told == build(name).fingerprint and told["editor"] == name
    assert told["graph"] == ("rag" if name == "input_aug" else name) and "settings" in told


CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("mello", {"form": "structured"}),
    ("mello", {"hops": 2}),
    ("cot", {"form": "steps"}),
    ("input_aug", {"chain": True}),
    ("input_aug", {"facts": 3}),
    ("serac", {"threshold": 0.9}),
    ("serac", {"candidates": 5}),
    ("crag", {"upper": 0.9}),
    ("crag", {"strips": "excerption"}),
    ("crag", {"evaluator": "model"}),
    ("agent", {"rounds": 2}),
    ("ike", {"original": True}),
    ("ike", {"demonstrations": 3}),
    ("rag", {"k": 3}),
]


@pytest.mark.parametrize(("name", "settings"), CHANGES)
def test_a_setting_that_decides_answers_changes_the_fingerprint(name, settings):
    assert build(name, settings=settings).fingerprint != build(name).fingerprint


@pytest.mark.parametrize(
    "changed",
    [{"retriever": RETRIEVERS.load("dense")}, {"wording": "based_on_facts"}, {"demonstrations": ()}, {"seed": 1}],
)
def test_retriever_wording_demonstrations_and_seed_change_the_fingerprint(changed):
    assert build("ike", **changed).fingerprint != build("ike").fingerprint


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("mello", {"form": "prose"}, "form"),
    ("mello", {"hops": 0}, "hops"),
    ("mello", {"hops": 13}, "hops"),
    ("cot", {"form": "lines"}, "form"),
    ("input_aug", {"k": 3}, "k"),
    ("serac", {"threshold": 2}, "threshold"),
    ("crag", {"strips": "words"}, "strips"),
    ("crag", {"upper": -1.0, "lower": 0.0}, "above"),
    ("crag", {"search": "nowhere"}, "cannot search"),
    ("crag", {"search": "nowhere:at_all"}, "cannot be loaded"),
    ("agent", {"rounds": 0}, "rounds"),
    ("ike", {"k": 0}, "k"),
    ("ike", {"demonstrations": -1}, "demonstrations"),
    ("ike", {"top_k": 3}, "top_k"),
]


@pytest.mark.parametrize(("name", "settings", "told"), WRONG)
def test_impossible_settings_are_refused_by_name(name, settings, told):
    trust_typed(settings)
    with pytest.raises(BadSettings, match=told):
        build(name, settings=settings)


@pytest.mark.parametrize(
    ("name", "setting"), [("mello", "demonstrations"), ("cot", "demonstrations"), ("serac", "scope")]
)
def test_a_file_that_is_not_there_is_named(name, setting):
    with pytest.raises(MissingData, match="no-such-place"):
        build(name, settings={setting: "no-such-place"})


# --- one by one


def test_solved_examples_may_come_from_a_file(tmp_path):
    (tmp_path / "shots.txt").write_text("Question: Q?\nFinal answer: A\n", encoding="utf-8")
    told = {"demonstrations": str(tmp_path / "shots.txt")}
    with build("mello", settings=told).edit([CAPITAL]) as answerer:
        assert answerer.answer(probe_of(CAPITAL)).prompt.startswith("Question: Q?\nFinal answer: A\n\nQuestion: The")
    assert build("mello", settings=told).fingerprint["prompts"] != build("mello").fingerprint["prompts"]


def test_the_model_decides_the_form_and_an_agent_needs_one_that_calls_tools(trained_model):
    assert build("mello", model=trained_model).form == "lines" and build("cot", model=trained_model).form == "steps"
    assert build("mello").form == "text" and build("cot").form == "thoughts"
    for model in (ReadingModel(), StepwiseModel()):
        with pytest.raises(BadSettings, match="calls tools, and .* does not"):
            build("agent", model=model)


@pytest.mark.slow
def test_an_agent_may_use_any_of_its_tools_which_see_only_current_entries():
    for tool, arguments in (
        ("lookup", {"subject": CAPITAL.subject, "relation": "capital"}),
        ("list_updates", {"entity": CAPITAL.subject}),
    ):
        with build("agent", model=ToolModel(tool=tool, arguments=arguments)).edit([CAPITAL, *MANY[:9]]) as answerer:
            assert answerer.answer(probe_of(CAPITAL)).retrieved == (CAPITAL.id,)

    def mayor(name: str, time: str) -> Edit:
        triplet = Triplet(subject="Veld", relation="mayor", object=name)
        return Edit.from_triplet(triplet, "The mayor of {} is", time=time)

    new, old = mayor("Ann", "2026"), mayor("Bo", "2020")
    with ChromaMemory(None, LexicalEmbedding(), "time") as memory:
        model = ToolModel(tool="lookup", arguments={"subject": "Veld", "relation": "mayor"})
        with build("agent", model=model, memory=memory).edit([new, old]) as answerer:
            assert answerer.answer(probe_of(new)).retrieved == (new.id,)


def test_input_augmentation_shows_all_facts_in_order_or_thinks_first():
    edits = [*MANY[5:8], CAPITAL]
    with build("input_aug").edit(edits) as answerer:
        shown = answerer.answer(probe_of(CURRENCY)).prompt.split("\n")
    assert shown[:4] == [f"New Fact: {edit.text}" for edit in edits]
    with build("input_aug", settings={"facts": 2}).edit(edits) as answerer:
        shown = answerer.answer(probe_of(CURRENCY)).prompt.split("\n")
    assert shown[:-1] == [f"New Fact: {edit.text}" for edit in edits[2:]]
    with build("input_aug", model=StepwiseModel(), settings={"chain": True}).edit([CAPITAL, *MANY[:3]]) as answerer:
        answer = answerer.answer(probe_of(CAPITAL))
    assert [step.node for step in answer.steps] == ["retrieve", "think", "respond"]
    assert answer.text == CAPITAL.target_new


def test_all_entries_are_returned_up_to_k_and_ike_shows_the_tested_edit_only_with_original():
    memory = PlainMemory()
    memory.add(MANY[:3])
    found = AllEntries(memory.view(), [edit.id for edit in MANY[:3]])
    assert found.search("x", 0) == [] and len(found.search("x", 2)) == 2 and len(found.search("x", 9)) == 3
    told = f"New Fact: {CAPITAL.text}\nPrompt: {CAPITAL.cloze} {CAPITAL.target_new}"
    for original in (False, True):
        with build("ike", settings={"original": original}).edit([CAPITAL]) as answerer:
            assert (told in answerer.answer(probe_of(CAPITAL)).prompt) == original


@pytest.mark.parametrize("lacking", [{}, {"question": "Which?"}, {"target_new": "Ostrim"}])
def test_ike_has_nothing_to_show_of_a_document_without_a_target_or_a_prompt(lacking):
    document = Edit(form="document", text=CAPITAL.text, **lacking)
    with build("ike", settings={"original": True}).edit([document]) as answerer:
        with pytest.raises(BadSettings, match="leave the setting out"):
            answerer.answer(probe_of(CAPITAL))


RIVER = Edit(form="document", subject="Aske", text="The river Aske flows north.")
STANDING = [CAPITAL, CURRENCY, RIVER]


def probe(prompt, *edits):
    return Probe(kind="any", prompt=prompt, gold=("x",), edit_ids=tuple(edit.id for edit in edits))


def test_a_probe_is_shown_the_edits_that_bear_on_it_and_out_of_scope_the_nearest_in_words():
    choose = FactSelector(STANDING)
    assert choose(probe("?", CURRENCY)) == [CURRENCY.text]
    assert choose(probe("?", RIVER, CAPITAL)) == [RIVER.text, CAPITAL.text]  # in its order
    assert choose(probe("The capital of Sorn is")) == [CAPITAL.text]
    assert choose(probe("The currency of Sorn is")) == [CURRENCY.text]
    assert choose(probe("Where does the Lunden flow?")) == [RIVER.text]
    assert FactSelector([CAPITAL])(probe("Who wrote The Silent River?")) == [CAPITAL.text]
    absent = probe("The capital of Sorn is", Edit(form="document", text="The capital of Sorn is Lunden."))
    assert FactSelector([CURRENCY])(absent) == [CURRENCY.text] and FactSelector([])(absent) == []


def test_elkens_questions_out_of_scope_are_shown_their_own_event_among_many_unless_the_setting_is_off():
    question = probe("The capital of Sorn is").model_copy(update={"event_id": RIVER.id})
    assert FactSelector(STANDING)(question) == [RIVER.text]
    assert FactSelector(STANDING, own_event=False)(question) == [CAPITAL.text]
    assert FactSelector([CAPITAL])(question) == [CAPITAL.text]
    for settings, shown in (({}, RIVER), ({"own_event": "false"}, CAPITAL)):
        model = ScriptedChatModel(reply=lambda prompt: "Kestrel Bay.")
        editor = InContext(EditorContext(model, settings=settings))
        with editor.edit(STANDING) as answerer:
            assert shown.text in answerer.answer(question).prompt
        assert editor.fingerprint["settings"] == {"own_event": shown is RIVER}


def test_the_prompt_is_worded_as_the_benchmark_says():
    model = ScriptedChatModel(reply=lambda prompt: "Kestrel Bay.")
    with InContext(EditorContext(model, wording="based_on_facts")).edit([CAPITAL]) as answerer:
        answer = answerer.answer(probe("The capital of Veldania is", CAPITAL))
    assert answer.text == "Kestrel Bay"
    assert model.calls == [answer.prompt]
    assert answer.prompt.startswith("Here are some new facts: The capital of Veldania is Kestrel Bay. Based on")


@pytest.mark.parametrize(("form", "warned"), [("text", True), ("lines", False)])
def test_mello_says_when_its_retriever_is_not_the_published_one(form, warned, caplog):
    memory: Any = PlainMemory()
    memory.identity = "minilm/384/abc/cosine"
    build("mello", memory=memory, settings={"form": form})
    assert ("--retriever dense --embedding facebook/contriever-msmarco" in caplog.text) == warned
    caplog.clear()
    memory.identity = "contriever-msmarco/512/abc/dot"
    build("mello", memory=memory, retriever=RETRIEVERS.load("dense"), settings={"form": form})
    assert not caplog.text
