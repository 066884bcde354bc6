"""ReCoE's loader: on a hand-made folder in its three schemas, and on the real files where they are."""

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from emend.evals.case import Case
from emend.evals.data.benchmarks.recoe.benchmark import ReCoE, contested
from emend.evals.data.benchmarks.recoe.cases import edits_of, parse_triple, row_case
from emend.evals.data.benchmarks.recoe.rows import ROWS, ChoiceRow, CounterfactualRow
from emend.evals.data.benchmarks.registry import BENCHMARKS
from emend.evals.data.benchmarks.rows import even_shares
from emend.evals.metrics.published.recoe import canonical
from emend.memory.errors import BadData
from tests.paths import DATA, SHARED

FIXTURE = DATA / "recoe"
REAL = SHARED / "data" / "recoe"
real = pytest.mark.skipif(not REAL.is_dir(), reason=f"no real data at {REAL}")

SUBTRACTION = "subtraction"


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(FIXTURE, tmp_path / "recoe"))


def cases(scheme: str, setting: str = "atomic") -> list[Case]:
    return list(ReCoE(FIXTURE, {"schemes": scheme}).cases(setting))


def choice(*triples: str, sentence: str = "Ann runs.") -> ChoiceRow:
    facts = (CounterfactualRow(sentence=sentence, atomic_facts=(), atomic_triples=triples),)
    fields = {"question": "Who?", "answer": "A", "counterfactual_answer": "B", "counterfactuals_per_choice": facts}
    return ChoiceRow.model_validate(fields)


def test_choices_are_read_without_the_facts_that_stay():
    case = cases("comparative")[0]
    texts = [edit.text for edit in case.edits]
    assert texts == ["Lake Brisko is 40 metres deep.", "Lake Halmen is 90 metres deep.", "Lake Halmen is cold."]
    assert {edit.form for edit in case.edits} == {"facts"}
    probe, facts = case.probes
    assert probe.prompt == "Is Lake Brisko deeper than Lake Halmen?"
    assert (probe.kind, probe.style, probe.scorers) == ("comparative", "question", ("correct_flip",))
    assert probe.gold == ("No.", "Lake Halmen is deeper than Lake Brisko.")
    assert probe.rival == "Yes."
    assert probe.edit_ids == facts.edit_ids == tuple(edit.id for edit in case.edits)


def test_sentences_are_documents_and_triples_need_three_parts():
    sentences, triples = cases("comparative", "sentence")[0], cases("comparative", "triple")[0]
    assert [(e.form, e.text) for e in sentences.edits][1] == ("document", "Lake Halmen is 90 metres deep and cold.")
    first, second = triples.edits
    assert (first.form, first.subject, first.prompt, first.target_new) == (
        "triplet",
        "Lake Brisko",
        "{} is deep",
        "40 metres",
    )
    assert second.text == "Lake Halmen is deep 90 metres."


def test_sorting_has_no_aliases_and_swaps_any_two_choices():
    (case,) = cases("sorting")
    assert [edit.text[:5] for edit in case.edits] == ["Torva", "Elsk "]
    assert case.probes[0].gold == ("Elsk, Marn, Torvay",)
    assert case.probes[0].tags == {}


def test_counting_takes_whole_numbers_spaces_a_misspelt_key_and_facts_without_full_stop():
    (case,) = cases("counting")
    probe = case.probes[0]
    assert (probe.rival, probe.gold) == ("5", ("4", "four"))
    assert probe.prompt == "How many lighthouses stand on the isle of Torvay?"
    assert [edit.text for edit in case.edits] == ["Kelp Light stands on the isle of Marn."]


def test_composed_questions_edit_indirect_facts_whatever_their_depth():
    (summed,) = cases("aggregation")
    assert [edit.text for edit in summed.edits] == ["Reed Bridge was pulled down.", "The ferry Gull was sunk."]
    fewer, nested, flat, _ = cases(SUBTRACTION)
    assert len(fewer.edits) == len(nested.edits) == 1  # the same mill, listed twice at unlike depth
    assert len(flat.edits) == 2
    assert flat.probes[0].rival == "7"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("(Dune (1965);  is by ;  Herbert)", ("Dune (1965)", "is by", "Herbert")),
        ("(Dune (1965); is by; Herbert", ("Dune (1965)", "is by", "Herbert")),
        ("(A; is; B (town))", ("A", "is", "B (town)")),
        ("A; is; B", ("A", "is", "B")),
        ("(A; is)", None),
        ("(A; is; B; C)", None),
        ("(A; ; B)", None),
    ],
)
def test_triples_are_read_with_their_own_brackets(text, parts):
    triple = parse_triple(text)
    assert (triple and (triple.subject, triple.relation, triple.object)) == parts


def test_a_fact_without_atoms_is_its_sentence_and_a_row_without_a_triple_is_refused_as_one():
    assert [edit.text for edit in edits_of(choice(), "atomic")] == ["Ann runs."]
    with pytest.raises(BadData, match=r"sorting, record 7, field 'atomic_triples'.*--setting atomic"):
        row_case(choice("(A; is)"), "sorting", "triple", 7)
    assert row_case(choice("(A; is)"), "sorting", "atomic", 7).edits


