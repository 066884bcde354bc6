"""A run beside a table: the right figures side by side, and everything that is not alike said."""

from pathlib import Path

import pytest

from emend.evals.log.lines import RECORDS
from emend.evals.log.manifest import CaseList, Manifest
from emend.evals.papers.compare_published import PublishedComparison, PublishedLine, against
from emend.memory.errors import BadSettings
from tests.evals.papers.runs import EDITED, MQUAKE, akew_run, percent, write_run


def line_of(found: PublishedComparison, method: str = "", editor: str = "") -> PublishedLine:
    (line,) = [line for line in found.lines if (line.method, line.editor) == (method, editor)]
    return line


def test_the_same_method_and_setting_stand_side_by_side(tmp_path: Path) -> None:
    found = against(akew_run(tmp_path), "akew:2")
    line = line_of(found, "IKE (single)", "ike")
    assert (line.data, line.setting, line.metric) == ("MQuAKE-CF", "struct", "editing accuracy")
    assert line.published == {"GPT2-XL": 82.80, "GPT-J (6B)": 88.76, "Mistral (7B)": 98.17}
    assert (line.mean, line.n, line.published_n) == (75.0, 4, 436)
    assert line.low is not None and line.high is not None and line.low <= 75 <= line.high
    assert line_of(found, "FT", "ft").mean == 50


def test_what_has_no_counterpart_is_published_only_or_run_only(tmp_path: Path) -> None:
    found = against(akew_run(tmp_path), "akew:2")
    assert [(line.method, line.editor) for line in found.lines] == [
        ("FT", "ft"),
        ("LoRA", ""),
        ("ROME", ""),
        ("MEMIT", ""),
        ("IKE (single)", "ike"),
        ("IKE (all)", ""),
        ("", "unedited"),
    ]
    assert line_of(found, "LoRA").published["GPT-J (6B)"] == 76.15 and line_of(found, "LoRA").mean is None
    assert line_of(found, "", "unedited").mean == 0 and line_of(found, "", "unedited").published == {}
    assert "in the table and not in this run: CounterFact, MQuAKE-CF unstruct, MQuAKE-CF extract, WikiUpdate" in (
        found.notes
    )
    assert "in this run and not in the table: EditAcc distinct, MultiHop" in found.notes


def test_the_mode_decides_method_and_count(tmp_path: Path) -> None:
    """All edits at once: another method, over edits counted once; FT is edited one at a time in the paper."""
    found = against(akew_run(tmp_path, "all"), "akew:2")
    line = line_of(found, "IKE (all)", "ike")
    assert (line.mean, line.n, line.published_n) == (50.0, 2, 337)
    assert line_of(found, "FT").mean is None and line_of(found, "IKE (single)").mean is None


def test_the_data_set_decides_the_column(tmp_path: Path) -> None:
    wiki = {"dataset": "wiki_update", "ask": "cloze"}
    found = against(akew_run(tmp_path, options=wiki), "akew:2")
    assert {line.data for line in found.lines} == {"WikiUpdate"}
    assert line_of(found, "IKE (single)", "ike").published["GPT2-XL"] == 97.38


def test_another_table_takes_another_metric(tmp_path: Path) -> None:
    found = against(akew_run(tmp_path), "akew:3")
    assert line_of(found, "FT", "ft").published == {"GPT2-XL": 3.34, "GPT-J (6B)": 3.11, "Mistral (7B)": 5.37}
    assert line_of(found, "MeLLo (all)").published == {"GPT-J (6B)": 14.97, "Mistral (7B)": 32.49}


def test_an_editor_is_known_by_what_it_is_and_not_by_its_name(tmp_path: Path) -> None:
    found = against(akew_run(tmp_path, editors={"ike": "unedited", "ft": "ike"}), "akew:2")
    assert line_of(found, "IKE (single)", "ft").mean == 50
    assert line_of(found, "", "ike").mean == 75


def test_docters_settings_and_directions_are_kept_apart(tmp_path: Path) -> None:
    metrics = percent("ES", "CES")
    told = {("ike", "ES"): [1.0], ("ike", "CES"): [0.0]}
    folder = write_run(
        tmp_path / "run", "docter", metrics, {"doc": told, "gold": told}, options={"blocks": "edit_success,cross_zh_en"}
    )
    lines = [line for line in against(folder, "docter:3").lines if line.editor]
    assert [(line.setting, line.method, line.published["LLaMA3.1-8B"]) for line in lines] == [
        ("doc", "IKE(D)", 88.30),
        ("gold", "IKE", 99.30),
    ]
    crossed = [line for line in against(folder, "docter:5").lines if line.editor]
    assert [(line.data, line.method, line.published["InternLM-7B"]) for line in crossed] == [
        ("zh->en", "IKE(D)", 50.64),
        ("zh->en", "IKE", 81.83),
    ]


