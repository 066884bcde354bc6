"""DocTER's loader: on a hand-made folder in its schema, and on the real files where they lie beside the checkout."""

import json
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from emend.editors.memory_based.in_context import FactSelector
from emend.evals.case import Case
from emend.evals.data.benchmarks.docter.benchmark import DocTER
from emend.evals.data.benchmarks.docter.cases import EnglishTests, cross_case, english_case
from emend.evals.data.benchmarks.docter.rows import (
    DocumentRow,
    EditRow,
    GoldFactRow,
    QueriesRow,
    ReasoningRow,
    last_sentence,
)
from emend.evals.metrics.scorers import ask_of, score
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import BadData, BadSettings
from emend.memory.probe import Answer
from emend.memory.retrieval.base import Entry
from emend.memory.retrieval.exact import ExactCorpus, QueryVectors
from emend.memory.retrieval.gold import GoldRetriever
from tests.paths import DATA, SHARED

FIXTURE = DATA / "docter"
REAL = SHARED / "data" / "docter"
real = pytest.mark.skipif(not REAL.is_dir(), reason=f"no real data at {REAL}")


SUCCESS = EditRow(
    id=5, query="Ann hails from", paraphrase_query=("Fog. Ann is from",), original_target="Peru", altered_target="Chad"
)
LOCALITY = QueriesRow(id=5, query=("Bob hails from", "Bob hails from"), original_target="Peru", altered_target="Chad")
REASONING = ReasoningRow(id=5, src="Does Ann hail from Africa?", label="False")
EDIT = DocumentRow(id=5, src="Ann, the juggler, hails from Chad.").edit()


def by_kind(case: Case, kind: str):
    return [probe for probe in case.probes if probe.kind == kind]


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(FIXTURE, tmp_path / "docter"))


def test_documents_and_gold_facts_are_asked_the_same():
    benchmark = DocTER(FIXTURE)
    documents, gold = list(benchmark.cases("doc")), list(benchmark.cases("gold"))
    assert [case.edits[0].form for case in documents] == ["document"] * 3
    assert [case.edits[0].form for case in gold] == ["triplet"] * 3
    for one, other in zip(documents, gold, strict=True):
        assert [(p.kind, p.prompt, p.gold) for p in one.probes] == [(p.kind, p.prompt, p.gold) for p in other.probes]


def test_queries_are_tagged_metrics_find_their_probes_and_a_document_gives_nothing_away():
    cases = list(DocTER(FIXTURE).cases("doc"))
    assert [by_kind(case, "efficacy")[0].tags.get("duplicate_query") for case in cases] == [None, True, True]
    assert by_kind(cases[2], "neighborhood")[0].tags["names_target"] is True
    benchmark = DocTER(FIXTURE, {"blocks": "edit_success,locality,reasoning,cross_en_zh"})
    kinds = {p.kind for case in benchmark.cases("doc") for p in case.probes}
    assert {kind for m in benchmark.metrics() for kind in m.kinds} == kinds
    assert EDIT.text == "Ann, the juggler, hails from Chad."
    assert (EDIT.form, EDIT.subject, EDIT.prompt, EDIT.target_new) == ("document", "", "", "")


PAIRS = ["ES", "NEM", "PS", "NPM", "NS", "NNM"]


def test_metrics_stand_in_the_papers_order_and_in_percent():
    metrics = DocTER(FIXTURE).metrics()
    assert [m.name for m in metrics if not m.group] == [*PAIRS, "Acc"]
    assert [m.name for m in metrics if m.group][:3] == ["Acc True", "Acc False", "always True"]
    assert [m.name for m in metrics if m.value.endswith("_code")] == [f"{name} code" for name in PAIRS]
    assert [m.name for m in metrics if m.value == "generated"] == ["ES text", "PS text", "NS text"]
    assert [m.name for m in metrics][-2:] == ["hit@1 query", "hit@1 paraphrase"]
    assert {m.scale for m in metrics} == {100}


@pytest.mark.parametrize(("blocks", "direction"), [("cross_en_zh", "en->zh"), ("cross_zh_en", "zh->en")])
def test_a_cross_lingual_direction_has_documents_in_one_language_and_queries_in_the_other(blocks, direction):
    benchmark = DocTER(FIXTURE, {"blocks": blocks})
    (case,) = benchmark.cases("doc")
    assert (case.tags["direction"], case.edits[0].language) == (direction, direction[:2])
    assert ("飞行员" in case.edits[0].text) == (direction == "zh->en")
    assert ("飞行员" in case.probes[0].gold) == (direction == "en->zh")
    assert [m.name for m in benchmark.metrics()] == ["CES", "CEM", "CES code", "CEM code", "CES text"]


