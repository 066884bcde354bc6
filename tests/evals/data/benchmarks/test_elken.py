"""ELKEN's loader: on a hand-made folder in its schema, and on the real files where they lie beside the checkout."""

import shutil
from collections import Counter
from pathlib import Path

import pytest

from emend.evals.case import Case
from emend.evals.data.benchmarks.elken.benchmark import ELKEN
from emend.evals.data.benchmarks.elken.cases import BLOCKS, KNOWN, UNKNOWNS
from emend.evals.data.benchmarks.elken.rows import TendencyQuestion
from emend.evals.evaluate.baseline import needs_baseline
from emend.evals.metrics.scorers import ask_of, score
from emend.memory.probe import Answer
from tests.paths import DATA, SHARED

FIXTURE = DATA / "elken"
REAL = SHARED / "data" / "elken"
real = pytest.mark.skipif(not REAL.is_dir(), reason=f"no real data at {REAL}")
ALL = {"blocks": ",".join(BLOCKS)}
FACTS = (*KNOWN, *UNKNOWNS)


def cases_of(options=None, folder=FIXTURE):
    return list(ELKEN(folder, options).cases("event"))


def by_kind(case: Case, kind: str):
    return [probe for probe in case.probes if probe.kind == kind]


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(FIXTURE, tmp_path / "elken"))


# --- rows to cases


def test_an_event_becomes_one_case_with_its_questions_in_the_files_order():
    case = cases_of(ALL)[0]
    (edit,) = case.edits
    assert edit.form == "event"
    assert [p.kind for p in case.probes] == [
        *("fact_direct", "fact_background", "fact_unknown", "fact_local"),
        *("tendency_m", "tendency_m", "tendency_m_local"),
        *("tendency_open", "tendency_open", "tendency_open_local"),
    ]
    assert case.tags == {"event_type": "start-position"}
    assert all(p.in_scope == (p.edit_ids == (edit.id,)) == (not p.kind.endswith("_local")) for p in case.probes)
    assert all(p.event_id == edit.id for p in case.probes if not p.in_scope)  # as `in_context` needs it


def test_a_gold_answer_is_followed_by_its_aliases_and_q30_by_united_states():
    case = cases_of()[0]
    (direct,), (background,) = by_kind(case, "fact_direct"), by_kind(case, "fact_background")
    assert direct.gold == ("Halvard Brenn", "Brenn")
    assert background.gold == ("United States of America", "USA", "US", "United States")
    assert by_kind(case, "fact_local")[0].gold == ("Norwegian", "nob", "norwegian bokmaal")


def test_unknowns_over_one_and_two_hops_are_told_apart_and_name_subjects_in_either_spelling():
    first, _, last = cases_of()
    assert [p.gold for p in by_kind(first, "fact_unknown")] == [("unknown", "unknown")]
    assert len(by_kind(last, "fact_unknown_background")) == 1
    assert by_kind(cases_of()[0], "fact_unknown")[0].subject == "salt caves"


def test_a_retriever_is_asked_the_question_alone_and_the_model_with_instruction_and_options():
    probe = by_kind(cases_of()[0], "tendency_m")[0]
    assert probe.retrieval_query == "How might the number of museum visitors change?"
    assert probe.prompt.endswith(
        f"Question: {probe.retrieval_query}\n(A) Increase (B) Decrease (C) No significant impact\nAnswer:"
    )
    assert (probe.style, probe.gold) == ("raw", ("A", "Increase"))
    assert probe.choices == ("Increase", "Decrease", "No significant impact")


def test_facts_may_be_answered_with_unknown_and_questions_answered_unlike_are_tagged():
    for probe in cases_of()[0].probes:
        assert ("say unknown" in probe.prompt) == probe.kind.startswith("fact")
    tagged = [p.gold[0] for case in cases_of() for p in case.probes if p.tags.get("contested")]
    assert tagged == ["Halvard Brenn", "Pia Skov"]


