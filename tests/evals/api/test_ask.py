import pytest

import emend
from emend.memory.errors import BadData
from tests.evals.toys import ScriptedModel, ToyEditor
from tests.fakes import ScriptedChatModel

MODEL = ScriptedChatModel(reply=lambda prompt: "Ostrim" if "Ostrim" in prompt else "Blue")
FACT = {"subject": "Veldania", "relation": "capital", "object": "Ostrim"}


def test_facts_are_applied_inside_the_with(tmp_path):
    with emend.edit(MODEL, ["The capital of Veldania is Ostrim."], embedding="lexical") as edited:
        answer = edited.ask("What is the capital of Veldania?")
    assert answer.text == "Ostrim" and len(answer.retrieved) == 1
    assert [step.node for step in answer.steps] == ["retrieve", "compose", "respond"]


def test_facts_are_edits_objects_or_texts():
    from emend.evals.api.session import edit_of

    edit = edit_of(FACT)
    assert (edit.form, edit.target_new, edit_of(edit)) == ("triplet", "Ostrim", edit)
    assert edit_of("A text.").form == "document"
    with pytest.raises(BadData):
        edit_of({"sbject": "Veldania"})


def test_an_editor_may_be_a_class(tmp_path):
    with emend.edit(ScriptedModel(), [FACT], editor=ToyEditor) as edited:
        assert edited.ask("Which colour?").text == "Blue"


def test_a_question_over_a_memory(tmp_path):
    with emend.open_memory(str(tmp_path / "m"), "lexical", create=True) as memory:
        memory.add([emend.Edit(form="document", text="The capital of Veldania is Ostrim.")])
    answer = emend.ask("What is the capital of Veldania?", str(tmp_path / "m"), MODEL)
    assert answer.text == "Ostrim"


@pytest.mark.slow
def test_weights_are_edited_and_restored():
    edit = emend.Edit.from_triplet(
        emend.Triplet(subject="Veldania", relation="capital", object="Ostrim"), "The capital of {} is"
    )
    cloze = "The capital of Veldania is"
    with emend.edit("tiny", [], editor="unedited") as unedited:
        before = unedited.ask(cloze, "cloze").text
    with emend.edit("tiny", [edit], editor="ft") as edited:
        assert edited.ask(cloze, "cloze").text != before
    with emend.edit("tiny", [], editor="unedited") as unedited:
        assert unedited.ask(cloze, "cloze").text == before
