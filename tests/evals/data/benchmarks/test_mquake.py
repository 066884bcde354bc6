"""MQuAKE's loader: on a hand-made folder in its schema, and on the real files where they lie beside the checkout."""

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from emend.evals.case import Case
from emend.evals.config.measure_config import ScopeConfig
from emend.evals.data.benchmarks.mquake import ChainRow, MQuAKE
from emend.evals.data.benchmarks.rows import ASKED_BY_OTHER, contaminated_ids, read_numbered
from emend.evals.measure.training import questions_of
from emend.evals.metrics.estimate import estimate
from emend.evals.metrics.scorers import score
from emend.evals.metrics.text.exact import strict_match
from emend.memory.probe import Answer
from tests.paths import DATA, SHARED

FIXTURE = DATA / "mquake"
REAL = SHARED / "data" / "mquake"
AKEW = SHARED / "data" / "akew" / "mquake_cf.json"
real = pytest.mark.skipif(not REAL.is_dir(), reason=f"no real data at {REAL}")


def cases_of(options=None, folder=FIXTURE, **more):
    """All cases of the one setting, or those that `more` asks for."""
    return list(MQuAKE(folder, options or {}).cases("triplet", **more))


def kinds(case: Case):
    return [probe.kind for probe in case.probes]


def of_kind(case: Case, kind: str):
    return [probe for probe in case.probes if probe.kind.startswith(kind)]


def test_a_record_becomes_its_edits_its_unedited_hops_and_its_questions():
    first, second, third = cases_of()
    assert kinds(second) == ["efficacy", "efficacy", "multihop", "multihop", "multihop"]
    assert kinds(third) == ["efficacy", "hop", "hop", "multihop", "multihop", "multihop"]
    assert [edit.text for edit in second.edits] == [
        "Bram Oake is a citizen of Iceland.",
        "The capital of Iceland is Lima.",
    ]
    assert first.tags == {"case_id": 7, "hops": 2, "edits": 1, "contaminated": True}
    assert first.hop_golds == (("Iceland", "IS", "Island"), ("Reykjavík",))
    (old, *_) = MQuAKE(FIXTURE, {"answers": "old"}).cases("triplet")
    assert old.hop_golds[0][0] == "Norway" and old.id != first.id


def test_an_edited_fact_is_asked_as_it_was_edited_with_the_aliases_of_its_hop():
    (probe,) = of_kind(cases_of()[0], "efficacy")
    assert (probe.prompt, probe.gold, probe.rival) == (
        "Ida Holt is a citizen of",
        ("Iceland", "IS", "Island"),
        "Norway",
    )
    assert (probe.style, probe.in_scope) == ("cloze", True)


def test_every_question_bears_on_all_edits_of_its_record_and_wants_the_new_answer():
    case = cases_of()[1]
    for probe in of_kind(case, "multihop"):
        assert probe.edit_ids == tuple(edit.id for edit in case.edits)
        assert (probe.gold, probe.rival, probe.style) == (("Lima", "City of Kings"), "Oslo", "question")


def test_an_unedited_hop_is_out_of_scope_and_a_contradicted_record_has_a_kind_of_its_own():
    hops = of_kind(cases_of()[2], "hop")
    assert [hop.gold[0] for hop in hops] == ["Una Frey", "America"]
    assert all(not hop.in_scope and not hop.edit_ids for hop in hops)
    assert [kinds(case)[-1] for case in cases_of()] == ["multihop_contaminated", "multihop", "multihop"]


def test_a_record_edits_hops_by_question_or_cloze_and_does_not_contaminate_itself():
    rows = read_numbered(FIXTURE / "MQuAKE-CF-3k.json", ChainRow)
    row = next(row for row in rows.values() if row.is_edited(row.new_single_hops[0]))
    for other, edited in (
        ({"question": "Who?"}, True),
        ({"cloze": "X is"}, True),
        ({"question": "Who?", "cloze": "X is"}, False),
    ):
        assert row.is_edited(row.new_single_hops[0].model_copy(update=other)) == edited
    chains = {n: row.orig for n, row in rows.items()}
    assert contaminated_ids(chains) == {7}
    assert contaminated_ids({8: chains[8]}) == frozenset()


def test_rewrite_may_be_a_dict_aliases_spelt_with_es_and_a_repeated_question_is_asked_once():
    (case,) = cases_of({"dataset": "T"})
    assert len(case.edits) == 1
    assert of_kind(case, "multihop")[0].gold == ("Reykjavík", "Reykjavik")
    assert len(of_kind(case, "multihop")) == 2
    assert MQuAKE(FIXTURE, {"dataset": "T"}).provenance["dropped"] == {"questions that a record repeats": 1}


