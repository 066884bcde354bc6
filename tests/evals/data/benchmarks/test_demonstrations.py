"""Demonstrations out of the data's own rows: on the hand-made folders, and on the real files where they lie beside."""

import json
from collections import defaultdict

import pytest

from emend.editors.base import Demonstration
from emend.evals.data.benchmarks.demonstration_rows import ROWS, DemonstrationPool, UniqueNames, eligible, of_first_rows
from emend.evals.data.benchmarks.registry import BENCHMARKS
from emend.evals.data.benchmarks.rows import last_drawn, sample_ids
from emend.evals.data.benchmarks.triples import with_triples
from tests.params import mostly_slow
from tests.paths import DATA, SHARED

real = pytest.mark.skipif(not (SHARED / "data").is_dir(), reason=f"no real data at {SHARED / 'data'}")
KINDS = [
    ("counterfact", {}, "triplet", {"copy", "update", "retain"}),
    ("counterfact", {"dataset": "flat"}, "triplet", {"copy", "update", "retain"}),
    ("akew", {"dataset": "counterfact"}, "struct", {"copy", "update"}),
    ("akew", {"dataset": "counterfact"}, "unstruct", {"copy", "update"}),
    ("akew", {"dataset": "counterfact"}, "extract", {"copy", "update"}),
    ("docter", {}, "doc", {"copy", "update", "retain"}),
    ("docter", {}, "gold", {"copy", "update", "retain"}),
    ("elken", {"split": "train"}, "event", {"update", "retain"}),
    ("mquake", {}, "triplet", {"copy", "update"}),
    ("recoe", {}, "atomic", {"update"}),
    ("recoe", {}, "triple", {"copy", "update"}),
]
FULL = [
    ("counterfact", {"dataset": "flat"}, "triplet", 250),
    ("akew", {}, "struct", 200),
    ("docter", {}, "doc", 230),
    ("docter", {}, "gold", 230),
    ("elken", {}, "event", 250),
    ("mquake", {}, "triplet", 200),
    ("recoe", {}, "atomic", 50),
]


def example(kind="copy", prompt="P", fact="F."):
    return Demonstration(kind=kind, fact=fact, prompt=prompt, target="T")


def benchmark_of(name, options, root=DATA):
    return BENCHMARKS.load(name)(root / name, options)


def rows_of(benchmark, setting, seed=0):
    return benchmark.demonstrations(setting, seed).rows()


def standing(benchmark, setting, **more):
    return [[edit.text for edit in case.edits] for case in benchmark.cases(setting, **more)]


def test_who_only_looks_gets_the_hand_written_ones_and_the_rows_are_made_once_when_asked_for():
    made: list[str] = []

    def rows(count):
        made.append(f"{count} rows")
        return [example("retain")]

    shown = DemonstrationPool.of([example()], rows)
    assert list(shown) == [example()] and made == []
    assert shown.rows() == shown.rows() == (example("retain"),) and made == [f"{ROWS} rows"]
    assert shown.rows(0) == (example("retain"),) and made[1:] == ["0 rows"]


def test_a_name_is_alone_if_its_capitals_are_in_one_row_only_but_for_the_first_of_a_sentence():
    names = UniqueNames([["Ada Holm lives in Brenholm", "Ada Holm is old"], ["Ada Voss lives in Brenholm"]])
    assert names.has("Ada Holm") and not names.has("Ada") and not names.has("lives") and not names.has("Nobody")
    assert UniqueNames([["Ada Voss"]], occurrences=0).has("Ada Holm"), "of another file, a name that is in no row"
    names = UniqueNames([["Seldom rains it in Brenholm. Never in May"], ["It rains in Brenholm"]])
    assert not names.has_in("Seldom rains it in Brenholm. Never") and names.has_in("It is May")


def test_those_that_a_sample_takes_last_come_first():
    chosen = sample_ids(range(50), 30, seed=3)
    last = last_drawn(range(50), 3)
    assert set(last[:20]) == set(range(50)) - set(chosen)


def test_of_each_kind_the_first_that_fits_is_taken_and_rows_without_an_example_do_not_count():
    names = UniqueNames([["about Ada"], ["about Ole"], ["about Ole"]])
    prompts = [("update", "a"), ("retain", "about Ole"), ("update", "b"), ("copy", "c"), ("retain", "about Ada")]
    examples = [example(kind, prompt) for kind, prompt in prompts]
    assert [one.prompt for one in eligible(examples, names)] == ["a", "c", "about Ada"]
    groups = [[example(prompt=str(n))] if n % 2 else [] for n in range(3 * ROWS)]
    assert [one.prompt for one in of_first_rows(groups, 3)] == ["1", "3", "5"]
    assert len(list(of_first_rows(groups))) == ROWS
    assert len(list(of_first_rows(groups, 0))) > ROWS


