"""AKEW's loader: on a hand-made folder in its three schemas, and on the real files where they are at hand."""

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from emend.agents.roles.answer import build_prompt
from emend.evals.case import Case
from emend.evals.data.benchmarks.akew.benchmark import Akew
from emend.evals.data.benchmarks.rows import proportional_shares
from emend.evals.metrics.estimate import estimate
from emend.evals.metrics.scorers import ask_of, score
from emend.evals.metrics.text.exact import strict_match
from emend.memory.errors import MissingData
from emend.memory.probe import Answer
from tests.paths import DATA, SHARED

FIXTURE = DATA / "akew"
REAL = SHARED / "data" / "akew"
real = pytest.mark.skipif(not REAL.is_dir(), reason=f"no real data at {REAL}")
SETTINGS = ("struct", "unstruct", "extract")
DATASETS = ("mquake_cf", "counterfact", "wiki_update")


def cases(dataset="mquake_cf", setting="struct", folder=FIXTURE, **options):
    return list(Akew(folder, {"dataset": dataset} | options).cases(setting))


def kinds(case: Case):
    return [probe.kind for probe in case.probes]


def measured(benchmark: Akew, setting: str, reply) -> dict:
    """(mean, n) of every metric when `reply(probe)` is what the model says."""
    asked = [(case, probe) for case in benchmark.cases(setting) for probe in case.probes]
    values = [(case.id, probe.kind, score(probe, Answer(text=reply(probe))).values) for case, probe in asked]
    told = {}
    for metric in benchmark.metrics():
        rows = [(scores.get(metric.value), case) for case, kind, scores in values if kind in metric.kinds]
        found = estimate([value for value, _ in rows], [case for _, case in rows], per=metric.per)
        told[metric.name] = (found.mean, found.n)
    return told


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(FIXTURE, tmp_path / "akew"))


def rewrite(folder: Path, name: str, change):
    rows = json.loads((folder / name).read_text())
    change(rows)
    (folder / name).write_text(json.dumps(rows))


def test_struct_gives_the_sentence_with_all_its_parts():
    (edit,) = cases()[0].edits
    assert (edit.form, edit.text, edit.cloze) == ("triplet", "Pell Lock was built in Chile.", "Pell Lock was built in")
    assert (edit.target_new, edit.target_true, edit.question) == (
        "Chile",
        "Norway",
        "In which country was Pell Lock built?",
    )
    assert (edit.triplets[0].relation_id, edit.triplets[0].object_id) == ("P17", "Q298")


def test_unstruct_gives_the_paragraph_alone_and_a_case_stays_when_nothing_was_extracted():
    edit = cases("counterfact", "unstruct")[0].edits[0]
    assert edit.text == "Chad gave the circus Ann Orr, who juggles {five} torches."
    assert (edit.form, edit.subject, edit.prompt, edit.target_new, edit.triplets) == ("document", "", "", "", ())
    case = cases("counterfact", "extract")[2]
    assert (case.edits, len(case.probes), case.probes[0].edit_ids) == ((), 1, ())


def test_extract_gives_each_triplet_as_an_edit_by_itself():
    edits = cases(setting="extract")[0].edits
    assert [edit.text for edit in edits] == ["Pell Lock was built in Chile.", "Pell Lock opened in 1874."]
    assert [(e.form, e.target_new, e.triplets[0].text) for e in edits][1] == (
        "triplet",
        "1874",
        "Pell Lock opened in 1874",
    )


def test_a_record_with_several_edits_gets_all_of_them_and_its_question_bears_on_all():
    case = cases()[1]
    assert [edit.target_new for edit in case.edits] == ["Chile", "Lima"]
    assert [p.edit_ids for p in case.probes[:2]] == [(edit.id,) for edit in case.edits]
    assert all(p.edit_ids == tuple(e.id for e in case.edits) for p in case.probes[2:])


def test_a_triplet_that_lacks_a_part_is_dropped_and_counted(folder):
    torn = [
        {"subject": "Pell Lock", "prompt": "was built in", "target": "Chile"},
        {"subject": "Pell", "prompt": "{} is"},
    ]
    rewrite(folder, "MQuAKE-CF.json", lambda r: r[0]["requested_rewrite"][0]["unsfact_triplets_GPT"].extend(torn))
    assert len(cases(setting="extract", folder=folder)[0].edits) == 2
    assert list(Akew(folder).provenance["dropped"].values()) == [2]


