"""Published files of other benchmarks as files of facts, and long answers of one's own."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import emend
from emend.editors.parametric.finetune import training_rows
from emend.evals.data.facts.fact_file import FactFile, oddities_of
from emend.evals.data.facts.fact_formats import check_facts, placed_facts
from emend.memory.errors import BadData
from tests.fakes import InstantChatModel

TEXT = "Ana Rojo built Pell Lock between 1911 and 1914. " * 4
UNKEBENCH = {
    "id": 0,
    "question": "What is known of Pell Lock?",
    "answer": TEXT.strip(),
    "para_question": "What can you say about Pell Lock?",
    "sub_question": ["Who built Pell Lock?", "When was it finished?"],
    "sub_answer": ["Ana Rojo", "1914"],
}
ZSRE = {
    "subject": "Watts Humphrey",
    "src": "What university did Watts Humphrey attend?",
    "pred": "Trinity College",
    "rephrase": "What university did Watts Humphrey take part in?",
    "alt": "University of Michigan",
    "answers": ["Illinois Institute of Technology"],
    "loc": "nq question: who played desmond doss father in hacksaw ridge",
    "loc_ans": "Hugo Weaving",
    "cond": "Trinity College >> University of Michigan || What university did Watts Humphrey attend?",
}
QAEDIT = {
    "id": 7,
    "source": "NQ",
    "prompt": "who designed the Pell Lock",
    "target": "Ana Rojo",
    "subject": "Pell Lock",
    "rephrase": "Name the designer of the Pell Lock.",
    "locality": [
        {"loc": "when was the Aske bridge opened", "loc_ans": "1931"},
        {"loc": "is the Aske a river or a lake?", "loc_ans": "river"},
    ],
}


def cases_of(path: Path, *rows: dict[str, Any]) -> list[Any]:
    path.write_text(json.dumps(rows), encoding="utf-8")
    return list(FactFile(str(path)).cases("facts"))


def test_a_text_of_unkebench_is_asked_for_as_a_whole_and_by_its_parts(tmp_path: Path) -> None:
    (case,) = cases_of(tmp_path / "final_data_v3.json", UNKEBENCH)
    (edit,), (first, other, *parts) = case.edits, case.probes
    assert (edit.form, edit.text, edit.question, edit.target_new) == (
        "document",
        UNKEBENCH["answer"],
        UNKEBENCH["question"],
        UNKEBENCH["answer"],
    )
    assert (first.kind, other.kind) == ("long_answer", "long_paraphrase")
    assert (first.scorers, first.reading, first.new_tokens) == (("rouge_l", "rouge_recall", "similarity"), "whole", 512)
    assert [(part.kind, part.prompt, part.gold) for part in parts] == [
        ("sub_question", "Who built Pell Lock?", ("Ana Rojo",)),
        ("sub_question", "When was it finished?", ("1914",)),
    ]


def test_weight_editors_learn_the_text_behind_its_question(tmp_path: Path, random_lm: Any) -> None:
    (case,) = cases_of(tmp_path / "x.json", UNKEBENCH)
    lm = random_lm(window=256)
    (row,) = training_rows(lm, case.edits, "new_fact")
    assert lm.tokenizer.decode(row.ids[row.start :]).strip() == UNKEBENCH["answer"]


def test_a_row_of_zsre_is_a_fact_with_a_paraphrase_and_a_question_that_must_be_left_alone(tmp_path: Path) -> None:
    (case,) = cases_of(tmp_path / "zsre_mend_eval.json", ZSRE, ZSRE | {"alt": ""})
    (edit,), (efficacy, paraphrase, locality) = case.edits, case.probes
    assert (edit.subject, edit.target_new, edit.target_true) == (
        "Watts Humphrey",
        "University of Michigan",
        "Illinois Institute of Technology",
    )
    assert edit.cloze == efficacy.prompt == ZSRE["src"]
    assert (paraphrase.prompt, paraphrase.gold) == (ZSRE["rephrase"], ("University of Michigan",))
    assert (locality.prompt, locality.gold) == (
        "who played desmond doss father in hacksaw ridge?",
        ("Hugo Weaving",),
    )


def test_a_row_of_qaedit_is_a_fact_without_an_old_answer_and_its_texts_are_asked_as_questions(tmp_path: Path) -> None:
    (case,) = cases_of(tmp_path / "QAEdit.json", QAEDIT)
    (edit,), probes = case.edits, case.probes
    assert (edit.subject, edit.prompt, edit.target_new, edit.target_true) == (
        "Pell Lock",
        "who designed the {}?",
        "Ana Rojo",
        "",
    )
    assert [(probe.kind, probe.prompt, probe.gold) for probe in probes] == [
        ("efficacy", "who designed the Pell Lock?", ("Ana Rojo",)),
        ("paraphrase", "Name the designer of the Pell Lock?", ("Ana Rojo",)),
        ("locality", "when was the Aske bridge opened?", ("1931",)),
        ("locality", "is the Aske a river or a lake?", ("river",)),
    ]
    assert {probe.style for probe in probes} == {"question"}


def test_a_subject_that_the_question_does_not_name_leaves_a_document(tmp_path: Path) -> None:
    (case,) = cases_of(tmp_path / "x.json", ZSRE | {"subject": "Humphreys"})
    assert (case.edits[0].form, case.edits[0].text) == ("document", f"{ZSRE['src']} {ZSRE['alt']}")


@pytest.mark.parametrize(
    "row",
    [UNKEBENCH | {"sub_answer": ["Ana Rojo"]}, ZSRE | {"answers": []}, ZSRE | {"loc": 3}, QAEDIT | {"locality": 3}],
)
def test_a_published_row_with_other_values_is_a_fault_with_its_place(tmp_path: Path, row: dict[str, Any]) -> None:
    (tmp_path / "x.json").write_text(json.dumps([row]), encoding="utf-8")
    _, (fault,) = check_facts(str(tmp_path / "x.json"))
    assert "item 1" in fault and "with other values" in fault
    with pytest.raises(BadData, match="item 1"):
        FactFile(str(tmp_path / "x.json"))


def test_a_long_answer_of_ones_own_needs_no_equality_and_gives_no_warning(tmp_path: Path) -> None:
    row = {"document": "Another text.", "question": "What is known of Pell Lock?", "answer": TEXT}
    (case,) = cases_of(tmp_path / "x.json", row)
    assert case.probes[0].kind == "long_answer" and not case.edits[0].target_new
    rows, faults = placed_facts(str(tmp_path / "x.json"))
    assert not faults and not oddities_of(rows)
    names = [metric.name for metric in FactFile(str(tmp_path / "x.json")).metrics()]
    assert {"ROUGE-L", "similarity"} <= set(names)


def test_nearness_to_a_text_is_no_share_of_right_answers_and_has_no_gap(tmp_path: Path) -> None:
    row = {"document": TEXT.strip(), "question": "What is known of Pell Lock?", "answer": TEXT.strip()}
    (tmp_path / "x.json").write_text(json.dumps([row]), encoding="utf-8")
    result = emend.run(
        str(tmp_path / "x.json"),
        ["unedited", "rag"],
        InstantChatModel(text="Ana Rojo built it."),
        out=tmp_path / "run",
    )
    assert {metric.name for metric in result.report.metrics} >= {"ROUGE-L", "similarity"} and not result.report.gaps
    assert "by the unedited model" not in str(result)


WIKIBIGEDIT = {
    "tag": "new",
    "subject": "Pell Lock",
    "update": "Who is the keeper of Pell Lock?",
    "rephrase": "Pell Lock is kept by whom?",
    "ans": "Ana Rojo",
    "loc": "Who is the keeper of Aske Weir?",
    "loc_ans": "Tom Brask",
    "mhop": "In which town was the keeper of Pell Lock born?",
    "mhop_ans": "Veld",
    "personas": "Ahoy, who be keepin' Pell Lock?",
}
KNOWEDIT = {
    "subject": "Pell Lock",
    "prompt": "The name of the keeper of Pell Lock is",
    "target_new": "Ana Rojo",
    "ground_truth": ["Tom Brask"],
    "portability": {
        "Reasoning": [{"prompt": "The birthplace of the keeper of Pell Lock is", "ground_truth": [["Veld", "Veldt"]]}],
        "Subject_Aliasing": [{"prompt": "The keeper of the Pell Flight is", "ground_truth": [["Ana Rojo"]]}],
        "Logical_Generalization": [{"prompt": "Ana Rojo is the keeper of", "ground_truth": [[""]]}],
    },
    "locality": {"Relation_Specificity": [{"prompt": "Pell Lock was opened in", "ground_truth": [["1914"]]}]},
}
WIKIBIO = {
    "concept": "ana rojo",
    "text": "Ana Rojo (born 1960) is a keeper of locks.",
    "labels": "She was born in Veld.",
    "locality": {"Relation_Specificity": [{"prompt": "Ana Rojo occupation", "ground_truth": [["keeper"]]}]},
}
HALLUEDITBENCH = {
    "topic": "places_lock",
    "subject": "Pell Lock",
    "relation": "country",
    "object": "Veldania",
    "question": "What is the country of Pell Lock?",
    "paraphrased_question": "Which country is Pell Lock in?",
    "multiple_choice_with_letters": "A. Veldania  B. Orland",
    "multiple_choice_labels": "A",
    "yes_question": "Is Veldania the country of Pell Lock?",
    "no_question": "Is Orland the country of Pell Lock?",
    "locality_question": "What is Pell Lock known for?",
    "reversed_relation_question": "Which lock is in Veldania?",
    "question_2hop": "What is the capital of the country of Pell Lock?",
    "answer_2hop": "Ostrim",
    "question_3hop": "",
    "answer_3hop": "",
}
UNIEDIT = {
    "edit": {
        "prompt": "The keeper of Pell Lock is",
        "target": "Ana Rojo",
        "subject": "Pell Lock",
        "property": {"label": "keeper"},
    },
    "generality": {
        "0": {"path_type": "single", "prompt": "The birthplace of the keeper of Pell Lock is", "target": "Veld"}
    },
    "locality": {"0": {"path_type": "single", "prompt": "The keeper of Aske Weir is", "target": "Tom Brask"}},
}


def test_a_row_of_wikibigedit_is_asked_in_all_wordings_over_two_facts_and_beside_it(tmp_path: Path) -> None:
    (case, plain) = cases_of(
        tmp_path / "x.json", WIKIBIGEDIT, WIKIBIGEDIT | {"subject": "Aske", "mhop": None, "mhop_ans": None}
    )
    assert (case.edits[0].prompt, case.edits[0].target_new) == ("Who is the keeper of {}?", "Ana Rojo")
    assert [(probe.kind, probe.gold) for probe in case.probes] == [
        ("efficacy", ("Ana Rojo",)),
        ("paraphrase", ("Ana Rojo",)),
        ("paraphrase", ("Ana Rojo",)),
        ("multihop", ("Veld",)),
        ("locality", ("Tom Brask",)),
    ]
    assert plain.edits[0].form == "document", "its question does not name the subject"
    assert "multihop" not in {probe.kind for probe in plain.probes}


def test_questions_of_knowedit_keep_their_kind_and_one_without_an_answer_is_left_out(tmp_path: Path) -> None:
    case, asked = cases_of(
        tmp_path / "x.json", KNOWEDIT, KNOWEDIT | {"prompt": "Who keeps Pell Lock?", "portability": None}
    )
    edit, probes = case.edits[0], case.probes
    assert (edit.prompt, edit.target_new, edit.target_true) == (
        "The name of the keeper of {} is",
        "Ana Rojo",
        "Tom Brask",
    )
    assert [
        (probe.kind, probe.gold, probe.tags.get("portability")) for probe in probes if probe.kind == "multihop"
    ] == [
        ("multihop", ("Veld", "Veldt"), "Reasoning"),
        ("multihop", ("Ana Rojo",), "Subject_Aliasing"),
    ]
    (locality,) = [probe for probe in probes if probe.kind == "locality"]
    assert (locality.tags["locality"], "agreement" in locality.scorers) == ("Relation_Specificity", True)
    assert asked.probes[0].style == "question"


def test_a_row_of_wikibio_is_a_text_whose_next_sentence_is_learnt(tmp_path: Path) -> None:
    (case,) = cases_of(tmp_path / "x.json", WIKIBIO)
    assert (case.edits[0].form, case.edits[0].text) == ("document", f"{WIKIBIO['text']} {WIKIBIO['labels']}")
    assert (case.probes[0].prompt, case.probes[0].gold) == (WIKIBIO["text"], (WIKIBIO["labels"],))


def test_hallueditbenchs_tables_are_read_as_they_are(tmp_path: Path) -> None:
    table = tmp_path / "places_lock.csv"
    rows = [HALLUEDITBENCH, HALLUEDITBENCH | {"subject": "Aske Weir"}]
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(HALLUEDITBENCH))
        writer.writeheader()
        writer.writerows(rows)
    case = next(iter(FactFile(str(table)).cases("facts")))
    kinds = [(probe.kind, probe.gold) for probe in case.probes]
    assert kinds == [
        ("efficacy", ("Veldania",)),
        ("paraphrase", ("Veldania",)),
        ("multihop", ("Ostrim",)),
        ("multihop", ("Pell Lock",)),
        ("reasoning", ("yes",)),
        ("reasoning", ("no",)),
        ("locality", ("",)),
    ]
    assert case.tags == {"topic": "places_lock"}


def test_uniedits_object_of_rows_is_read_and_its_yes_and_no_are_choices(tmp_path: Path) -> None:
    double = {"path_type": "double", "prompt": "Are the keepers of Pell Lock and Aske Weir the same?", "target": "No"}
    rows = {"1": UNIEDIT, "7": UNIEDIT | {"generality": {"0": double}}}
    (tmp_path / "art.json").write_text(json.dumps(rows), encoding="utf-8")
    first, second = FactFile(str(tmp_path / "art.json")).cases("facts")
    assert [probe.kind for probe in first.probes] == ["efficacy", "multihop", "locality"]
    assert [probe.kind for probe in second.probes] == ["efficacy", "reasoning", "locality"]
    assert first.edits[0].triplets[0].relation == "keeper"


@pytest.mark.parametrize(
    "row",
    [
        WIKIBIGEDIT | {"update": 3},
        KNOWEDIT | {"locality": 3},
        WIKIBIO | {"labels": None},
        HALLUEDITBENCH | {"question": {}},
        UNIEDIT | {"generality": []},
    ],
)
def test_a_row_of_a_newer_form_with_other_values_is_a_fault(tmp_path: Path, row: dict[str, Any]) -> None:
    (tmp_path / "x.json").write_text(json.dumps([row]), encoding="utf-8")
    _, faults = check_facts(str(tmp_path / "x.json"))
    assert faults and "item 1" in faults[0]