@pytest.mark.parametrize(("name", "options", "setting", "kinds"), KINDS)
def test_an_example_tells_an_edit_of_the_data_in_the_words_in_which_it_stands(name, options, setting, kinds):
    benchmark = benchmark_of(name, options)
    rows = rows_of(benchmark, setting)
    assert {one.kind for one in rows} >= kinds
    for one in rows:
        assert any(
            all(text in one.fact for text in texts) or one.fact in texts for texts in standing(benchmark, setting)
        )
        assert one.prompt.strip() and one.target.strip()
        if one.kind == "copy" and name != "recoe":
            assert one.prompt in one.fact or setting in ("doc", "unstruct", "extract")


def test_a_record_that_shares_a_subject_with_another_or_edits_one_without_a_capital_is_not_shown():
    subjects = [{edit.subject for edit in case.edits} for case in benchmark_of("akew", {}).cases("struct")]
    assert subjects == [{"Pell Lock"}, {"Pell Lock", "Chile"}, {"Ada Wardle", "tennis"}]
    assert rows_of(benchmark_of("akew", {}), "struct") == ()


def test_a_training_split_is_shown_where_it_is_there_and_the_tested_one_never(tmp_path):
    benchmark = benchmark_of("elken", {})
    tested = {text for texts in standing(benchmark, "event") for text in texts}
    rows = rows_of(benchmark, "event")
    assert rows and not {one.fact for one in rows} & tested
    (tmp_path / "test.json").write_bytes((DATA / "elken" / "test.json").read_bytes())
    assert rows_of(BENCHMARKS.load("elken")(tmp_path, {}), "event") == ()


@pytest.mark.parametrize(
    ("name", "options", "setting"),
    [("docter", {"blocks": "edit_success,cross_en_zh"}, "doc"), ("recoe", {"prompting": "cot"}, "atomic")],
)
def test_where_a_row_would_tell_of_another_or_has_no_solved_chain_there_are_the_hand_written_alone(
    name, options, setting
):
    shown = benchmark_of(name, options).demonstrations(setting)
    assert len(shown) >= 2 and shown.rows() == ()


def test_where_triplets_stand_that_were_taken_out_no_row_is_shown_in_the_datas_words(tmp_path):
    inner = benchmark_of("docter", {})
    lines = [
        {"document_id": edit.id, "method": "llm", "fingerprint": "x", "triplets": []}
        for case in inner.cases("doc")
        for edit in case.edits
    ]
    (tmp_path / "t.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    benchmark = with_triples(inner, tmp_path / "t.jsonl")
    assert not hasattr(benchmark.demonstrations("llm"), "rows") and len(benchmark.demonstrations("llm")) == 2
    assert hasattr(benchmark.demonstrations("doc"), "rows")


@real
@pytest.mark.parametrize(("name", "options", "setting", "count"), mostly_slow(FULL, *FULL[:2]))
def test_real_files_give_enough_for_the_published_32_and_a_limit_leaves_them_out(name, options, setting, count):
    benchmark = benchmark_of(name, options, SHARED / "data")
    rows = rows_of(benchmark, setting)
    assert len(rows) >= count and len({one.fact for one in rows}) <= ROWS
    assert rows == rows_of(benchmark_of(name, options, SHARED / "data"), setting)
    assert rows != rows_of(benchmark, setting, seed=1)
    told = {text for texts in standing(benchmark, setting, limit=100) for text in texts}
    assert not any(text in one.fact for one in rows for text in told)


@pytest.mark.slow
@real
@pytest.mark.slow
@pytest.mark.parametrize(("name", "options", "setting"), [row[:3] for row in FULL])
def test_no_case_but_its_own_asks_what_an_example_asks_or_edits_whom_it_edits(name, options, setting):
    benchmark = benchmark_of(name, options, SHARED / "data")
    asking, editing = defaultdict(set), defaultdict(set)
    texts: dict[str, str] = {}
    for case in benchmark.cases(setting):
        texts |= {edit.text: case.id for edit in case.edits}
        for edit in case.edits:
            editing[edit.subject or edit.text].add(case.id)
        for probe in case.probes:
            asking[probe.prompt].add(case.id)
    for one in rows_of(benchmark, setting):
        own = {case for text, case in texts.items() if text in one.fact}
        told = {subject for subject, cases in editing.items() if cases & own}
        assert asking[one.prompt] <= own
        assert all(editing[subject] <= own for subject in told)