@pytest.mark.parametrize(
    ("dataset", "place"),
    [("CF", "datasets/MQuAKE-CF.json"), ("CF-3k-v2", "MQuAKE-CF-3k-v2.json"), ("T", "datasets/MQuAKE-T.json")],
)
def test_each_data_set_is_found_where_its_repository_has_it(tmp_path, dataset, place):
    folder = Path(shutil.copytree(FIXTURE, tmp_path / "mquake"))
    (folder / "datasets").mkdir()
    shutil.copy(FIXTURE / "MQuAKE-CF-3k.json", folder / place)
    benchmark = MQuAKE(folder, {"dataset": dataset})
    assert (benchmark.file, len(list(benchmark.cases("triplet")))) == (place, 3)


def test_old_answers_with_the_extended_ones_are_right_before_the_edit():
    (case,) = cases_of({"dataset": "T", "answers": "old"})
    assert of_kind(case, "multihop")[0].gold == ("Oslo", "Christiania", "Kristiania")
    (fact,) = of_kind(case, "efficacy")
    assert (fact.gold, fact.rival) == (("Norway", "NO"), "Iceland")
    (hop,) = of_kind(case, "hop")
    assert (hop.prompt, hop.gold[0]) == ("What is the capital of Norway?", "Oslo")


def test_the_papers_shots_go_before_questions_and_hops_and_not_before_the_edited_fact():
    first, _, third = cases_of({"shots": "paper"})
    multihop, hop = of_kind(first, "multihop")[0], of_kind(first, "hop")[0]
    assert (multihop.style, hop.style) == ("raw", "raw")
    assert multihop.prompt.startswith(
        "Q: What is the capital of the country where the Tarn Lighthouse stands? A: Lisbon\n"
    )
    assert multihop.prompt.endswith(
        "Ada Reeve\nQ: What is the capital of the country of which Ida Holt is a citizen? A:"
    )
    assert hop.prompt.endswith("A: Nairobi\nQ: What is the capital of Iceland? A:")
    assert hop.retrieval_query == "What is the capital of Iceland?"
    assert of_kind(first, "efficacy")[0].prompt == "Ida Holt is a citizen of"
    assert of_kind(third, "hop")[0].style == "question"  # no examples for its relation


@pytest.mark.parametrize(
    ("reply", "em", "strict"),
    [("Lima", 1, 1), ("lima", 1, 0), ("City of Kings", 1, 1), ("Oslo", 0, 0), ("Lima, Peru", 0, 0), ("", 0, 0)],
)
def test_the_new_answer_counts_whole_and_never_the_old_one(reply, em, strict):
    probe = of_kind(cases_of()[1], "multihop")[0]
    assert score(probe, Answer(text=reply)).values == {"em": em, "strict": strict}


def test_a_record_counts_once_if_any_of_its_questions_is_answered():
    instance, multihop = (
        m for m in MQuAKE(FIXTURE).metrics() if m.name in ("Multi-hop", "Instance-wise") and m.value == "em"
    )
    values, owners = [0, 0, 1, 1, 1, 0], ["a", "a", "a", "b", "b", "b"]
    assert estimate(values, owners, per=multihop.per).mean == 1.0
    assert estimate(values, owners, per=instance.per).mean == 0.0


def test_metrics_stand_in_the_papers_order_and_find_their_probes():
    metrics = MQuAKE(FIXTURE).metrics()
    assert [m.name for m in metrics[:3]] == ["Edit-wise", "Instance-wise", "Multi-hop"]
    assert {m.value for m in metrics} == {"em", "strict", "hit@1", "hops_right"}
    assert len({m.name for m in metrics}) == len(metrics)  # a report knows a column by its name
    assert {kind for m in metrics for kind in m.kinds} == {kind for case in cases_of() for kind in kinds(case)}


def test_a_sample_holds_the_same_cases_as_the_whole():
    whole = {case.id for case in cases_of()}
    drawn = cases_of(limit=2)
    assert {case.tags["hops"] for case in drawn} <= {2, 3}
    assert len(drawn) == 2
    assert {case.id for case in drawn} < whole


def test_provenance_counts():
    told = MQuAKE(FIXTURE).provenance
    assert (told["cases"], told["edits"], told["different edits"], told["hops"]) == (3, 4, 4, {"2": 2, "3": 1})
    assert list(told["tagged"].values()) == [1, 0, 1]
    assert json.loads(json.dumps(told)) == told


