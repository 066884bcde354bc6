"""DocTER's loader: on a hand-made folder in its schema, and on the real files where they lie beside the checkout."""

import json
import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

from emend.evals.benchmarks.docter import DocTER
from emend.evals.benchmarks.docter_rows import (
    DocumentRow,
    EditRow,
    EnglishTests,
    FactRow,
    QueriesRow,
    ReasoningRow,
    cross_case,
    document_edit,
    english_case,
    last_sentence,
    triplet_edit,
)
from emend.evals.benchmarks.registry import BENCHMARKS
from emend.evals.benchmarks.sampling import sample_ids
from emend.evals.case import Case
from emend.memory.errors import BadData, BadSettings, MissingData

FIXTURE = Path(__file__).resolve().parents[2] / "data" / "docter"
SHARED = Path(os.environ.get("EMEND_SHARED") or Path(__file__).resolve().parents[3] / "../shared")
REAL = SHARED / "data" / "docter"
real = pytest.mark.skipif(not REAL.is_dir(), reason=f"no real data at {REAL}")

SUCCESS = EditRow(
    id=5, query="Ann hails from", paraphrase_query=("Fog. Ann is from",), original_target="Peru", altered_target="Chad"
)
LOCALITY = QueriesRow(id=5, query=("Bob hails from", "Bob hails from"), original_target="Peru", altered_target="Chad")
REASONING = ReasoningRow(id=5, src="Does Ann hail from Africa?", label="False")
EDIT = document_edit(DocumentRow(id=5, src="Ann, the juggler, hails from Chad."))


def by_kind(case: Case, kind: str):
    return [probe for probe in case.probes if probe.kind == kind]


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(FIXTURE, tmp_path / "docter"))


def rewrite(folder: Path, name: str, change):
    content = json.loads((folder / name).read_text())
    rows = content["data"] if isinstance(content, dict) else content
    change(rows)
    (folder / name).write_text(json.dumps(content))


# --- rows to cases


def test_rows_become_one_case_with_every_kind_of_probe():
    case = english_case(EDIT, 5, EnglishTests(SUCCESS, LOCALITY, REASONING))
    assert case.edits == (EDIT,)
    assert [p.kind for p in case.probes] == ["efficacy", "paraphrase", "neighborhood", "neighborhood", "reasoning"]
    assert case.tags["docter_id"] == 5
    assert len({p.id for p in case.probes}) == len(case.probes)


def test_a_query_pits_the_new_target_against_the_old():
    (probe,) = by_kind(english_case(EDIT, 5, EnglishTests(SUCCESS)), "efficacy")
    assert (probe.prompt, probe.gold, probe.rival) == ("Ann hails from", ("Chad",), "Peru")
    assert (probe.in_scope, probe.edit_ids, probe.scorers) == (True, (EDIT.id,), ("likelihood",))


def test_a_neighbour_must_keep_the_old_target_and_no_edit_bears_on_it():
    first, second = by_kind(english_case(EDIT, 5, EnglishTests(locality=LOCALITY)), "neighborhood")
    assert (first.gold, first.rival, first.in_scope, first.edit_ids) == (("Peru",), "Chad", False, ())
    assert first.prompt == second.prompt
    assert first.id != second.id


@pytest.mark.parametrize(("label", "gold", "rival"), [("True", "true", "false"), ("False", "false", "true")])
def test_a_reasoning_question_pits_the_label_against_the_other(label, gold, rival):
    row = ReasoningRow(id=5, src=REASONING.src, label=label)
    (probe,) = by_kind(english_case(EDIT, 5, EnglishTests(reasoning=row)), "reasoning")
    assert probe.prompt == "Query: Does Ann hail from Africa? answer: The answer to the query above is"
    assert probe.asked == "Does Ann hail from Africa?"
    assert (probe.gold, probe.rival, probe.scorers) == ((gold,), rival, ("reasoning",))


def test_a_document_gives_nothing_away_but_its_text():
    assert EDIT.text == "Ann, the juggler, hails from Chad."
    assert (EDIT.form, EDIT.subject, EDIT.prompt, EDIT.target_new) == ("document", "", "", "")


def test_a_gold_fact_is_a_triplet_in_one_sentence():
    row = FactRow(id=5, subject="Ann", prompt_template="{} hails from", original_target="Peru", altered_target="Chad")
    edit = triplet_edit(row)
    assert (edit.form, edit.text, edit.cloze) == ("triplet", "Ann hails from Chad.", "Ann hails from")
    assert (edit.target_new, edit.target_true, edit.triplets[0].object) == ("Chad", "Peru", "Chad")