def test_free_answers_are_kept_whole_and_await_a_judge_instead_of_scoring_zero():
    free = [p for case in cases_of(ALL) for p in case.probes if p.kind.startswith("tendency_open")]
    assert len(free) == 5
    for probe in free:
        said = Answer(text="They will rise.")
        assert score(probe, said, said)[:2] == ({}, {"judged": "awaits a judge"})
        assert ask_of(probe, scorable=True)[:2] == (True, ())
        assert "(A)" not in probe.prompt
        assert probe.reading == "whole"
        assert needs_baseline(probe) != probe.in_scope  # a judge compares it with what was said before


def test_the_same_question_out_of_scope_of_two_events_is_two_probes():
    first, second, _ = cases_of()
    (one,), (other,) = by_kind(first, "tendency_m_local"), by_kind(second, "tendency_m_local")
    assert one.prompt == other.prompt
    assert one.id != other.id


def test_an_event_that_the_train_split_has_too_is_tagged(folder):
    assert [case.tags.get("in_train", False) for case in cases_of()] == [False, True, False]
    (folder / "train.json").unlink()
    assert not any("in_train" in case.tags for case in cases_of(folder=folder))


def test_an_event_without_questions_is_dropped_and_counted():
    benchmark = ELKEN(FIXTURE)
    told = benchmark.provenance
    assert told["files"]["test.json"]["records"] == 4
    assert told["cases"] == len(list(benchmark.cases("event"))) == 3
    assert list(told["dropped"].values()) == [1]
    assert told["questions"] == {
        "fact in scope": 5,
        "fact out of scope": 2,
        "tendency in scope": 3,
        "tendency out of scope": 2,
    }


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("(A) Rise (B) Fall (C) No change", ("Rise", "Fall", "No change")),
        (" (A)Rise (slowly) (B)Fall\n(C)No change ", ("Rise (slowly)", "Fall", "No change")),
    ],
)
def test_options_are_split_at_their_letters(text, options):
    assert TendencyQuestion(question="Q?", candidate=text, answer="A").options == options


# --- the benchmark


def test_the_papers_columns_come_first_and_in_its_order():
    metrics = ELKEN(FIXTURE).metrics()
    assert [m.name for m in metrics[:7]] == ["Fact E", "Fact Q", "Fact Loc", "M E", "M Q", "M Loc", "E (M for G)"]
    assert {m.group for m in metrics[:7]} == {metrics[0].group}
    assert {m.scale for m in metrics} == {100}


@pytest.mark.parametrize(
    ("blocks", "names"),
    [
        ("fact", ["Fact E", "Fact Q", "Fact Loc", "unknown", "known", "direct", "background", "Fact Loc lenient"]),
        ("tendency_m", ["M E", "M Q", "M Loc", "M E lenient", "M Q lenient", "M Loc lenient"]),
        ("tendency_g", ["G Q", "G Loc"]),
    ],
)
def test_blocks_choose_probes_and_metrics(blocks, names):
    benchmark = ELKEN(FIXTURE, {"blocks": blocks})
    assert [m.name for m in benchmark.metrics() if not m.name.startswith("hit@1")] == names
    kinds = {p.kind for case in benchmark.cases("event") for p in case.probes}
    assert all(kind.replace("open", "g").startswith(blocks) for kind in kinds)
    assert all(d.prompt for d in benchmark.demonstrations("event"))


def test_every_metric_names_a_value_that_its_kinds_give():
    given = set()
    for case in cases_of():
        for probe in case.probes:
            scores = score(probe, Answer(text="A"), Answer(text="A"))
            given |= {(probe.kind, name) for name in scores.values}
    for metric in ELKEN(FIXTURE).metrics():
        if metric.value == "overall":
            assert {kind for kind, name in given if name == "overall"} <= set(metric.kinds)
        elif metric.value != "hit@1":
            assert all((kind, metric.value) in given for kind in metric.kinds), metric.name


def test_a_probe_that_cannot_be_answered_is_unscored_in_all_its_values():
    for case in cases_of():
        for probe in case.probes:
            answered, empty = score(probe, Answer(text="A"), Answer(text="A")), score(probe, Answer())
            assert empty.values == {}
            assert set(empty.unscored) == set(answered.values)