def test_an_alias_that_is_the_old_answer_is_tagged(tmp_path):
    """In the data, 'United Kingdom' was the answer and is an alias of the new one."""
    rows = json.loads((FIXTURE / "MQuAKE-CF-3k.json").read_text("utf-8"))
    rows[0]["new_single_hops"][0]["answer_alias"].append("the Norway")
    rows[1]["new_answer_alias"] = [rows[1]["answer"].upper()]
    (tmp_path / "MQuAKE-CF-3k.json").write_text(json.dumps(rows), "utf-8")
    first, second, _ = cases_of(folder=tmp_path)
    assert [probe.tags.get("shared_form") for probe in of_kind(first, "efficacy")] == ["norway"]
    assert {probe.tags.get("shared_form") for probe in of_kind(second, "multihop")} == {rows[1]["answer"].lower()}
    assert list(MQuAKE(tmp_path).provenance["tagged"].values())[1] == 4
    assert not any("shared_form" in probe.tags for case in cases_of() for probe in case.probes)


def test_a_hop_that_another_drawn_records_edit_asks_is_tagged():
    first, second, _ = cases_of()
    (hop,) = of_kind(first, "hop")
    assert hop.query in [edit.question for edit in second.edits] and hop.tags[ASKED_BY_OTHER] is True
    alone = [case for seed in range(9) for case in cases_of(limit=1, seed=seed)]
    assert not any(ASKED_BY_OTHER in probe.tags for case in alone for probe in case.probes)


@pytest.mark.slow
@real
def test_a_fifth_of_200_cases_hops_are_asked_by_another_edit_and_train_no_classifier():
    hops = [probe for case in cases_of(folder=REAL, limit=200) for probe in of_kind(case, "hop")]
    assert (len(hops), sum(ASKED_BY_OTHER in probe.tags for probe in hops)) == (185, 41)
    config = ScopeConfig(benchmark="mquake", data=str(REAL), limit=200)
    assert sum(not about for about in questions_of(config, {}).about) == 185 - 41


def test_demonstrations_are_never_about_a_tested_fact():
    tested = " ".join(probe.prompt for case in cases_of() for probe in case.probes)
    assert all("Tasker" in d.fact and d.prompt not in tested for d in MQuAKE(FIXTURE).demonstrations("triplet"))


# --- the real files


@pytest.mark.slow
@real
def test_all_real_records_become_cases():
    benchmark = MQuAKE(REAL)
    rows = json.loads((REAL / benchmark.file).read_text())
    cases = list(benchmark.cases("triplet"))
    asked = Counter(kind for case in cases for kind in kinds(case))
    assert len(cases) == len({case.id for case in cases}) == len(rows)
    assert asked["efficacy"] == sum(len(row["requested_rewrite"]) for row in rows) == benchmark.provenance["edits"]
    assert asked["efficacy"] + asked["hop"] == sum(len(row["new_single_hops"]) for row in rows)
    assert asked["multihop"] + asked["multihop_contaminated"] == 3 * len(rows)
    assert Counter(case.tags["hops"] for case in cases) == {2: 300, 3: 300, 4: 300}


@pytest.mark.slow
@real
def test_a_real_sample_is_drawn_evenly_over_hops():
    drawn = cases_of(folder=REAL, limit=90)
    assert Counter(case.tags["hops"] for case in drawn) == {2: 30, 3: 30, 4: 30}
    assert drawn != cases_of(folder=REAL, limit=90, seed=1)


@real
def test_the_papers_examples_are_shown_as_they_are_also_the_one_without_its_mark():
    (first, *_) = cases_of({"shots": "paper"}, REAL, limit=1)
    prompt = of_kind(first, "multihop")[0].prompt
    assert prompt.startswith((REAL / "prompts" / "multihop-prompts.txt").read_text("utf-8").rstrip())
    assert "Who was Dodge Ram SRT-10 created by? Dodge\n" in prompt


@pytest.mark.slow
@real
def test_every_real_relation_of_an_unedited_hop_has_its_shots():
    hops = [p for case in cases_of({"shots": "paper"}, REAL) for p in of_kind(case, "hop")]
    assert {p.style for p in hops} == {"raw"}
    assert all(p.prompt.count("Q:") == 9 for p in hops)


@real
@pytest.mark.skipif(not AKEW.is_file(), reason=f"no {AKEW}")
def test_contaminated_records_are_as_many_as_were_measured():
    assert len(contaminated_ids({n: row.orig for n, row in read_numbered(AKEW, ChainRow).items()})) == 49


@pytest.mark.slow
@real
@pytest.mark.parametrize("answers", ["old", "new"])
def test_logged_success_is_that_of_the_old_answers(answers):
    """The logs judged by the answer from before the edit: by the right golds they agree with it in part only."""
    golds = {case.tags["case_id"]: of_kind(case, "multihop")[0].gold for case in cases_of({"answers": answers}, REAL)}
    logs = json.loads((REAL / "mello_gptj_transcripts.sample.json").read_text())
    same = sum(any(strict_match(said, golds[log["case_id"]]) for said in log["preds"]) == log["succ"] for log in logs)
    assert same == {"old": len(logs), "new": 80}[answers]
