"""Retrieval is measured on every probe that says what is right, with the edits of all cases in one memory."""

import json
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from emend.evals import cli
from emend.evals.case import Case
from emend.evals.manifest import RunConfig
from emend.evals.report.retrieval import retrieval_notes
from emend.evals.retrieval import DEPTH, TimedEmbedding, measure_retrieval
from emend.evals.retrieval_rows import RetrievalReport, RetrievalRow
from emend.memory.embed import LexicalEmbedding
from emend.memory.errors import BadData, BadSettings
from emend.memory.probe import Probe
from emend.memory.retrieval.base import Corpus, Hit
from tests.evals.toys import BENCHMARK, ToyBenchmark

HERE = "tests.evals.test_retrieval"
RIGHT = f"{HERE}:Right"
THIRD = f"{HERE}:Third"
SILENT = f"{HERE}:Silent"


class Right:
    """The entry whose country the query names first, the others after it, whatever is asked."""

    shift = 0

    def __init__(self, corpus: Corpus) -> None:
        self.found = corpus.entries()

    def search(self, query: str, k: int) -> list[Hit]:
        country = query.split(" of ")[1].split()[0].strip(",")
        right = [entry for entry in self.found if f" {country} " in entry.text]
        others = [entry for entry in self.found if entry not in right]
        ranked = others[: self.shift] + right + others[self.shift :]
        return [Hit(entry=entry, score=-float(rank)) for rank, entry in enumerate(ranked[:k])]


class Third(Right):
    """The right entry at rank 3."""

    shift = 2


class Silent(Right):
    """Nothing, unless a capital is asked for."""

    def search(self, query: str, k: int) -> list[Hit]:
        return super().search(query, k) if "capital" in query else []


class Unsaid(ToyBenchmark):
    """Probes in scope that do not say which edit bears on them; with option `some` every second one does."""

    def cases(self, setting: str, limit: int | None = None, seed: int = 0) -> Iterator[Case]:
        for place, case in enumerate(super().cases(setting, limit, seed)):
            told = self.options.get("some") and place % 2
            probe = Probe(kind="asked", prompt="The capital of Land0 is", gold=("x",),
                          edit_ids=case.probes[0].edit_ids if told else ())  # fmt: skip
            yield Case(edits=case.edits, probes=(probe,))


def measured(*strategies: str, **more) -> RetrievalReport:
    return measure_retrieval(BENCHMARK, strategies, embedding="lexical", **more)


def row(report: RetrievalReport, strategy: str, kind: str) -> RetrievalRow:
    (found,) = [row for row in report.rows if (row.strategy, row.kind) == (strategy, kind)]
    return found


def test_rank_decides_hits_and_reciprocal_rank():
    report = measured(RIGHT, THIRD)
    first, third = row(report, RIGHT, "efficacy"), row(report, THIRD, "efficacy")
    assert (first.n, first.hit_at_1, first.hit_at_5, first.mrr) == (6, 1.0, 1.0, 1.0)
    assert (third.hit_at_1, third.hit_at_5) == (0.0, 1.0)
    assert third.mrr == pytest.approx(1 / 3)
    assert first.low is not None and 0 < first.low < 1 and first.high == 1.0  # Wilson: six of six is no certainty
    assert third.low == 0.0 and third.high is not None and third.high > 0


def test_the_edits_of_all_cases_lie_in_one_memory():
    assert (measured(RIGHT).edits, measured(RIGHT).entries) == (6, 6)
    assert measured(RIGHT, limit=2).entries == 2
    crowded = measured(f"{HERE}:Last", options={"cases": "40"})
    assert row(crowded, f"{HERE}:Last", "efficacy").hit_at_5 == 0.0


class Last(Right):
    """The right entry one place deeper than is looked."""

    shift = DEPTH


def test_what_lies_deeper_than_is_looked_counts_nothing():
    found = row(measured(f"{HERE}:Last", options={"cases": "40"}), f"{HERE}:Last", "efficacy")
    assert found.mrr == 0.0


def test_false_hits_are_counted_out_of_scope_only():
    report = measured(RIGHT, SILENT, options={"probes": "2"})
    always, silent = row(report, RIGHT, "neighborhood"), row(report, SILENT, "neighborhood")
    assert (always.n, always.false_hits, always.hit_at_1, always.mrr) == (12, 1.0, 0.0, 0.0)
    assert (silent.hit_at_1, silent.hit_at_5, silent.mrr) == (1.0, 1.0, 1.0)
    assert silent.false_hits == 0.0 and silent.low is not None and 0 < silent.low < 1
    assert row(report, SILENT, "efficacy").false_hits is None
    assert row(report, SILENT, "efficacy").hit_at_1 == 1.0
    told = " ".join(retrieval_notes(report))
    assert f"{RIGHT} returned something for every probe" in told and f"{SILENT} returned" not in told


def test_default_is_the_strategy_that_a_run_uses():
    assert RunConfig(benchmark=BENCHMARK, editors=("rag",)).retriever == "default"
    assert {row.strategy for row in measure_retrieval(BENCHMARK, embedding="lexical").rows} == {"default"}