@pytest.mark.parametrize("template", ["Ann hails from", "{} and {} hail from"])
def test_a_template_without_exactly_one_subject_is_refused(template):
    row = FactRow(id=5, subject="Ann", prompt_template=template, original_target="Peru", altered_target="Chad")
    with pytest.raises(BadData, match="id 5, field 'prompt_template'.*Correct"):
        triplet_edit(row)


def test_white_space_around_cross_lingual_queries_is_taken_off():
    row = QueriesRow(id=5, query=(" 安是哪里人？ ",), original_target="秘鲁", altered_target="乍得")
    (probe,) = cross_case(EDIT, row, "en->zh").probes
    assert (probe.kind, probe.prompt, probe.gold, probe.edit_ids) == (
        "cross_lingual",
        "安是哪里人？",
        ("乍得",),
        (EDIT.id,),
    )


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("Fog lay thick. Ann is from", "Ann is from"),
        ("First line\nAnn is from", "Ann is from"),
        ("Fog. What is the twin city of Oslo? It is", "What is the twin city of Oslo? It is"),
        ("It was dull. M. S. Rao plays", "M. S. Rao plays"),
        ("It was dull. St. Moritz lies in", "St. Moritz lies in"),
        ("Ann is from", "Ann is from"),
        ("", ""),
    ],
)
def test_the_last_sentence_is_what_follows_the_unrelated_text(text, last):
    assert last_sentence(text) == last


def test_stripping_the_distractor_changes_what_is_searched_and_not_what_is_asked():
    kept, stripped = (
        by_kind(english_case(EDIT, 5, EnglishTests(SUCCESS), strip_distractor=strip), "paraphrase")[0]
        for strip in (False, True)
    )
    assert kept.prompt == stripped.prompt == kept.asked == "Fog. Ann is from"
    assert stripped.asked == "Ann is from"


# --- the benchmark on the fixture


def test_documents_and_gold_facts_are_asked_the_same():
    benchmark = DocTER(FIXTURE)
    documents, gold = list(benchmark.cases("doc")), list(benchmark.cases("gold"))
    assert [case.edits[0].form for case in documents] == ["document"] * 3
    assert [case.edits[0].form for case in gold] == ["triplet"] * 3
    for one, other in zip(documents, gold, strict=True):
        assert [(p.kind, p.prompt, p.gold) for p in one.probes] == [(p.kind, p.prompt, p.gold) for p in other.probes]


def test_a_query_asked_with_two_targets_and_one_naming_the_answer_are_tagged():
    cases = list(DocTER(FIXTURE).cases("doc"))
    assert ["duplicate_query" in by_kind(case, "efficacy")[0].tags for case in cases] == [False, True, True]
    assert by_kind(cases[2], "neighborhood")[0].tags["names_target"] is True


def test_cases_are_stable_and_survive_json():
    cases = list(DocTER(FIXTURE).cases("doc"))
    assert cases == list(DocTER(FIXTURE).cases("doc"))
    assert [Case.model_validate_json(case.model_dump_json()) for case in cases] == cases


def test_metrics_stand_in_the_papers_order_and_in_percent():
    metrics = DocTER(FIXTURE).metrics()
    names = ["ES", "NEM", "PS", "NPM", "NS", "NNM", "Acc", "hit@1 query", "hit@1 paraphrase"]
    assert [m.name for m in metrics] == names
    assert {m.scale for m in metrics} == {100}


@pytest.mark.parametrize(("blocks", "direction"), [("cross_en_zh", "en->zh"), ("cross_zh_en", "zh->en")])
def test_a_cross_lingual_direction_has_documents_in_one_language_and_queries_in_the_other(blocks, direction):
    benchmark = DocTER(FIXTURE, {"blocks": blocks})
    (case,) = benchmark.cases("doc")
    assert (case.tags["direction"], case.edits[0].language) == (direction, direction[:2])
    assert ("飞行员" in case.edits[0].text) == (direction == "zh->en")
    assert ("飞行员" in case.probes[0].gold) == (direction == "en->zh")
    assert [m.name for m in benchmark.metrics()] == ["CES", "CEM"]


def test_blocks_choose_probes_and_metrics():
    benchmark = DocTER(FIXTURE, {"blocks": "reasoning"})
    cases = list(benchmark.cases("doc"))
    assert [[p.kind for p in case.probes] for case in cases] == [["reasoning"], ["reasoning"]]
    assert [m.name for m in benchmark.metrics()] == ["Acc"]


def test_every_metric_finds_its_probes():
    benchmark = DocTER(FIXTURE, {"blocks": "edit_success,locality,reasoning,cross_en_zh"})
    kinds = {p.kind for case in benchmark.cases("doc") for p in case.probes}
    assert {kind for m in benchmark.metrics() for kind in m.kinds} == kinds


