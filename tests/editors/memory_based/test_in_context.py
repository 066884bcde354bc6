from emend.editors.base import EditorContext
from emend.editors.conformance import CAPITAL, CURRENCY
from emend.editors.memory_based.in_context import FactSelector, InContext
from emend.memory.edit import Edit
from emend.memory.probe import Probe
from tests.fakes import ScriptedChatModel

RIVER = Edit(form="document", subject="Aske", text="The river Aske flows north.")
STANDING = [CAPITAL, CURRENCY, RIVER]


def probe(prompt, *edits):
    return Probe(kind="any", prompt=prompt, gold=("x",), edit_ids=tuple(edit.id for edit in edits))


def test_a_probe_is_shown_the_edits_that_bear_on_it_in_its_order():
    choose = FactSelector(STANDING)
    assert choose(probe("?", CURRENCY)) == [CURRENCY.text]
    assert choose(probe("?", RIVER, CAPITAL)) == [RIVER.text, CAPITAL.text]


def test_a_probe_out_of_scope_is_shown_the_applied_edit():
    assert FactSelector([CAPITAL])(probe("Who wrote The Silent River?")) == [CAPITAL.text]


def test_among_several_a_probe_out_of_scope_is_shown_the_nearest_in_words():
    choose = FactSelector(STANDING)
    assert choose(probe("The capital of Sorn is")) == [CAPITAL.text]
    assert choose(probe("The currency of Sorn is")) == [CURRENCY.text]
    assert choose(probe("Where does the Lunden flow?")) == [RIVER.text]


def test_a_relevant_edit_that_is_not_applied_is_not_shown():
    absent = Edit(form="document", text="The capital of Sorn is Lunden.")
    assert FactSelector([CURRENCY])(probe("The capital of Sorn is", absent)) == [CURRENCY.text]
    assert FactSelector([])(probe("The capital of Sorn is", absent)) == []


def test_the_prompt_is_worded_as_the_benchmark_says():
    model = ScriptedChatModel(reply=lambda prompt: "Kestrel Bay.")
    with InContext(EditorContext(model, wording="based_on_facts")).edit([CAPITAL]) as answerer:
        answer = answerer.answer(probe("The capital of Veldania is", CAPITAL))
    assert answer.text == "Kestrel Bay"
    assert model.calls == [answer.prompt]
    assert answer.prompt.startswith("Here are some new facts: The capital of Veldania is Kestrel Bay. Based on")