def test_wiki_updates_carry_the_time_from_which_they_hold():
    for setting in SETTINGS:
        assert [case.edits[0].time for case in cases("wiki_update", setting)] == ["2021-06-01", None]
        assert not any("hops" in case.tags for case in cases("wiki_update", setting))


def test_all_settings_are_asked_the_same_and_the_old_answer_is_wrong():
    asked = [[(p.kind, p.prompt, p.gold) for case in cases(setting=s) for p in case.probes] for s in SETTINGS]
    assert asked[0] == asked[1] == asked[2]
    told = measured(Akew(FIXTURE), "struct", lambda probe: probe.rival)
    assert {value for value, n in told.values() if n} == {0}


@pytest.mark.parametrize(
    ("ask", "prompt", "style"),
    [("cloze", "Ann Orr hails from", "cloze"), ("question", "Ann Orr hails from what?", "question")],
)
def test_an_edit_is_asked_as_cloze_or_as_question(ask, prompt, style):
    probe = cases("counterfact", ask=ask)[0].probes[0]
    assert (probe.prompt, probe.style, probe.rival) == (prompt, style, "Peru")


def test_aliases_in_both_spellings_are_read_and_a_multi_hop_question_is_asked_in_three_wordings():
    golds = [case.probes[0].gold for case in cases("counterfact")]
    assert golds == [("Chad", "Republic of Chad"), ("Chad", "Tchad"), ("Mali",)]
    assert cases()[0].probes[0].gold == ("Chile", "CL", "Republic of Chile")
    assert cases("wiki_update")[0].probes[0].gold == ("Ole Brim",)
    probes = cases()[0].probes[1:]
    assert len({p.prompt for p in probes}) == 3
    assert {p.gold for p in probes} == {("Santiago", "Santiago de Chile", "st")}
    assert {(p.style, p.rival, p.tags["hops"]) for p in probes} == {("question", "Oslo", 2)}


@pytest.mark.parametrize("dataset", ["counterfact", "wiki_update"])
def test_data_sets_without_multi_hop_questions_have_no_such_column(dataset):
    names = [m.name for m in Akew(FIXTURE, {"dataset": dataset}).metrics()]
    assert not any("MultiHop" in name for name in names)
    assert {kind.split("_")[0] for case in cases(dataset) for kind in kinds(case)} == {"efficacy"}


def test_provenance_counts_what_was_repaired_and_tagged():
    told = Akew(FIXTURE, {"dataset": "counterfact"}).provenance
    assert (told["cases"], told["edits"], told["distinct edits"], told["triplets"]) == (3, 3, 3, 4)
    assert list(told["tagged"].values()) == [2, 2, 1, 1]
    assert told["files"]["CounterFact.json"]["records"] == 3
    assert json.loads(json.dumps(told)) == told
    assert Akew(FIXTURE).provenance["hops"] == {"2": 3}


def test_the_papers_printed_examples_are_read_only_where_there_is_nothing_else(tmp_path):
    bare: dict[str, object] = {
        "subject": "Orr Hill",
        "relation": "mayor",
        "question": "Who is mayor?",
        "unsfact_triplets_GPT": [],
    }
    bare |= {"target_true": {"str": "Ida Voss"}, "target_new": {"str": "Una Kell"}, "fact_new_uns": "Una Kell rules."}
    row = {"paper_example": "Table 1", "requested_rewrite": bare}
    (tmp_path / "wiki_update.sample.json").write_text(json.dumps([row]))
    benchmark = Akew(tmp_path, {"dataset": "WikiUpdate"})
    (case,) = benchmark.cases("struct")
    assert (case.edits[0].text, case.probes[0].prompt) == (
        "The mayor of Orr Hill is Una Kell.",
        "The mayor of Orr Hill is",
    )
    assert benchmark.provenance["paper's examples only"] is True
    shutil.copy(FIXTURE / "WikiUpdate.json", tmp_path)
    assert Akew(tmp_path, {"dataset": "WikiUpdate"}).provenance["paper's examples only"] is False


