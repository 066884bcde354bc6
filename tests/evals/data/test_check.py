"""A folder's faults are all named, by file, record and field; a folder without faults is counted by its loader."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from emend.evals.data.check import FolderCheck, check
from emend.evals.data.download import LEDGER, SourceEntry, SourceLedger
from emend.memory.errors import BadSettings, MissingData
from tests.paths import DATA, SHARED

REAL = SHARED / "data"
NAMES = ("akew", "counterfact", "docter", "elken", "mquake", "recoe")


@pytest.fixture
def copy(tmp_path: Path) -> Callable[[str], Path]:
    return lambda name: Path(shutil.copytree(DATA / name, tmp_path / name))


def records(path: Path) -> list[dict[str, Any]]:
    content = json.loads(path.read_text("utf-8"))
    rows: list[dict[str, Any]] = content["data"] if isinstance(content, dict) else content
    return rows


def told(checked: FolderCheck) -> list[tuple[str, str, str]]:
    return [(fault.file, fault.record, fault.field) for fault in checked.faults]


@pytest.mark.parametrize("name", NAMES)
def test_good_files_have_no_fault_and_as_many_records_as_they_hold(name):
    checked = check(name, DATA / name)
    assert checked.faults == ()
    there = {file.name: file.records for file in checked.files if file.records is not None}
    assert there == {file: len(records(DATA / name / file)) for file in there}
    assert any(what == "cases" and count for _, what, count in checked.counts)


def test_what_a_loader_drops_or_repairs_is_counted_and_a_part_of_a_published_file_is_no_fault():
    counts = {(reading, what): count for reading, what, count in check("recoe", DATA / "recoe").counts}
    assert counts["schemes=counting", "repaired: aliases under a misspelt key"] == 1
    assert counts["schemes=subtraction", "dropped: records that repeat another"] == 1
    checksums = {file.name: file.checksum for file in check("akew", DATA / "akew").files}
    assert checksums["MQuAKE-CF.json"] == "not the published one" and checksums["WikiUpdate.json"] == "not known"


def test_every_fault_of_every_record_is_named_and_not_the_first_alone(copy):
    path = copy("akew") / "CounterFact.json"
    rows = records(path)
    rows += [json.loads(json.dumps(rows[0])), json.loads(json.dumps(rows[0]))]
    first, *_, last, twice = rows
    first["requested_rewrite"]["subject"] = ""
    del first["requested_rewrite"]["target_new"]
    last |= {"case_id": "seven"}
    twice["case_id"] = rows[1]["case_id"]
    path.write_text(json.dumps(rows), "utf-8")
    checked = check(str(path.parent))
    place = len(rows)
    assert told(checked) == [
        ("CounterFact.json", "0", "requested_rewrite[0].subject"),
        ("CounterFact.json", "0", "requested_rewrite[0].target_new"),
        ("CounterFact.json", str(place - 2), "case_id"),
        ("CounterFact.json", str(place - 1), "case_id"),
    ]
    assert [fault.value for fault in checked.faults][2:] == ["'seven'", str(rows[1]["case_id"])]
    assert "the same as in record 1" in checked.faults[-1].problem
    file = next(file for file in checked.files if file.name == "CounterFact.json")
    assert (file.records, file.faults) == (place, 4)
    assert {reading for reading, _, _ in checked.counts} == {"dataset=mquake_cf", "dataset=wiki_update"}


def test_a_fault_that_only_the_conversion_to_a_case_finds_is_named(copy):
    path = copy("counterfact") / "counterfact-edit.json"
    rows = records(path)
    rows[0]["subject"] = "Nobody"
    path.write_text(json.dumps(rows), "utf-8")
    (fault,) = check("counterfact", path.parent).faults
    assert (fault.file, fault.record, fault.field) == ("counterfact-edit.json", "0", "prompt")
    assert "'Nobody' expected in it" in fault.problem and rows[0]["prompt"] in fault.value


def test_a_file_that_is_cut_off_is_read_up_to_the_cut(copy):
    path = copy("elken") / "test.json"
    rows = records(path)
    rows[0]["tendency"]["qas"][0]["answer"] = "D"
    path.write_text(json.dumps(rows)[:-40], "utf-8")
    cut, answer = check("elken", path.parent).faults
    assert cut.file == "test.json" and f"{len(rows) - 1} whole records before it" in cut.problem
    assert cut.record == str(len(rows) - 1)
    assert (answer.record, answer.field, answer.value) == ("0", "tendency.qas[0].answer", "'D'")


def test_elkens_knowledge_questions_are_checked_where_they_are_and_absent_without_fault_where_not(copy):
    folder = copy("elken")
    path = folder / "background_knowledge_qas.json"
    assert [file.name for file in check("elken", folder).files if file.absent] == [path.name]
    assert check("elken", folder).faults == ()
    row = {"question": "Who is the child of Ilse Varn?", "answer": {"id": "NA", "name": "Odd Varn", "alias": []}}
    path.write_text(json.dumps([row, row]), "utf-8")  # what is asked again counts again
    checked = check("elken", folder)
    assert checked.faults == () and ("blocks=knowledge", "cases", 2) in checked.counts
    path.write_text(json.dumps([row, row | {"question": ""}])[:-1], "utf-8")
    cut, empty = check("elken", folder).faults
    assert cut.file == path.name and "2 whole records before it" in cut.problem
    assert (empty.file, empty.record, empty.field) == (path.name, "1", "question")


@pytest.mark.parametrize("name", ["test.json", "train.json"])
def test_a_fault_of_one_file_is_no_fault_of_another_that_is_read_beside_it(copy, name):
    folder = copy("elken")
    row = {"question": "Who is the child of Ilse Varn?", "answer": {"id": "NA", "name": "Odd Varn", "alias": []}}
    (folder / "background_knowledge_qas.json").write_text(json.dumps([row]), "utf-8")
    (folder / name).write_text((folder / name).read_text("utf-8")[:-40], "utf-8")
    assert {fault.file for fault in check("elken", folder).faults} == {name}


@pytest.mark.parametrize(
    ("content", "said"), [(b'{"a": 1}', "a list of records"), (b'["\xff"]', "UTF-8"), (b"[]", "no record")]
)
def test_a_file_that_is_no_list_or_no_text_is_named(copy, content, said):
    folder = copy("elken")
    (folder / "test.json").write_bytes(content)
    (fault,) = check("elken", folder).faults
    assert fault.file == "test.json" and said in fault.problem


def test_faults_between_docters_files_are_named(copy):
    folder = copy("docter")
    documents = records(folder / "en_doc.json")
    lost = documents.pop(0)["id"]
    (folder / "en_doc.json").write_text(json.dumps({"data": documents}), "utf-8")
    asked = [row | {"label": "True"} for row in records(folder / "reasoning_eval.json")]
    (folder / "reasoning_eval.json").write_text(json.dumps({"data": asked}), "utf-8")
    checked = check("docter", folder)
    assert ("edit_success_eval.json", f"id {lost}", "id") in told(checked)
    assert ("reasoning_eval.json", "", "label") in told(checked)


def test_docters_questions_are_checked_to_name_the_subject_of_their_document(copy):
    folder = copy("docter")
    counts = {what: number for reading, what, number in check("docter", folder).counts if not reading}
    assert counts["questions labelled False that name the subject of their document"] == 1
    assert counts["dropped: reasoning questions without a document"] == 1
    rows = records(folder / "reasoning_eval.json")
    moved = [row | {"id": row["id"] + 1} if row["label"] == "False" else row for row in rows]  # ids as one would expect
    facts = records(folder / "gold_facts.json")
    facts.append(facts[0] | {"id": 5})
    (folder / "gold_facts.json").write_text(json.dumps(facts), "utf-8")
    (folder / "reasoning_eval.json").write_text(json.dumps(moved), "utf-8")
    (fault,) = check("docter", folder).faults
    assert fault.field == "id" and "1 of 1 questions labelled False do not name the subject" in fault.problem


def test_a_file_that_is_not_as_it_was_fetched_is_a_fault(copy):
    folder = copy("elken")
    entry = SourceEntry(
        origin="there", licence="MIT", sha256="0" * 64, bytes=1, pinned=False, fetched="2026-01-01T00:00:00+00:00"
    )
    SourceLedger(data="elken").put(folder, "test.json", entry)
    checked = check(str(folder))
    (fault,) = checked.faults
    assert fault.file == "test.json" and "0" * 64 in fault.problem
    there = {file.name: file.checksum for file in checked.files if not file.absent}
    assert there == {"test.json": "changed", "train.json": "not known"}


def test_a_folder_is_known_by_its_sources_its_name_or_its_files(copy, tmp_path):
    folder = copy("mquake")
    assert check(str(folder)).data == "mquake"
    renamed = folder.rename(tmp_path / "downloads")
    (renamed / "datasets").mkdir()
    (renamed / "MQuAKE-T.json").rename(renamed / "datasets/MQuAKE-T.json")
    assert check(str(renamed)).data == "mquake"
    (renamed / LEDGER).write_text(json.dumps({"data": "mquake", "files": {}}), "utf-8")
    shutil.copy(DATA / "recoe/counting.json", renamed)
    assert check(str(renamed)).data == "mquake"
    (renamed / LEDGER).unlink()
    with pytest.raises(BadSettings, match=r"files of (recoe or mquake|mquake or recoe).*--data"):
        check(str(renamed))


def test_nothing_to_check_is_said_with_the_command_that_gets_it(tmp_path):
    with pytest.raises(MissingData, match=r"no folder .*emend data pull akew"):
        check("akew", tmp_path / "nowhere")
    with pytest.raises(MissingData, match=r"contains no file of akew.*emend data pull akew"):
        check("akew", tmp_path)
    with pytest.raises(BadSettings, match="unknown data 'nowhere'"):
        check("nowhere")
    with pytest.raises(BadSettings, match="of an unknown benchmark"):
        check(str(tmp_path))


@pytest.mark.slow
@pytest.mark.skipif(not REAL.is_dir(), reason=f"no real data at {REAL}")
@pytest.mark.parametrize("name", ["akew", "counterfact"])
def test_real_files_have_no_fault(name):
    assert check(name, REAL / name).faults == ()


@pytest.mark.skipif(not REAL.is_dir(), reason=f"no real data at {REAL}")
def test_the_published_prompts_have_the_checksums_of_the_table(tmp_path):
    (tmp_path / "MQuAKE-T.json").symlink_to(DATA / "mquake/MQuAKE-T.json")
    (tmp_path / "prompts").symlink_to(REAL / "mquake/prompts")
    said = {file.name: file.checksum for file in check("mquake", tmp_path).files if file.name.startswith("prompts/")}
    assert len(said) == 6 and set(said.values()) == {"as published"}
