"""Faults of rows in MQuAKE's form: each is found in a row that has it, and in no other."""

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from emend.evals.construction.sources.chain_faults import FAULTS, count_faults
from emend.evals.data.benchmarks.mquake import ChainRow
from scripts.benchmarks.check_chains import check
from tests.paths import SHARED

ROW: dict[str, Any] = {
    "case_id": 1,
    "requested_rewrite": [{
        "prompt": "{} is a citizen of", "relation_id": "P27", "subject": "Ida Holt", "question": "Where is Ida from?",
        "target_new": {"str": "Iceland", "id": "Q189"}, "target_true": {"str": "Norway", "id": "Q20"},
    }],
    "questions": ["What is the capital of the country of Ida Holt?", "Which capital has Ida Holt's country?"],
    "answer": "Oslo", "answer_alias": ["Christiania"], "new_answer": "Reykjavík", "new_answer_alias": [],
    "single_hops": [
        {"question": "Where is Ida from?", "cloze": "Ida Holt is a citizen of", "answer": "Norway"},
        {"question": "Capital of Norway?", "cloze": "The capital of Norway is", "answer": "Oslo"},
    ],
    "new_single_hops": [
        {"question": "Where is Ida from?", "cloze": "Ida Holt is a citizen of", "answer": "Iceland"},
        {"question": "Capital of Iceland?", "cloze": "The capital of Iceland is", "answer": "Reykjavík"},
    ],
    "orig": {
        "triples": [["Q1", "P27", "Q20"], ["Q20", "P36", "Q585"]],
        "new_triples": [["Q1", "P27", "Q189"], ["Q189", "P36", "Q1764"]],
        "new_triples_labeled": [["Ida Holt", "citizen", "Iceland"], ["Iceland", "capital", "Reykjavík"]],
        "edit_triples": [["Q1", "P27", "Q189"]],
    },
}  # fmt: skip


def other(number: int, subject: str = "Q2") -> dict[str, Any]:
    """A row like the first about another person."""
    row = deepcopy(ROW) | {"case_id": number}
    row["orig"]["new_triples"][0][0] = row["orig"]["edit_triples"][0][0] = subject
    return row


def conflict(rows: list[dict[str, Any]]) -> None:
    rows.append(other(3, "Q1"))
    rows[-1]["orig"]["edit_triples"] = [["Q1", "P27", "Q33"]]
    rows[-1]["orig"]["new_triples"] = [["Q1", "P27", "Q33"], ["Q33", "P36", "Q1757"]]


def contaminate(rows: list[dict[str, Any]]) -> None:
    rows[1]["orig"]["edit_triples"] = [["Q189", "P36", "Q9"]]
    rows[1]["orig"]["new_triples"] = [["Q2", "P27", "Q189"], ["Q189", "P36", "Q9"]]


CHANGES: dict[str, tuple[set[int], Callable[[list[dict[str, Any]]], Any]]] = {
    "contaminated": ({1}, contaminate),
    "conflicting_edits": ({1, 3}, conflict),
    "duplicated": ({3}, lambda rows: rows.append(other(3, "Q1"))),
    "start_not_named": ({1}, lambda rows: rows[0].update(questions=["What is the capital of her country?"])),
    "entity_leaks": ({1}, lambda rows: rows[0].update(questions=["Ida Holt is from Iceland; its capital?"])),
    "repeated_question": ({1}, lambda rows: rows[0].update(questions=["Ida Holt?", "ida holt"])),
    "same_answer": ({1}, lambda rows: rows[0].update(answer="reykjavík.")),
    "shared_name": ({1}, lambda rows: rows[0].update(new_answer_alias=["christiania"])),
    "broken_chain": ({1}, lambda rows: rows[0]["orig"].update(new_triples=[["Q1", "P27", "Q189"], ["Q5", "a", "Q6"]])),
    "other_answer": ({1}, lambda rows: rows[0].update(new_answer="Akureyri")),
    "idle_edit": ({1}, lambda rows: rows[0]["requested_rewrite"][0].update(target_true={"str": "Iceland"})),
}  # fmt: skip


def faults(rows: list[dict[str, Any]]) -> dict[str, set[int]]:
    return dict(count_faults([ChainRow.model_validate(row) for row in rows]))


def test_sound_rows_have_no_fault():
    assert faults([ROW, other(2)]) == dict.fromkeys([*FAULTS, "any"], set())


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_in_the_row_that_has_it(name: str):
    rows = [deepcopy(ROW), other(2)]
    faulty, change = CHANGES[name]
    change(rows)
    counts = faults(rows)
    assert counts[name] >= faulty
    assert counts[name] <= faulty | ({2} if name == "contaminated" else set())
    assert counts["any"] >= faulty


def test_a_sound_row_is_composed_again_from_its_triples(tmp_path: Path):
    file = tmp_path / "rows.json"
    file.write_text(json.dumps([ROW]))
    assert check(file)["composed again"] == 1


@pytest.mark.slow
@pytest.mark.skipif(not (SHARED / "data" / "mquake").is_dir(), reason="the published file is not here")
def test_the_released_rows_are_composed_again_and_a_quarter_of_this_part_is_contaminated():
    outcome = check(SHARED / "data" / "mquake" / "mquake_cf_3k.sample.json")
    assert outcome["composed again"] / outcome["rows"] > 0.96
    assert outcome["faults"]["contaminated"] / outcome["rows"] == pytest.approx(0.25, abs=0.01)
    assert outcome["faults"]["conflicting_edits"] == 0


def test_a_row_is_not_composed_again_where_its_answer_is_another(tmp_path: Path):
    file = tmp_path / "rows.json"
    file.write_text(json.dumps([ROW | {"new_answer": "Akureyri"}]))
    assert list(check(file)["rules broken"]) == ["an answer is not that of the last hop"]