def test_elkens_retrieval_is_named_by_the_retriever(tmp_path: Path) -> None:
    told = {"event": {("rag", "Fact Q"): [1.0], ("in_context", "Fact Q"): [1.0]}}
    options = {"split": "test", "blocks": "fact"}
    for retriever, method in (("bm25", "Sparse Retrieval"), ("dense", "Dense Retrieval"), ("hybrid", "")):
        folder = write_run(tmp_path / retriever, "elken", percent("Fact Q"), told, options=options, retriever=retriever)
        assert line_of(against(folder, "elken:2"), method, "rag").mean == 100
    assert line_of(against(folder, "elken:3"), "ICE", "in_context").published["GPT-4"] == 73.5
    train = write_run(tmp_path / "train", "elken", percent("Fact Q"), told, options=options | {"split": "train"})
    with pytest.raises(BadSettings, match="no number of the run"):
        against(train, "elken:2")


ICE_DIFFERS = "ICE: out of scope the run shows the nearest event"
MELLO_DIFFERS = "MeLLo: published with Contriever"


@pytest.mark.parametrize(
    "mode, settings, has_note",
    [
        ("all", {"own_event": True}, False),
        ("all", {"own_event": False}, True),
        ("single", {}, False),
        ("all", {}, True),
    ],
)
def test_another_event_out_of_scope_is_said_beside_ice(tmp_path: Path, mode, settings, has_note) -> None:
    told = {"event": {("in_context", "Fact Q"): [1.0]}}
    options = {"split": "test", "blocks": "fact"}
    folder = write_run(tmp_path / "run", "elken", percent("Fact Q"), told, mode=mode, options=options)
    manifest = Manifest.read(folder)
    fingerprint = {"editor": "in_context"} | ({"settings": settings} if settings else {})
    manifest.model_copy(update={"editors": {"event": {"in_context": fingerprint}}}).write(folder)
    assert any(note.startswith(ICE_DIFFERS) for note in against(folder, "elken:3").notes) == has_note


@pytest.mark.parametrize("embedding, has_note", [("auto", True), ("facebook/contriever-msmarco", False)])
def test_another_retriever_is_said_beside_mello(tmp_path: Path, embedding, has_note) -> None:
    told = {"struct": {("mello", "MultiHop"): [1.0]}}
    folder = write_run(
        tmp_path / "run", "akew", percent("MultiHop"), told, mode="all", options=MQUAKE, embedding=embedding
    )
    assert any(note.startswith(MELLO_DIFFERS) for note in against(folder, "akew:3").notes) == has_note


def test_recoes_unedited_accuracy_stands_there_once(tmp_path: Path) -> None:
    told = {"atomic": {(e, m): [1.0] for e in ("in_context", "rag") for m in ("counting", "before counting")}}
    folder = write_run(
        tmp_path / "run", "recoe", percent("counting", "before counting"), told, options={"prompting": "direct"}
    )
    (before,) = [line for line in against(folder, "recoe:3").lines if line.editor]
    assert (before.method, before.data, before.setting, before.published_n) == ("unedited", "counting", "direct", 643)
    flips = against(folder, "recoe:4")
    assert line_of(flips, "InputAug", "in_context").published["Tulu 33B"] == 23.08
    assert "data: the paper does not say what its figures are over" in flips.notes


def test_recoes_prompting_decides_the_row_and_the_edits_form_the_method(tmp_path: Path) -> None:
    told = {form: {("memit", "counting"): [1.0], ("qlora", "counting"): [0.0]} for form in ("atomic", "triple")}
    folder = write_run(tmp_path / "run", "recoe", percent("counting"), told, options={"prompting": "cot"})
    lines = [line for line in against(folder, "recoe:4").lines if line.editor and line.method]
    assert [(line.setting, line.method, line.editor, line.published["Tulu 7B"]) for line in lines] == [
        ("CoT", "QLoRA", "qlora", 8.37),
        ("CoT", "MEMIT", "memit", 5.32),
    ]


def test_forms_of_edits_that_the_paper_does_not_tell_apart_stand_under_each_other(tmp_path: Path) -> None:
    told = {form: {("in_context", "counting"): values} for form, values in (("atomic", [1.0]), ("sentence", [0.0]))}
    folder = write_run(tmp_path / "run", "recoe", percent("counting"), told, options={"prompting": "direct"})
    found = against(folder, "recoe:4")
    ours = [(line.method, line.run_setting, line.mean) for line in found.lines if line.editor]
    assert ours == [("InputAug", "atomic", 100), ("InputAug", "sentence", 0)]
    assert {line.published["Tulu 7B"] for line in found.lines if line.editor} == {23.53}


def test_recoes_perplexities_are_no_percentages(tmp_path: Path) -> None:
    metrics = [metric.model_copy(update={"scale": 1.0}) for metric in percent("PPL F after")]
    told = {"atomic": {("qlora", "PPL F after"): [20.5]}}
    folder = write_run(tmp_path / "run", "recoe", metrics, told, options={"prompting": "direct"})
    line = line_of(against(folder, "recoe:6"), "QLoRA", "qlora")
    assert (line.mean, line.unit, line.data, line.published["Tulu 7B"]) == (20.5, "perplexity", "average", 18.53)


