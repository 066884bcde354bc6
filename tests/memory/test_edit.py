from typing import Any

import pytest
from pydantic import ValidationError

from emend.memory.edit import Edit, Triplet, content_id
from emend.memory.probe import Answer, Probe, Step, Usage

TRIPLET = Triplet(subject="Lyon", relation="twin city", object="Ostrim", subject_id="Q456")
WORDS = (
    TRIPLET,
    Edit(form="document", text="Ostrim — «новый» 双子 city.", triplets=(TRIPLET,), time="2026-01-01"),
    Edit.from_triplet(TRIPLET, "The twin city of {} is", question="Which city is the twin of Lyon?"),
    Probe(kind="efficacy", prompt="The twin city of Lyon is", gold=("Ostrim", "O."), rival="Milan", tags={"hops": 2}),
    Answer(text="Ostrim", log_probs=(-0.1234567890123, float("-inf")), usage=Usage(input_tokens=3, calls=1)),
    Step(node="retrieve", update={"hits": [{"score": 0.5, "text": "x"}], "none": None}, ms=1.25, error="no"),
)


@pytest.mark.parametrize("word", WORDS, ids=lambda word: type(word).__name__)
def test_a_record_survives_json_and_is_frozen(word):
    again = type(word).model_validate_json(word.model_dump_json())
    assert again == word
    assert again.model_dump_json() == word.model_dump_json()
    with pytest.raises(ValidationError):
        setattr(word, next(iter(type(word).model_fields)), "other")


@pytest.mark.parametrize("word", WORDS, ids=lambda word: type(word).__name__)
def test_an_unknown_field_is_refused_by_name(word):
    with pytest.raises(ValidationError, match="typo_field"):
        type(word)(**word.model_dump(), typo_field=1)


def test_a_missing_field_or_unknown_form_is_refused_and_ids_are_those_of_objects_and_json():
    with pytest.raises(ValidationError, match="text"):
        Edit.model_validate({"form": "document"})
    with pytest.raises(ValidationError, match="form"):
        Edit.model_validate({"form": "poem", "text": "x"})
    edit = Edit(form="triplets", text="x", triplets=(TRIPLET,))
    told = {"form": "triplets", "text": "x", "triplets": [TRIPLET.model_dump()]}
    assert Edit.model_validate(told).id == edit.id
    assert Edit.model_validate_json(edit.model_dump_json()).id == edit.id


def test_content_ids_are_the_same_in_every_process_and_order_and_a_given_one_is_kept():
    assert content_id("edit", {"a": 1, "b": ["x", "é"]}) == "d3a4c3f731688a10"
    assert Edit(form="document", text="The twin city of Lyon is Ostrim.").id == "7b5f11169129670e"
    assert content_id({"a": 1, "b": 2}) == content_id({"b": 2, "a": 1})
    assert Edit(text="x", form="event", subject="y").id == Edit(subject="y", form="event", text="x").id
    assert Probe(kind="k", prompt="p", gold=("g",)).id == Probe(gold=("g",), prompt="p", kind="k").id
    assert Edit(id="case-7", form="document", text="x").id == "case-7"


def test_different_contents_have_different_ids():
    edits = [
        Edit(form="document", text="x"),
        Edit(form="event", text="x"),
        Edit(form="document", text="x "),
        Edit(form="document", text="x", time="2026"),
        Edit(form="document", text="x", triplets=(TRIPLET,)),
    ]
    assert len({edit.id for edit in edits}) == len(edits)


def test_an_edit_from_a_triplet_states_the_fact_and_asks_for_its_object():
    edit = Edit.from_triplet(TRIPLET, "The twin city of {} is")
    assert edit.text == "The twin city of Lyon is Ostrim."
    assert edit.cloze == "The twin city of Lyon is"
    assert (edit.form, edit.target_new, edit.triplets) == ("triplet", "Ostrim", (TRIPLET,))


def test_a_cloze_keeps_the_subjects_braces_a_probe_its_query_and_usage_adds_up():
    assert Edit(form="triplet", text="x", subject="{}", prompt="{} or {} is").cloze == "{} or {} is"
    probe = Probe(kind="k", prompt="p", gold=("g",))
    assert probe.retrieval_query == "p"
    assert probe.model_copy(update={"query": "q"}).retrieval_query == "q"
    assert Usage(input_tokens=1, output_tokens=2, calls=1).plus(Usage(input_tokens=4, calls=1)) == Usage(
        input_tokens=5, output_tokens=2, calls=2
    )


@pytest.mark.parametrize("given", [None, 5, "x"])
def test_triplets_that_are_no_list_are_refused_by_name(given):
    with pytest.raises(ValidationError, match="triplets"):
        Edit.model_validate({"form": "document", "text": "x", "triplets": given})


def test_the_id_of_an_edit_does_not_depend_on_written_defaults():
    told: dict[str, Any] = {"form": "document", "text": "A."}
    more: list[dict[str, Any]] = [
        {},
        {"time": None},
        {"language": "en"},
        {"subject": "", "triplets": []},
        {"triplets": ()},
    ]
    assert len({Edit.model_validate(told | one).id for one in more}) == 1
    plain: dict[str, Any] = {"subject": "S", "relation": "r", "object": "o"}
    ways: list[Any] = [plain, plain | {"subject_id": None}, Triplet.model_validate(plain)]
    assert len({Edit.model_validate(told | {"triplets": [one]}).id for one in ways}) == 1
    assert Edit.model_validate(told | {"language": "zh"}).id != Edit.model_validate(told).id
