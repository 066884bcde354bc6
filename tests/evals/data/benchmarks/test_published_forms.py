"""Files of UnKEBench, zsRE and QAEdit as files of facts, and long answers of one's own."""

import json
from pathlib import Path
from typing import Any

import pytest

import emend
from emend.editors.parametric.finetune import training_rows
from emend.evals.data.benchmarks.fact_file import FactFile, oddities_of
from emend.evals.data.benchmarks.fact_formats import check_facts, placed_facts
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
    assert (first.scorers, first.reading, first.new_tokens) == (("rouge_l", "similarity"), "whole", 512)
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
    assert "item 1" in fault and "UnKEBench, zsRE or QAEdit" in fault
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
    assert "known to the unedited model" not in str(result)