def test_only_events_with_tendency_questions_count_for_the_edit_level_over_all():
    counted = [
        {"overall" in score(p, Answer(text="x")).values for p in case.probes if p.in_scope} for case in cases_of()
    ]
    assert counted == [{True}, {True}, {False}]


def test_the_train_split_has_cases_of_its_own():
    cases = cases_of({"split": "train"})
    assert [case.edits[0].text for case in cases] == [
        "Olaf Teig died in Ribe.",
        "The island of Orsay opens a free eye clinic.",
    ]


def test_demonstrations_ask_nothing_that_is_tested():
    asked = {p.prompt for case in cases_of(ALL) for p in case.probes}
    shown = ELKEN(FIXTURE).demonstrations("event")
    assert {d.target for d in shown} == {"Halvard Brenn", "unknown", "copper", "A", "C"}
    assert len({d.prompt for d in shown}) == len(shown)
    tested = {case.edits[0].text for case in cases_of()}
    assert not tested & {d.fact for d in shown}
    assert any("Question:" in prompt for prompt in asked)


def test_a_limit_draws_a_seeded_sample():
    drawn = [case.id for case in ELKEN(FIXTURE).cases("event", limit=2)]
    assert len(drawn) == 2
    assert drawn == [case.id for case in ELKEN(FIXTURE).cases("event", limit=2)]
    assert len({tuple(c.id for c in ELKEN(FIXTURE).cases("event", 2, seed)) for seed in range(20)}) > 1


def test_always_answering_c_is_never_right_in_scope_and_never_disturbs_what_is_out_of_it():
    said = Answer(text="C")
    for probe in (p for case in cases_of({"blocks": "tendency_m"}) for p in case.probes):
        values = score(probe, said, said).values
        told = values.get("option", values.get("same"))
        assert told == (0.0 if probe.in_scope else 1.0)


# --- the real files


@pytest.mark.slow
@real
@pytest.mark.parametrize(
    ("split", "records", "questions"), [("test", 760, (1856, 1688, 3402, 796)), ("train", 677, (971, 1325, 3889, 1353))]
)
def test_all_real_rows_become_cases(split, records, questions):
    benchmark = ELKEN(REAL, {"split": split})
    told = benchmark.provenance
    assert told["files"][f"{split}.json"]["records"] == records
    assert tuple(told["questions"].values()) == questions
    cases = list(benchmark.cases("event"))
    kinds = Counter(p.kind for case in cases for p in case.probes)
    assert sum(kinds[kind] for kind in FACTS) == questions[0]
    assert (kinds["fact_local"], kinds["tendency_m"], kinds["tendency_m_local"]) == questions[1:]
    assert len(cases) == told["cases"] == records - sum(told["dropped"].values())
    ids = [p.id for case in cases for p in case.probes]
    assert len(set(ids)) == len(ids)


@pytest.mark.slow
@real
def test_event_types_that_differ_in_case_alone_stay_apart():
    types = {case.tags["event_type"] for case in ELKEN(REAL).cases("event")}
    assert {"education", "Education"} <= types


@pytest.mark.slow
@real
def test_the_real_events_without_tendencies_do_not_count_for_the_edit_level_over_all():
    for case in ELKEN(REAL).cases("event"):
        asked = any(p.kind == "tendency_m" for p in case.probes)
        facts = [p for p in case.probes if p.kind in FACTS]
        assert {bool(p.tags.get("tendency_event")) for p in facts} <= {asked}


@pytest.mark.slow
@real
def test_the_real_unknowns_and_options_are_as_the_sources_say():
    probes = [p for case in ELKEN(REAL).cases("event") for p in case.probes]
    kinds = Counter(p.kind for p in probes)
    assert sum(kinds[kind] for kind in UNKNOWNS) == 675
    assert {p.gold[0] for p in probes if p.kind == "tendency_m_local"} == {"C"}
    assert {p.gold[0] for p in probes if p.kind == "tendency_m"} == {"A", "B"}
    assert all(p.subject for p in probes if p.kind.startswith("fact"))
