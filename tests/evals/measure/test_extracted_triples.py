"""Extracted triplets replace the texts they came from; `emend extract` measures their quality."""

import json
import re

import pytest

from emend.evals.data.benchmarks.akew.benchmark import Akew
from emend.evals.data.benchmarks.docter.benchmark import DocTER
from emend.evals.data.benchmarks.docter.cases import common_text
from emend.evals.data.benchmarks.tinyworld import TinyWorld
from emend.evals.data.benchmarks.triples import EXTRACTED, Triples, text_setting, with_triples
from emend.evals.evaluate.resources import load_benchmark
from emend.evals.measure.extraction import documents_of
from emend.memory.errors import BadData, BadSettings, MissingData
from tests.evals.command_line import emend
from tests.evals.made import record, write_run
from tests.evals.results.analyses.computed import analysed, numbers
from tests.paths import DATA

AKEW = DATA / "akew"
DOCTER = AKEW.parent / "docter"


@pytest.mark.parametrize(
    ("benchmark", "setting", "gold"), [(TinyWorld(), "document", "is"), (Akew(AKEW), "unstruct", "")]
)
def test_every_document_has_the_gold_fact_of_its_case(benchmark, setting, gold):
    assert text_setting(benchmark) == setting
    for document in documents_of(benchmark, setting, limit=3):
        assert (
            document.subject
            and document.subject in document.gold
            and not document.gold.endswith(".")
            and gold in document.gold
        )
        assert document.subject.split()[-1] in document.edit.text


BOTH = "edit_success,cross_en_zh"


def test_gold_facts_are_matched_by_the_datas_own_numbers():
    both, cross = (DocTER(DOCTER, {"blocks": blocks}) for blocks in (BOTH, "cross_en_zh"))
    items = [[document.gold for document in documents_of(source, "doc_en_zh", limit=12)] for source in (both, cross)]
    assert items[0] == items[1] and all(items[0])


def test_a_chinese_document_has_its_fact_and_subject_in_chinese():
    (document,) = documents_of(DocTER(DOCTER, {"blocks": "cross_zh_en"}), "doc")
    assert (document.edit.language, document.gold, document.subject) == ("zh", "塔维·莫恩的职业是飞行员", "塔维·莫恩")
    english = documents_of(DocTER(DOCTER, {"blocks": "cross_en_zh"}), "doc")
    assert "塔" not in english[0].gold


@pytest.mark.parametrize(
    ("texts", "shared"),
    [(["甲的职业是", "谁是甲？"], "甲"), (["Ann Lee is", "Is Ann Lee"], "Ann Lee"), (["ab", "cd"], ""), (["ab"], "")],
)
def test_the_subject_is_the_longest_text_that_all_queries_name(texts, shared):
    assert common_text(texts) == shared


@pytest.mark.parametrize(("told", "says"), [("triplet", "no documents"), ("documnt", "did you mean 'document'")])
def test_a_setting_without_texts_is_refused(told, says):
    with pytest.raises(BadSettings, match=says):
        text_setting(TinyWorld(), told)


@pytest.fixture
def tiny_file(tmp_path):
    """The rules' triplets of three documents of the invented world."""
    out = tmp_path / "tiny.jsonl"
    emend("extract", "--benchmark", "tinyworld", "--limit", "3", "--embedding", "lexical", "--out", str(out))
    return out


def test_triplets_replace_the_document_and_the_probes_name_them(tiny_file):
    source = with_triples(TinyWorld(), tiny_file)
    assert source.settings[0] == "extract" and set(EXTRACTED) <= set(source.settings)
    for case, plain in zip(source.cases("extract", 3), TinyWorld().cases("document", 3), strict=True):
        row = Triples(tiny_file).documents[plain.edits[0].id]
        assert [edit.triplets for edit in case.edits] == [(triplet,) for triplet in row.triplets]
        ids = tuple(edit.id for edit in case.edits)
        for probe, old in zip(case.probes, plain.probes, strict=True):
            assert probe.prompt == old.prompt and probe.edit_ids == (ids if old.edit_ids else ())
        for edit in case.edits:
            assert edit.form == "triplet" and edit.cloze and edit.target_new and edit.text.startswith(edit.subject)


@pytest.mark.slow
def test_triplets_of_any_setting_with_texts_replace_its_edits(tmp_path):
    out = tmp_path / "events.jsonl"
    said = ["--benchmark", "tinyworld", "--setting", "event", "--limit", "3", "--embedding", "lexical"]
    assert emend("extract", *said, "--out", str(out)) == 0
    asked = [case.probes[0].prompt for case in with_triples(TinyWorld(), out).cases("extract", 3)]
    assert asked == [case.probes[0].prompt for case in TinyWorld().cases("event", 3)]