def test_records_that_edit_one_fact_to_two_objects_are_contested_and_metrics_are_the_papers():
    assert contested(
        [choice("(A; is; b)"), choice("(a; is; c)"), choice("(A; has; b)"), choice("(D; is; b)", "(D; is; c)")]
    ) == {0, 1}
    first, second = cases("comparative")
    assert first.probes[0].tags["contested"] is second.probes[0].tags["contested"] is True
    metrics = (benchmark := ReCoE(FIXTURE, {"superlative_file": "lakes.json"})).metrics()
    assert BENCHMARKS.load("recoe") is ReCoE
    assert [m.name for m in metrics if m.group == "correct_flip"][:-1] == list(ROWS)
    assert [m.name for m in metrics if m.group == "correct_flip"][-1] == "mean"
    assert len({m.name for m in metrics}) == len(metrics) == 4 * 7 + 4 + 1
    kinds = {p.kind for case in benchmark.cases("atomic") for p in case.probes}
    assert kinds <= {kind for m in metrics for kind in m.kinds}


@pytest.mark.slow
@real
def test_records_of_different_schemes_contest_each_other():
    whole = {case.id for case in ReCoE(REAL).cases("atomic") if case.probes[0].tags.get("contested")}
    apart = {
        case.id
        for scheme in ("comparative", "sorting", "counting", "aggregation", "subtraction")
        for case in ReCoE(REAL, {"schemes": scheme}).cases("atomic")
        if case.probes[0].tags.get("contested")
    }
    assert apart < whole and len(whole) > 5 * len(apart)


def test_schemes_with_a_file_are_taken_in_the_papers_order_in_either_layout():
    benchmark = ReCoE(FIXTURE)
    found = list(dict.fromkeys(case.tags["scheme"] for case in benchmark.cases("atomic")))
    assert found == ["comparative", "counting", "sorting", "aggregation", "subtraction"]
    assert benchmark.provenance["schemes without a file"] == ["superlative"]
    assert "aggregation/counterfactual_datapoints_verified_atomic.json" in benchmark.provenance["files"]


def test_records_like_superlatives_are_taken_from_the_file_that_is_named():
    benchmark = ReCoE(FIXTURE, {"schemes": "superlative", "superlative_file": "lakes.json"})
    (case,) = benchmark.cases("atomic")
    assert case.probes[0].gold == ("Bexel", "River Bexel")
    assert list(benchmark.provenance["files"]) == ["lakes.json"]


def test_a_limit_takes_as_many_of_each_scheme_and_depends_on_the_seed_alone():
    drawn = [case.tags["scheme"] for case in ReCoE(FIXTURE).cases("atomic", limit=6)]
    assert Counter(drawn) == {"comparative": 2, "counting": 1, "sorting": 1, "aggregation": 1, "subtraction": 1}
    assert even_shares({"a": 0, "b": 2}, 9) == {"a": 0, "b": 2}
    once, again = ([c.id for c in ReCoE(FIXTURE).cases("atomic", 3, seed)] for seed in (1, 1))
    assert once == again


def test_provenance_counts_what_was_repaired_and_tagged():
    told = ReCoE(FIXTURE).provenance
    assert told["cases"] == 9
    assert list(told["dropped"].values()) == [0, 1]
    assert list(told["repaired"].values()) == [1, 1, 1]
    assert list(told["tagged"].values()) == [7, 2, 3]
    assert told["atomic counterfactual facts"]["aggregation"] == 2
    assert all(len(file["sha256"]) == 64 for file in told["files"].values())
    assert json.loads(json.dumps(told)) == told


def test_demonstrations_are_solved_and_never_a_tested_question():
    asked = {p.prompt for case in ReCoE(FIXTURE).cases("atomic") for p in case.probes}
    shown = ReCoE(FIXTURE).demonstrations("atomic")
    assert [d.kind for d in shown] == ["update", "update", "retain"]
    assert not asked & {d.prompt for d in shown}


@pytest.mark.slow
@real
@pytest.mark.parametrize(
    ("scheme", "records", "atoms"),
    [
        ("comparative", 988, 6006),
        ("counting", 551, 1162),
        ("sorting", 886, 5140),
        ("aggregation", 435, 1461),
        (SUBTRACTION, 429, 1259),
    ],
)
def test_all_real_rows_become_cases(scheme, records, atoms):
    benchmark = ReCoE(REAL, {"schemes": scheme})
    assert benchmark.provenance["atomic counterfactual facts"] == {scheme: atoms}
    for setting in ReCoE.settings:
        found = list(benchmark.cases(setting))
        assert len(found) == records
        assert all(case.edits and case.probes[0].gold for case in found)


@pytest.mark.slow
@real
def test_real_sorting_swaps_exactly_two_places():
    for case in ReCoE(REAL, {"schemes": "sorting"}).cases("atomic"):
        probe = case.probes[0]
        old, new = ([part.strip() for part in text.split(",")] for text in (probe.rival or "", probe.gold[0]))
        assert sum(one != other for one, other in zip(old, new, strict=True)) == 2


@pytest.mark.slow
@real
def test_every_real_record_has_facts_and_counterfactuals_to_compare():
    for case in ReCoE(REAL).cases("atomic"):
        question, facts = case.probes
        assert facts.kind == f"{question.kind}_facts"
        assert facts.gold and facts.choices


@pytest.mark.slow
@real
def test_real_answers_and_aliases_are_read_as_the_same_number():
    for scheme in ("counting", "aggregation", SUBTRACTION):
        for case in ReCoE(REAL, {"schemes": scheme}).cases("atomic"):
            probe = case.probes[0]
            sizes = {canonical(gold).removeprefix("-") for gold in probe.gold}
            assert len(sizes) == 1 and sizes.pop().isdigit()


@pytest.mark.slow
@real
def test_real_traps_are_counted():
    told = ReCoE(REAL, {"superlative_file": "superlative_paper_example.json"}).provenance
    assert list(told["repaired"].values()) == [6, 1, 5]
    assert list(told["dropped"].values()) == [0, 2]
    assert told["tagged"]["shared_form (a form stands for both answers, no flip can be seen)"] == 15
    assert told["files"]["superlative_paper_example.json"]["records"] == 1