def test_both_directions_of_docter_are_told_apart_by_their_settings(tmp_path: Path) -> None:
    told = {("ike", "CES"): [1.0]}
    both = {"blocks": "cross_en_zh,cross_zh_en"}
    folder = write_run(tmp_path / "run", "docter", percent("CES"), {"doc_en_zh": told, "doc_zh_en": told}, options=both)
    found = against(folder, "docter:5")
    assert "data differ: what was asked, run of paper: en->zh CES 1 of 3,000; zh->en CES 1 of 3,000" in found.notes
    lines = [line for line in found.lines if line.editor]
    assert [(line.data, line.setting, line.published["ChatGPT"]) for line in lines] == [
        ("en->zh", "doc", 57.22),
        ("zh->en", "doc", 53.17),
    ]


def test_replies_stand_in_where_there_are_no_probabilities(tmp_path: Path) -> None:
    """ES has no number, so the share of replies is put beside ES, and that is said."""
    metrics, told = percent("ES", "ES text"), {"doc": {("ike", "ES text"): [1.0, 0.0]}}
    options = {"blocks": "edit_success"}
    folder = write_run(tmp_path / "run", "docter", metrics, told, options=options, unscored={"ES": "no probabilities"})
    found = against(folder, "docter:3")
    assert line_of(found, "IKE(D)", "ike").mean == 50
    assert any(note.startswith("replies: ") for note in found.notes)
    told = {"doc": {("ike", "ES"): [1.0], ("ike", "ES text"): [1.0, 0.0]}}
    local = against(write_run(tmp_path / "local", "docter", metrics, told, options=options), "docter:3")
    assert line_of(local, "IKE(D)", "ike").mean == 100
    assert not any(note.startswith("replies: ") for note in local.notes)


def test_a_share_becomes_percent(tmp_path: Path) -> None:
    metrics = [metric.model_copy(update={"scale": 1.0}) for metric in EDITED]
    folder = write_run(
        tmp_path / "run", "akew", metrics, {"struct": {("ike", "EditAcc"): [1.0, 0.0]}}, mode="single", options=MQUAKE
    )
    assert line_of(against(folder, "akew:2"), "IKE (single)", "ike").mean == 50


# What differs is said


def test_the_embedded_model_always_differs(tmp_path: Path) -> None:
    (note, *_) = against(akew_run(tmp_path), "akew:2").notes
    assert note.startswith("model differs: the run has tiny") and "GPT2-XL, GPT-J (6B), Mistral (7B)" in note


def test_a_model_of_the_papers_name_is_said_to_be_no_more_than_that(tmp_path: Path) -> None:
    found = against(akew_run(tmp_path, model="hf:/models/gpt2-xl"), "akew:2")
    assert found.notes[0] == (
        "model: hf:/models/gpt2-xl has the name of the paper's GPT2-XL; whether the weights are the same is unknown"
    )
    assert line_of(found, "IKE (single)", "ike").same_model == "GPT2-XL"


def test_fewer_cases_a_sample_and_the_papers_examples_are_said(tmp_path: Path) -> None:
    found = against(akew_run(tmp_path, limit=4, provenance={"paper's examples only": True}), "akew:2")
    assert "data differ: the run has only the examples that the paper prints" in found.notes
    assert "data differ: the run has a sample, --limit 4" in found.notes
    assert any(note.startswith("data differ: what was asked, run of paper: editing accuracy") for note in found.notes)


@pytest.mark.parametrize(("mode", "start"), [("single", "IKE: Emend shows d"), ("all", "IKE over all edits: Emend s")])
def test_the_demonstrations_of_ike_are_said_beside_its_published_figures(tmp_path: Path, mode: str, start: str) -> None:
    notes = against(akew_run(tmp_path, mode), "akew:2").notes
    assert any(note.startswith(start) for note in notes), notes


def test_as_many_cases_are_not_called_the_same_cases(tmp_path: Path) -> None:
    told = {"struct": {("ike", "EditAcc"): [1.0] * 436}}
    folder = write_run(tmp_path / "run", "akew", EDITED, told, mode="single", options=MQUAKE)
    notes = against(folder, "akew:2").notes
    assert "data: as many questions as in the paper; whether they are the same is not checked" in notes
    assert not any(note.startswith("data differ") for note in notes)


def test_an_unfinished_run_says_so(tmp_path: Path) -> None:
    folder = akew_run(tmp_path)
    done = len((folder / RECORDS).read_text(encoding="utf-8").splitlines())
    manifest = Manifest.read(folder)
    more = CaseList(cases=50, probes=50, digest="0")
    manifest.model_copy(update={"cases": {"struct": more}}).write(folder)
    assert f"the run is unfinished: 0 units failed, {3 * 50 - done} are missing" in against(folder, "akew:2").notes


# Bad input


def test_another_benchmarks_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="docter:2 is of the benchmark docter, the run .* of akew"):
        against(akew_run(tmp_path), "docter:2")


def test_a_table_without_anything_in_common_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match=r"no number of the run .* corresponds to akew:4"):
        against(akew_run(tmp_path), "akew:4")