@pytest.mark.parametrize("spelled", ["MQuAKE-CF", "mquake_cf", "MQUAKECF"])
def test_a_data_set_is_known_however_it_is_spelled(spelled):
    assert Akew(FIXTURE, {"dataset": spelled}).options["dataset"] == "mquake_cf"


def test_demonstrations_are_never_about_a_tested_fact():
    for setting in SETTINGS:
        shown = Akew(FIXTURE).demonstrations(setting)
        assert {d.kind for d in shown} == {"copy", "update", "retain"}
        assert all("Orsa" in d.fact for d in shown)
    assert len({Akew(FIXTURE).demonstrations(setting)[0].fact for setting in SETTINGS}) == 3


@pytest.mark.parametrize(("groups", "limit"), [({2: 119, 3: 118, 4: 66}, 5), ({0: 3}, 2), ({2: 1, 3: 1, 4: 1}, 2)])
def test_a_sample_has_each_group_in_proportion(groups, limit):
    given = proportional_shares(groups, limit)
    assert sum(given.values()) == limit
    assert all(abs(given[g] - limit * size / sum(groups.values())) < 1 for g, size in groups.items())


def test_an_edit_made_before_is_repeated_and_one_that_another_contradicts_is_contaminated():
    found = cases()
    assert [kinds(case)[0] for case in found] == ["efficacy", "efficacy_repeated", "efficacy"]
    assert [case.tags["contaminated"] for case in found] == [True, False, False]
    assert [kinds(case)[-1] for case in found] == ["multihop_contaminated", "multihop", "multihop"]
    found = cases("counterfact")
    assert [kinds(case)[0] for case in found] == ["efficacy_contaminated", "efficacy", "efficacy_contaminated"]
    assert [case.tags["contaminated"] for case in found] == [True, False, True]


def test_contamination_is_judged_among_the_records_drawn(folder):
    rewrite(folder, "MQuAKE-CF.json", lambda rows: rows.pop(1))
    assert not any(case.tags["contaminated"] for case in cases(folder=folder))


def test_a_perfect_model_has_full_marks_over_the_right_denominators():
    told = measured(Akew(FIXTURE), "struct", lambda probe: probe.gold[0])
    others = ("strict", "hit@1", "Hop-wise")  # the last two need an editor's search or steps
    assert {name: value for name, value in told.items() if not any(other in name for other in others)} == {
        "EditAcc": (1, 5),
        "EditAcc distinct": (1, 4),
        "EditAcc clean": (1, 4),
        "MultiHop": (1, 3),
        "MultiHop clean": (1, 2),
    }


def test_one_of_three_questions_is_enough_and_strict_match_needs_a_text():
    told = measured(
        Akew(FIXTURE), "struct", lambda p: p.gold[0] if p.tags.get("n") == 2 and "Pell" in p.prompt else "?"
    )
    assert told["MultiHop"] == (pytest.approx(2 / 3), 3)
    assert told["MultiHop clean"] == (1 / 2, 2)
    assert told["EditAcc"] == (0, 5)
    probe = cases()[0].probes[0]
    assert score(probe, Answer()).unscored.keys() == {"em", "strict"}
    assert ask_of(probe, scorable=True)[:2] == (True, ())
    assert strict_match("CL", ["Chile", "CL"]) == 1
    assert strict_match("", []) == 0


def test_the_two_rules_differ_in_letter_case_alone_and_neither_looks_inside_a_reply():
    probe = cases()[0].probes[1]
    both = [score(probe, Answer(text=text)).values for text in ("Santiago", "SANTIAGO", "west", "St", "Santiago it is")]
    assert [(v["em"], v["strict"]) for v in both] == [(1, 1), (1, 0), (0, 0), (1, 0), (0, 0)]
    stopped = score(probe, Answer(text="Santiago.")).values
    assert (stopped["em"], stopped["strict"]) == (1, 0)
    told = measured(Akew(FIXTURE), "struct", lambda p: p.gold[0].upper())
    assert (told["MultiHop"][0], told["MultiHop strict"][0]) == (1, 0)


def test_columns_stand_by_rule_of_matching_in_percent():
    metrics = Akew(FIXTURE).metrics()
    assert list(dict.fromkeys(m.group for m in metrics)) == [
        "normalised match",
        "strict match",
        "retrieval",
        "hops of stepwise editors",
    ]
    assert [m.name for m in metrics][:5] == [
        "EditAcc",
        "EditAcc distinct",
        "EditAcc clean",
        "MultiHop",
        "MultiHop clean",
    ]
    assert {m.scale for m in metrics} == {100}
    assert len({m.name for m in metrics}) == len(metrics)