def test_probes_that_name_no_edit_are_counted_not_scored():
    report = measure_retrieval(f"{HERE}:Unsaid", [RIGHT], embedding="lexical", options={"some": "1"})
    assert report.skipped == 3 and row(report, RIGHT, "asked").n == 3
    assert any("3 probes" in note for note in retrieval_notes(report))
    with pytest.raises(BadData, match="none of 6 probes"):
        measure_retrieval(f"{HERE}:Unsaid", [RIGHT], embedding="lexical")


def test_a_strategy_that_finds_nothing_hits_nothing_in_scope_and_out_of_it():
    report = measured("none", "dense")
    assert row(report, "none", "efficacy").hit_at_1 == row(report, "none", "efficacy").mrr == 0.0
    assert row(report, "none", "neighborhood").false_hits == 0.0
    assert row(report, "dense", "neighborhood").false_hits == 1.0


def test_a_chain_is_measured_under_its_own_name():
    found = row(measured("focus>bm25"), "focus>bm25", "efficacy")
    assert (found.n, found.hit_at_1) == (6, 1.0)


def test_a_case_given_twice_counts_once():
    assert row(measured(RIGHT, options={"twice": "1"}), RIGHT, "efficacy").n == 6


def test_time_is_positive_and_the_embedding_apart():
    encoder = TimedEmbedding(LexicalEmbedding())
    assert encoder.seconds == 0.0
    encoder.documents(["a"])
    assert encoder.seconds == 0.0
    encoder.queries(["The capital of Land1 is"] * 50)
    assert encoder.seconds > 0.0
    assert all(math.isfinite(row.ms) and row.ms > 0 for row in measured("dense").rows)


@pytest.mark.parametrize(
    ("strategies", "more", "told"),
    [
        (["dens"], {}, "did you mean 'dense'"),
        (["dense"], {"setting": "plane"}, "did you mean 'plain'"),
        (["dense"], {"limit": 0}, "limit is 0"),
    ],
)
def test_what_is_impossible_is_told_with_the_remedy(strategies, more, told):
    with pytest.raises(BadSettings, match=told):
        measured(*strategies, **more)