BOTH = {"blocks": "cross_en_zh,cross_zh_en"}


def test_both_directions_are_asked_in_one_run_and_stand_apart():
    benchmark = DocTER(FIXTURE, BOTH)
    for setting, language in (("doc_en_zh", "en"), ("doc_zh_en", "zh")):
        found = list(benchmark.cases(setting))
        assert {edit.language for case in found for edit in case.edits} == {language}
    assert benchmark.provenance["cases"] == 2


@pytest.mark.parametrize("setting", ["doc", "gold"])
def test_both_directions_are_refused_in_one_memory_with_the_settings_that_part_them(setting):
    with pytest.raises(BadSettings, match="its own language.*--setting doc_en_zh --setting doc_zh_en"):
        DocTER(FIXTURE, BOTH).cases(setting)


def test_a_direction_is_asked_of_its_own_block_alone():
    with pytest.raises(BadSettings, match="add it to the blocks"):
        DocTER(FIXTURE, {"blocks": "cross_en_zh"}).cases("doc_zh_en")
    mixed = list(DocTER(FIXTURE, {"blocks": "edit_success,cross_en_zh"}).cases("doc_en_zh"))
    assert {case.tags["direction"] for case in mixed} == {"en->zh"}


def test_a_model_without_probabilities_is_read_and_one_with_them_is_not_asked_for_text():
    case = next(DocTER(FIXTURE).cases("doc"))
    (query,), neighbour = by_kind(case, "efficacy"), by_kind(case, "neighborhood")[0]
    assert ask_of(query, scorable=True)[:2] == (False, (query.gold[0], query.rival))
    assert ask_of(query, scorable=False)[:2] == (True, ())
    for probe in (query, neighbour):
        said = {text: score(probe, Answer(text=text)).values for text in (probe.gold[0], probe.rival or "", "Nobody")}
        assert list(said.values()) == [{"generated": 1.0}, {"generated": 0.0}, {"generated": 0.0}]
        assert "generated" not in score(probe, Answer(text=probe.gold[0], log_probs=(-1.0, -2.0))).values
    assert score(query, Answer(text=query.gold[0])).unscored.keys() == {"success", "magnitude"}


def test_both_the_sound_and_the_codes_own_numbers_come_from_one_answer():
    case = next(DocTER(FIXTURE).cases("doc"))
    (query,), neighbour = by_kind(case, "efficacy"), by_kind(case, "neighborhood")[0]
    assert score(query, Answer(log_probs=(-800.0, -900.0))).values == {
        "success": 1.0,
        "magnitude": pytest.approx(1 / 9),
        "success_code": 0.0,  # both have underflowed
        "magnitude_code": 0.0,
    }
    certain = score(neighbour, Answer(log_probs=(-2e-13, -3e-13))).values
    assert abs(certain["magnitude"]) < 1 < abs(certain["magnitude_code"])  # the code's eps


def test_reasoning_is_scored_by_label_too_beside_what_a_constant_answer_gets():
    probes = [probe for case in DocTER(FIXTURE, {"blocks": "reasoning"}).cases("doc") for probe in case.probes]
    told = [score(probe, Answer(text="True")).values for probe in probes]
    assert told == [{"acc": 1.0, "acc_true": 1.0, "constant": 1.0}, {"acc": 0.0, "acc_false": 0.0, "constant": 0.0}]


def test_a_false_question_is_about_the_document_of_the_next_id(folder):
    """As published, a False question stands at its document's id less one; joined by id it met a stranger's edit."""
    cases = {case.tags["docter_id"]: by_kind(case, "reasoning") for case in DocTER(folder).cases("doc")}
    assert {number: [p.query for p in probes] for number, probes in cases.items()} == {
        0: ["Is the mother tongue of Orla Tamsett an official language of Cyprus?"],
        1: [],
        4: ["Does the twin city of Quellmouth lie on the Tagus?"],
    }
    rows = json.loads((folder / "reasoning_eval.json").read_text("utf-8"))["data"]
    (folder / "reasoning_eval.json").write_text(json.dumps([*rows, rows[0] | {"id": 4}]), "utf-8")
    with pytest.raises(BadData, match="ids 3 and 4, field 'id': both are about document 4"):
        DocTER(folder).cases("doc")


