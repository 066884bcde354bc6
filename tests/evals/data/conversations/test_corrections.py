"""A published audit corrects gold, or leaves questions out, and says how many."""

import json
from pathlib import Path
from typing import Any

import pytest

from emend.evals.data.conversations.locomo import LoCoMo
from emend.memory.errors import BadData, MissingData
from tests.paths import DATA


def entry(number: int, question: str, **changed: Any) -> dict[str, Any]:
    return {
        "question_id": f"locomo_0_qa{number}",
        "question": question,
        "error_type": "WRONG_CITATION",
        "correct_answer": "a grey cat",
        "correct_evidence": ["D1:2; D2:3"],
    } | changed


def corrected(folder: Path, *entries: dict[str, Any]) -> LoCoMo:
    file = folder / "errors.json"
    file.write_text(json.dumps(entries))
    return LoCoMo(DATA / "locomo", {"corrections": str(file)})


def test_answers_and_evidence_are_corrected_ambiguous_questions_left_out_and_all_counted(tmp_path: Path):
    benchmark = corrected(
        tmp_path,
        entry(0, "Which pet did Tom adopt?"),
        entry(1, "When did Tom move to Halden?", error_type="AMBIGUOUS"),
        entry(2, "Which hobbies does Ida have?", correct_answer=None),
        entry(3, "A question of another file?"),
    )
    case = next(benchmark.cases("turns"))
    assert len(case.probes) == 3
    assert (case.probes[0].gold, case.probes[0].edit_ids) == (("a grey cat",), ("toy-1:D1:2", "toy-1:D2:3"))
    assert case.probes[0].tags["corrected"] is True and "corrected" not in case.probes[1].tags
    count = benchmark.corrections
    assert (count.entries, count.corrected, count.left_out, count.elsewhere) == (4, 1, 2, 1)
    assert benchmark.provenance["corrections"]["corrected"] == 1


def test_corrections_that_do_not_fit_are_refused(tmp_path: Path):
    with pytest.raises(BadData, match="locomo_0_qa0.*correct_evidence.*D9:9"):
        list(corrected(tmp_path, entry(0, "Which pet did Tom adopt?", correct_evidence=["D9:9"])).cases("turns"))
    with pytest.raises(BadData, match="record 1, field 'question_id'"):
        corrected(tmp_path, entry(0, "a"), entry(0, "b"))
    with pytest.raises(BadData, match="record 0, field 'question'"):
        corrected(tmp_path, {"question_id": "locomo_0_qa0"})
    with pytest.raises(MissingData, match="corrections"):
        LoCoMo(DATA / "locomo", {"corrections": str(tmp_path / "none.json")})