@pytest.fixture
def emend(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    """Calls the command line in this process: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EMEND_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "160")

    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["emend", "retrieval", "--embedding", "lexical", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
            sys.exit(0)
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call


def test_json_has_a_row_per_strategy_and_kind(emend):
    code, out, _ = emend("--benchmark", BENCHMARK, "--strategy", "dense", "--strategy", "bm25", "--json")
    rows = json.loads(out)["rows"]
    assert code == 0
    assert [(row["kind"], row["strategy"]) for row in rows] == [
        ("efficacy", "dense"), ("efficacy", "bm25"), ("neighborhood", "dense"), ("neighborhood", "bm25"),
    ]  # fmt: skip
    for row in rows:
        assert list(row) == ["strategy", "kind", "n", "hit@1", "hit@5", "mrr", "low", "high", "ms"]
    assert rows[0]["hit@1"] == 1.0 and rows[2]["hit@1"] == 0.0


def test_the_table_says_what_the_rows_say(emend):
    code, out, _ = emend("--benchmark", BENCHMARK, "--strategy", RIGHT, "--strategy", THIRD, "--option", "cases=4")
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert any(words[:4] == ["efficacy", RIGHT, "4", "100.0"] for words in lines)
    assert any(words[:3] == [THIRD, "4", "0.0"] and "0.333" in words for words in lines)
    assert "4 edits, 4 entries" in out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--benchmark", "doctor"], "did you mean 'docter'"),
        (["--benchmark", BENCHMARK, "--strategy", "bm52"], "did you mean 'bm25'"),
        (["--benchmark", BENCHMARK, "--setting", "laud"], "did you mean 'loud'"),
        (["--benchmark", BENCHMARK, "--option", "cases"], "no key=value"),
        (["--benchmark", BENCHMARK, "--keep", "0.9"], "--keep 0.9 belongs to --calibrate"),
        (["--benchmark", BENCHMARK, "--calibrate", "efficacy", "--keep", "2"], "keep=2.0: give a share"),
    ],
)
def test_a_wrong_name_is_one_line_and_exit_code_2(emend, words, told):
    code, out, err = emend(*words)
    assert (code, out) == (2, "")
    assert told in err and err.count("\n") == 1


def test_a_seed_below_zero_is_refused_by_its_range(emend):
    code, out, err = emend("--benchmark", BENCHMARK, "--seed", "-1")
    assert (code, out) == (2, "") and "'--seed'" in err and "0" in err


def test_one_strategy_needs_no_name(emend):
    code, out, _ = emend("--benchmark", BENCHMARK, "--json")
    assert code == 0 and {row["strategy"] for row in json.loads(out)["rows"]} == {"default"}


def test_gold_is_told_the_probe_and_finds_nothing_out_of_scope():
    report = measured("gold")
    assert row(report, "gold", "efficacy").hit_at_1 == row(report, "gold", "neighborhood").hit_at_1 == 1.0


def test_a_threshold_is_found_on_the_right_hits_of_a_kind_and_tried_on_what_is_out_of_scope():
    report = measured("dense", calibrate_on="efficacy", keep=1.0)
    told = {found.by: found for found in report.thresholds}
    assert set(told) == {"score", "lead"} and told["score"].kind == "neighborhood"
    kept = measured(f"dense>threshold(least={told['score'].least})")
    (name,) = {found.strategy for found in kept.rows}
    assert row(kept, name, "efficacy").hit_at_1 == 1.0
    assert row(kept, name, "neighborhood").false_hits == pytest.approx(told["score"].false_hits)
    with pytest.raises(BadSettings, match="did you mean 'efficacy'"):
        measured("dense", calibrate_on="efficacie")


def test_the_table_of_thresholds_is_shown(emend):
    code, out, _ = emend("--benchmark", BENCHMARK, "--calibrate", "efficacy", "--keep", "0.9")
    assert code == 0 and "thresholds that keep 90 %" in out
    assert any(line.split()[:2] == ["default", "lead"] for line in out.splitlines())


@pytest.mark.parametrize("name", ["hits.png", "hits.svg"])
def test_hits_are_drawn_for_several_settings(emend, tmp_path, name):
    pytest.importorskip("matplotlib", reason="pip install 'emend[plot]'")
    code, out, _ = emend(
        "--benchmark", BENCHMARK, "--setting", "plain", "--setting", "loud",
        "--strategy", "dense", "--strategy", "bm25", "--plot", str(tmp_path / name),
    )  # fmt: skip
    drawn = (tmp_path / name).read_bytes()
    assert code == 0 and "plain" in out and "loud" in out
    assert drawn.startswith(b"\x89PNG") if name.endswith("png") else b"<svg" in drawn


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--plot", "hits.gif"], "must be .png or .svg"),
        (["--plot", "nowhere/hits.png"], "no folder 'nowhere'"),
        (["--setting", "plain", "--setting", "loud", "--json"], "one --setting at a time"),
    ],
)
def test_what_cannot_be_shown_is_told_before_it_is_measured(emend, words, told):
    code, out, err = emend("--benchmark", BENCHMARK, *words)
    assert (code, out) == (2, "") and told in err


def test_at_80_columns_no_number_is_cut(emend, monkeypatch):
    long = "focus>hybrid>threshold(least=0.5,by=lead)"
    told = ["--benchmark", BENCHMARK, "--strategy", "dense", "--strategy", long, "--calibrate", "efficacy"]
    monkeypatch.setenv("COLUMNS", "80")
    _, narrow, _ = emend(*told)
    monkeypatch.setenv("COLUMNS", "200")
    _, wide, _ = emend(*told)
    assert "…" not in narrow and max(map(len, narrow.splitlines())) <= 80
    cells = [re.findall(r"-?\d+\.\d+", text.split("thresholds")[0]) for text in (narrow, wide)]
    assert len(cells[0]) == len(cells[1]) == 18


def test_json_has_the_thresholds_that_were_asked_for(emend):
    told = ("--benchmark", BENCHMARK, "--strategy", "dense", "--calibrate", "efficacy", "--json")
    found = json.loads(emend(*told)[1])
    assert [row["by"] for row in found["thresholds"]] == ["score", "lead"]
    assert all(isinstance(row["least"], float) for row in found["thresholds"])
    assert "thresholds" not in json.loads(emend(*told[:4], "--json")[1])


class Boom:
    """A strategy that breaks."""

    def __init__(self, corpus: Corpus) -> None:
        pass

    def search(self, query: str, k: int) -> list[Hit]:
        raise KeyError("boom")


def none() -> None:
    """Takes no corpus."""


@pytest.mark.parametrize(
    ("strategy", "told"),
    [
        (f"{HERE}:Boom", f"strategy '{HERE}:Boom' fails on .*KeyError: 'boom'"),
        (f"{HERE}:none", f"retriever '{HERE}:none' takes no corpus"),
        ("default(dense=x)", "setting 'dense' of retriever 'default': .*number.*seen: 'x'"),
        ("default(dense=NaN)", "setting 'dense' of retriever 'default': .*finite"),
        ("bm25(k1=abc)", "setting 'k1' of retriever 'bm25': .*seen: 'abc'"),
    ],
)
def test_a_strategy_that_cannot_work_is_named(emend, strategy, told):
    code, _, err = emend("--benchmark", BENCHMARK, "--strategy", strategy)
    assert code == 2 and re.search(told, err) and "Traceback" not in err


class Named:
    """A strategy with a setting, and a name that only type checkers know."""

    def __init__(self, corpus: Corpus, wanted: "OnlyForTypeCheckers | None" = None, k1: float = 1.0) -> None:  # type: ignore[name-defined]  # noqa: F821
        self.inner = Right(corpus)

    def search(self, query: str, k: int) -> list[Hit]:
        return self.inner.search(query, k)


def test_a_plug_in_whose_annotations_cannot_be_read_takes_settings_all_the_same(emend):
    code, out, err = emend("--benchmark", BENCHMARK, "--strategy", f"{HERE}:Named(k1=2.0)")
    assert code == 0 and "Traceback" not in err and "Named(k1=2.0)" in out