def test_provenance_counts_what_was_dropped_repaired_and_tagged():
    told = DocTER(FIXTURE, {"blocks": "edit_success,locality,reasoning,cross_en_zh"}).provenance
    assert told["cases"] == 4
    assert told["dropped"] == {"reasoning questions without a document": [9]}
    assert list(told["repaired"].values()) == [1]
    assert list(told["tagged"].values()) == [1]
    assert told["reasoning labels"] == {"False": 1, "True": 1}
    assert told["files"]["en_doc.json"]["records"] == 3
    assert "crosslingual_en_doc.json" in told["files"]
    assert all(len(file["sha256"]) == 64 for file in told["files"].values())
    assert json.loads(json.dumps(told)) == told


def test_demonstrations_are_never_about_a_tested_fact():
    benchmark = DocTER(FIXTURE)
    tested = " ".join(probe.prompt for case in benchmark.cases("doc") for probe in case.probes)
    for setting in benchmark.settings:
        shown = benchmark.demonstrations(setting)
        assert [d.kind for d in shown] == ["update", "retain"]
        assert all("Tarnfield Observatory" in d.fact and "Observatory" not in tested for d in shown)
    assert len(benchmark.demonstrations("doc")[0].fact) > len(benchmark.demonstrations("gold")[0].fact)


def test_the_registry_knows_it():
    assert BENCHMARKS.load("docter") is DocTER


# --- what is refused, and how


def test_a_missing_folder_says_what_is_needed_and_where_it_comes_from(tmp_path):
    with pytest.raises(MissingData) as told:
        DocTER(tmp_path / "nowhere")
    for part in ("nowhere", "edit_success_eval.json", "reasoning_eval.json", "git clone https", "--data"):
        assert part in str(told.value)


def test_without_a_folder_the_environment_names_it(folder, monkeypatch):
    monkeypatch.setenv("EMEND_DATA", str(folder.parent))
    assert len(list(DocTER().cases("doc"))) == 3


@pytest.mark.parametrize(("setting", "file"), [("doc", "en_doc.json"), ("gold", "gold_facts.json")])
def test_a_setting_without_its_file_is_named_before_any_case(folder, setting, file):
    (folder / file).unlink()
    benchmark = DocTER(folder)
    with pytest.raises(MissingData, match=file):
        benchmark.cases(setting)
    assert benchmark.provenance["cases"] == 3


@pytest.mark.parametrize("setting", ["llm", "tool"])
def test_unpublished_settings_say_so_and_what_to_use(setting):
    with pytest.raises(BadSettings, match=r"not published: use 'doc' .* or 'gold'"):
        DocTER(FIXTURE).cases(setting)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"blokcs": "locality"}, "did you mean 'blocks'"),
        ({"blocks": "localty"}, "did you mean 'locality'"),
        ({"blocks": " , "}, "at least one"),
        ({"blocks": "edit_success,cross"}, "cross_en_zh or cross_zh_en"),
        ({"blocks": "cross_en_zh,cross_zh_en"}, "its own language"),
        ({"strip_distractor": "maybe"}, "strip_distractor='maybe'"),
    ],
)
def test_impossible_options_are_refused_with_the_remedy(options, said):
    with pytest.raises(BadSettings, match=said):
        DocTER(FIXTURE, options)


@pytest.mark.parametrize(
    ("setting", "limit", "options", "said"),
    [
        ("gould", None, {}, "did you mean 'gold'"),
        ("doc", 0, {}, "limit=0"),
        ("gold", None, {"blocks": "cross_zh_en"}, "English only"),
    ],
)
def test_impossible_requests_are_refused_before_the_first_case(setting, limit, options, said):
    with pytest.raises(BadSettings, match=said):
        DocTER(FIXTURE, options).cases(setting, limit)


@pytest.mark.parametrize(
    ("file", "change", "said"),
    [
        ("en_doc.json", lambda rows: rows[1].update(src=17), r"en_doc.json, record 1, field 'src'.*value 17\."),
        ("en_doc.json", lambda rows: rows[2].pop("src"), r"record 2, field 'src': Field required"),
        ("en_doc.json", lambda rows: rows[2].update(id=1), r"record 2, field 'id': 1 is there twice"),
        ("en_doc.json", lambda rows: rows.pop(0), r"en_doc.json: no record with id 0"),
        ("locality_eval.json", lambda rows: rows[0]["query"].__setitem__(1, ""), r"record 0, field 'query\[1\]'"),
        ("reasoning_eval.json", lambda rows: rows[0].update(label="Maybe"), r"field 'label'.*value 'Maybe'"),
        ("edit_success_eval.json", lambda rows: rows.__setitem__(0, "row"), r"edit_success_eval.json, record 0"),
    ],
)
def test_a_malformed_record_is_named_by_file_record_field_and_value(folder, file, change, said):
    rewrite(folder, file, change)
    with pytest.raises(BadData, match=said):
        list(DocTER(folder).cases("doc"))