def test_other_settings_are_unchanged(tiny_file):
    source = with_triples(TinyWorld(), tiny_file)
    assert list(source.cases("triplet", 2)) == list(TinyWorld().cases("triplet", 2))
    assert source.name == "tinyworld" and source.metrics() == TinyWorld().metrics()
    assert source.demonstrations("extract") and source.demonstrations("document")


def test_a_run_records_where_the_triplets_came_from(tiny_file):
    source, settings = load_benchmark("tinyworld", None, {"triples": str(tiny_file)})
    assert settings == ("extract",)
    provenance = source.provenance["triples"]
    assert provenance["method"] == "rules" and provenance["documents"] == 3 and len(provenance["sha256"]) == 64


def test_a_missing_document_or_file_and_a_setting_of_another_method_are_refused(tiny_file):
    with pytest.raises(BadData, match="no line for document.*without --limit"):
        list(with_triples(TinyWorld(), tiny_file).cases("extract", 4))
    with pytest.raises(BadSettings, match="made with method 'rules'.*'tool'"):
        list(with_triples(TinyWorld(), tiny_file).cases("llm", 3))
    assert list(with_triples(TinyWorld(), tiny_file).cases("tool", 3))
    with pytest.raises(MissingData, match="emend extract --out no.jsonl"):
        Triples("no.jsonl")


@pytest.mark.slow
def test_a_file_of_each_method_gives_both_settings_in_one_run(tiny_file, tmp_path):
    by_model = tmp_path / "llm.jsonl"
    by_model.write_text(tiny_file.read_text().replace('"method":"rules"', '"method":"llm"').replace("Osric", "Odric"))
    both = f"{tiny_file},{by_model}"
    source = with_triples(TinyWorld(), both)
    for setting, file in (("tool", tiny_file), ("llm", by_model)):
        assert list(source.cases(setting, 3)) == list(with_triples(TinyWorld(), file).cases(setting, 3))
    assert [each["method"] for each in source.provenance["triples"]] == ["rules", "llm"]
    for setting, files in (("extract", both), ("tool", f"{tiny_file},{tiny_file}")):
        with pytest.raises(BadSettings, match=f"setting '{setting}' of tinyworld with the files 'tiny.jsonl' .rules."):
            with_triples(TinyWorld(), files).cases(setting, 3)


@pytest.mark.slow
def test_the_command_prints_the_same_table_again_without_work(tmp_path, capsys):
    arguments = [*"--benchmark tinyworld --limit 4 --embedding lexical --out".split(), str(tmp_path / "t.jsonl")]
    assert emend("extract", *arguments) == 0
    first = capsys.readouterr().out
    assert emend("extract", *arguments) == 0
    second = capsys.readouterr().out
    assert re.search(r"triples per document +\d\.\d\d ", first), "two decimals"
    assert "recall" in first and "[95 % intervals" in first and "--benchmark-option triples=" in first
    assert second.replace("; 4 of these documents existed before", "") == first != second


def test_the_analysis_of_a_run_on_a_file_reads_the_documents_of_that_run(tmp_path, capsys):
    file, common = str(tmp_path / "t.jsonl"), ["--benchmark", "docter", "--data", str(DOCTER), "--embedding", "lexical"]
    assert emend("extract", *common, "--benchmark-option", f"blocks={BOTH}", "--json", "--out", file) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    options = {"blocks": BOTH, "triples": file}
    run = write_run(tmp_path / "run", [record("1")], data=str(DOCTER), benchmark_options=options)
    by_label = {label: mean for (label, _), (mean, _) in numbers(analysed("triples", run, embedding="lexical")).items()}
    assert by_label["per document"] == row["per_document"]["mean"] > 0
    for name in ("recall", "precision", "f1"):
        assert by_label[name] == pytest.approx(100 * row[name]["mean"])


def test_the_command_gives_rows_as_json(tmp_path, capsys):
    arguments = ["--benchmark", "akew", "--data", str(AKEW), "--embedding", "lexical", "--json"]
    assert emend("extract", *arguments, "--out", str(tmp_path / "t.jsonl")) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["method"] == "rules" and {"mean", "n", "unscored", "low", "high"} <= row["recall"].keys()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--benchmark", "tinyworld", "--method", "ruels"), "did you mean 'rules'"),
        (("--benchmark", "tinyworld", "--method", "llm"), "needs a model"),
        (
            ("--benchmark", "tinyworld", "--reply-format", "lines"),
            "method 'rules' calls no chat model, so --reply-format lines",
        ),
        (("--benchmark", "tinyworld", "--method", "rules", "--reply-format", "json"), "choose --method llm"),
        (("--benchmark", "tinyworld", "--validation", "ends"), "unknown validation"),
        (("--benchmark", "tinyworld", "--setting", "triplet"), "no documents"),
        (("--benchmark", "tinywrld"), "did you mean 'tinyworld'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(tmp_path, capsys, arguments, says):
    assert emend("extract", *arguments, "--embedding", "lexical", "--out", str(tmp_path / "t.jsonl")) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1 and not list(tmp_path.glob("*.jsonl"))