@real
def test_the_real_counts_are_those_of_the_sources():
    told = Akew(REAL).provenance
    assert (told["cases"], told["edits"], told["distinct edits"]) == (303, 377, 293)
    assert told["hops"] == {"2": 119, "3": 118, "4": 66}
    assert list(told["tagged"].values()) == [49, 291, 0, 0]


@pytest.mark.slow
@real
@pytest.mark.parametrize("setting", SETTINGS)
def test_all_real_rows_become_cases(setting):
    found = cases(setting=setting, folder=REAL)
    counts = Counter(kind for case in found for kind in kinds(case))
    assert len({case.id for case in found}) == 303
    assert counts == {"multihop": 762, "multihop_contaminated": 147, "efficacy": 293, "efficacy_repeated": 84}
    assert all(len({p.id for p in case.probes}) == len(case.probes) for case in found)


@real
def test_a_few_real_cases_are_drawn_evenly_over_hops():
    found = list(Akew(REAL).cases("struct", limit=30, seed=1))
    assert Counter(case.tags["hops"] for case in found) == {2: 12, 3: 12, 4: 6}
    assert [case.tags["akew_id"] for case in found] == sorted(case.tags["akew_id"] for case in found)
    assert found != list(Akew(REAL).cases("struct", limit=30, seed=2))


@real
@pytest.mark.parametrize(("dataset", "count"), [("counterfact", 4), ("wiki_update", 1)])
def test_the_papers_printed_examples_load(dataset, count):
    for setting in SETTINGS:
        assert len(cases(dataset, setting, REAL)) == count


@pytest.mark.skipif(not (SHARED / "data" / "mquake").is_dir(), reason=f"no logged answers at {SHARED}")
def test_strict_match_gives_the_verdicts_that_were_logged_against_the_old_answer():
    folder = SHARED / "data" / "mquake"
    records = {row["case_id"]: row for row in json.loads((folder / "mquake_cf_3k.sample.json").read_text())}
    logs = json.loads((folder / "mello_gptj_transcripts.sample.json").read_text())

    def right(log, field):
        record = records[log["case_id"]]
        return any(strict_match(said, [record[field], *record[f"{field}_alias"]]) for said in log["preds"])

    assert [right(log, "answer") for log in logs] == [log["succ"] for log in logs]
    assert sum(right(log, "new_answer") != log["succ"] for log in logs) == 70  # the logging code scored the wrong field


def test_multihop_questions_are_asked_for_a_chain_after_the_published_ones_and_edits_as_before(folder):
    with pytest.raises(MissingData, match="multihop-cot-prompts.txt"):
        Akew(folder, {"prompting": "cot"})
    shutil.copytree(DATA / "mquake" / "prompts", folder / "prompts", dirs_exist_ok=True)
    chains = "Question: Who runs Orn?\nThoughts: Orn is run by Bo.\nAnswer: Bo"
    (folder / "prompts" / "multihop-cot-prompts.txt").write_text(chains + "\n")
    direct, chained = (Akew(folder, {"prompting": how}) for how in ("direct", "cot"))
    for plain, case in zip(direct.cases("struct"), chained.cases("struct"), strict=True):
        for before, probe in zip(plain.probes, case.probes, strict=True):
            if not probe.kind.startswith("multihop"):
                assert probe == before
                continue
            assert build_prompt(probe) == f"{chains}\n\nQuestion: {before.prompt}\nThoughts:"
            assert (probe.query, probe.reading, probe.gold) == (before.prompt, "thoughts", before.gold)
    assert "prompts/multihop-cot-prompts.txt" in chained.provenance["files"]
    assert any("chain of thought" in choice for choice in chained.provenance["choices"])


@real
def test_the_chains_are_found_in_mquakes_folder_beside_akews():
    case = next(iter(Akew(REAL, {"prompting": "cot"}).cases("unstruct")))
    probe = next(probe for probe in case.probes if probe.kind.startswith("multihop"))
    assert probe.examples.count("Thoughts:") == 5