@pytest.mark.parametrize(
    ("content", "said"), [("{", "not JSON"), ('{"data": 3}', "a list of records"), ("3", "a list")]
)
def test_a_file_that_holds_no_records_is_named(folder, content, said):
    (folder / "en_doc.json").write_text(content)
    with pytest.raises(BadData, match=f"en_doc.json.*{said}"):
        list(DocTER(folder).cases("doc"))


# --- drawing a few


def sorted_like_the_data():
    ids = list(range(1000))
    return ids, {i: "True" if i < 160 else "False" for i in range(286)}


@pytest.mark.parametrize("limit", [2, 3, 7, 40, 100, 571, 900, 999])
@pytest.mark.parametrize("seed", [0, 1])
def test_half_of_a_sample_has_questions_and_both_labels_in_proportion(limit, seed):
    ids, labels = sorted_like_the_data()
    drawn = sample_ids(ids, labels, limit, seed)
    found = Counter(labels.get(i) for i in drawn)
    asked = found["True"] + found["False"]
    assert len(drawn) == limit == len(set(drawn))
    assert drawn == sorted(drawn)
    assert asked == min(286, max(2, (limit + 1) // 2, limit - 714))
    assert found["True"] >= 1
    assert found["False"] >= 1
    assert abs(found["True"] - asked * 160 / 286) <= 1


def test_a_rare_label_is_not_lost():
    labels = {i: "True" for i in range(50)} | {7: "False"}
    for limit in (2, 4, 10):
        assert 7 in sample_ids(list(range(100)), labels, limit, 0)


def test_where_few_ids_are_without_question_the_others_fill_up():
    labels = {i: "True" if i % 2 else "False" for i in range(80)}
    drawn = sample_ids(list(range(100)), labels, 70, 0)
    assert Counter(labels.get(i) for i in drawn) == {"True": 25, "False": 25, None: 20}


def test_a_sample_depends_on_seed_and_ids_alone():
    ids, labels = sorted_like_the_data()
    assert sample_ids(ids, labels, 50, 0) == sorted(sample_ids(ids[::-1], labels, 50, 0))
    assert sample_ids(ids, labels, 50, 0) != sample_ids(ids, labels, 50, 1)
    assert sample_ids(ids, {}, 50, 0) != ids[:50]
    assert sample_ids(ids, labels, 1000, 0) == ids


# --- the real files


@real
def test_a_hundred_real_cases_are_drawn_evenly_over_labels():
    benchmark = DocTER(REAL)
    cases = list(benchmark.cases("doc", limit=100))
    kinds = Counter(p.kind for case in cases for p in case.probes)
    assert len(cases) == len({case.id for case in cases}) == 100
    assert kinds == {"efficacy": 100, "paraphrase": 200, "neighborhood": 1000, "reasoning": 50}
    labels = Counter(p.tags["label"] for case in cases for p in by_kind(case, "reasoning"))
    told = benchmark.provenance["reasoning labels"]
    assert labels["True"] / 50 == pytest.approx(told["True"] / sum(told.values()), abs=0.02)


@real
@pytest.mark.parametrize("setting", ["doc", "gold"])
def test_all_real_rows_become_cases(setting):
    benchmark = DocTER(REAL)
    cases = list(benchmark.cases(setting))
    rows = {name: file["records"] for name, file in benchmark.provenance["files"].items()}
    kinds = Counter(p.kind for case in cases for p in case.probes)
    orphans = len(benchmark.provenance["dropped"]["reasoning questions without a document"])
    assert len(cases) == rows["edit_success_eval.json"]
    assert kinds["paraphrase"] == 2 * kinds["efficacy"] == 2 * len(cases)
    assert kinds["neighborhood"] == 10 * rows["locality_eval.json"]
    assert kinds["reasoning"] == rows["reasoning_eval.json"] - orphans
    assert all(len({p.id for p in case.probes}) == len(case.probes) for case in cases)


@real
def test_the_gold_facts_state_what_is_asked():
    for case in DocTER(REAL, {"blocks": "edit_success"}).cases("gold", limit=200):
        (probe,) = by_kind(case, "efficacy")
        edit = case.edits[0]
        assert (edit.cloze, edit.target_new, edit.target_true) == (probe.prompt, probe.gold[0], probe.rival)


@real
@pytest.mark.parametrize("blocks", ["cross_en_zh", "cross_zh_en"])
def test_real_cross_lingual_rows_become_cases(blocks):
    benchmark = DocTER(REAL, {"blocks": blocks})
    cases = list(benchmark.cases("doc"))
    assert len(cases) == benchmark.provenance["cases"] > 800
    assert all(len(case.probes) == 3 for case in cases)
    assert all(p.prompt == p.prompt.strip() for case in cases for p in case.probes)