def test_choices_and_questions_without_a_document_are_said_beside_the_results():
    choices = DocTER(FIXTURE).provenance["choices"]
    assert "log space" in " ".join(choices) and "retrieval" in " ".join(choices)
    assert choices[-1].startswith("docter: 1 reasoning questions are left out")
    assert len(DocTER(FIXTURE, {"blocks": "locality"}).provenance["choices"]) == 2


@pytest.mark.slow
@real
def test_every_real_false_question_is_shown_its_own_document_by_the_oracles():
    """Subjects are those of `gold_facts.json`; the last five spell theirs otherwise, as in 'Nousiaine'."""
    facts = json.loads((REAL / "gold_facts.json").read_text("utf-8"))["data"]
    subjects = {row["id"]: row["subject"].casefold() for row in facts}
    cases = list(DocTER(REAL).cases("doc"))
    documents = {case.edits[0].id: case.tags["docter_id"] for case in cases}
    edits = [case.edits[0] for case in cases]
    entries = [Entry(id=edit.id, edit_id=edit.id, text=edit.text) for edit in edits]
    unread = np.zeros((len(entries), 1), np.float32)
    show, gold = FactSelector(edits), GoldRetriever(ExactCorpus(entries, unread, QueryVectors(LexicalEmbedding())))
    texts = {edit.text: edit.id for edit in edits}
    named = {"True": [0, 0], "False": [0, 0]}
    for probe in (probe for case in cases for probe in by_kind(case, "reasoning")):
        (text,), (hit,) = show(probe), gold.search_probe(probe, 2)
        assert texts[text] == hit.entry.edit_id == probe.edit_ids[0]
        named[str(probe.tags["label"])][subjects[documents[probe.edit_ids[0]]] in probe.query.casefold()] += 1
    assert named == {"True": [2, 270], "False": [5, 180]}


def test_blocks_choose_probes_and_metrics():
    benchmark = DocTER(FIXTURE, {"blocks": "reasoning"})
    cases = list(benchmark.cases("doc"))
    assert [[p.kind for p in case.probes] for case in cases] == [["reasoning"], ["reasoning"]]
    assert [m.name for m in benchmark.metrics()] == ["Acc", "Acc True", "Acc False", "always True"]


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
        assert [d.kind for d in shown] == ["update", "retain"], setting
        assert all("Tarnfield Observatory" in d.fact and "Observatory" not in tested for d in shown)
    assert len(benchmark.demonstrations("doc")[0].fact) > len(benchmark.demonstrations("gold")[0].fact)


def test_rows_become_one_case_with_every_kind_of_probe():
    case = english_case(EDIT, 5, EnglishTests(SUCCESS, LOCALITY, REASONING))
    assert case.edits == (EDIT,)
    assert [p.kind for p in case.probes] == ["efficacy", "paraphrase", "neighborhood", "neighborhood", "reasoning"]
    assert case.tags["docter_id"] == 5
    assert len({p.id for p in case.probes}) == len(case.probes)


def test_a_query_pits_the_new_target_against_the_old():
    (probe,) = by_kind(english_case(EDIT, 5, EnglishTests(SUCCESS)), "efficacy")
    assert (probe.prompt, probe.gold, probe.rival) == ("Ann hails from", ("Chad",), "Peru")
    assert (probe.in_scope, probe.edit_ids, probe.scorers) == (
        True,
        (EDIT.id,),
        ("likelihood", "likelihood_code", "generation"),
    )


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
    assert probe.retrieval_query == "Does Ann hail from Africa?"
    assert (probe.gold, probe.rival, probe.scorers) == ((gold,), rival, ("reasoning",))


def test_a_gold_fact_is_a_triplet_in_one_sentence():
    fields = {"subject": "Ann", "original_target": "Peru", "altered_target": "Chad"}
    edit = GoldFactRow(id=5, prompt_template="{} hails from", **fields).edit()
    assert (edit.form, edit.text, edit.cloze) == ("triplet", "Ann hails from Chad.", "Ann hails from")
    assert (edit.target_new, edit.target_true, edit.triplets[0].object) == ("Chad", "Peru", "Chad")


@pytest.mark.parametrize("template", ["Ann hails from", "{} and {} hail from"])
def test_a_template_without_exactly_one_subject_is_refused(template):
    fields = {"subject": "Ann", "original_target": "Peru", "altered_target": "Chad"}
    with pytest.raises(ValueError, match=r"prompt_template\n.*exactly one \{\}"):
        GoldFactRow(id=5, prompt_template=template, **fields)


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
    assert kept.prompt == stripped.prompt == kept.retrieval_query == "Fog. Ann is from"
    assert stripped.retrieval_query == "Ann is from"


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


@pytest.mark.slow
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
