"""Retrieval is measured on probes with known relevance, with the edits of all cases in one memory."""

import math
from collections.abc import Iterator

import pytest

from emend.evals.case import Case
from emend.evals.config.measure_config import RetrievalConfig
from emend.evals.config.run_config import RunConfig
from emend.evals.measure.retrieval import DEPTH, RetrievalReport, RetrievalRow, TimedEmbedding, measure_retrieval
from emend.evals.show.report.measurements import retrieval_notes
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import BadData, BadSettings
from emend.memory.probe import Probe
from emend.memory.retrieval.base import Hit
from tests.evals.toy_strategies import RIGHT, THIRD, Right
from tests.evals.toys import BENCHMARK, ToyBenchmark

HERE = "tests.evals.measure.test_retrieval"
SILENT = f"{HERE}:Silent"


class Silent(Right):
    """Nothing, unless a capital is asked for."""

    def search(self, query: str, k: int) -> list[Hit]:
        return super().search(query, k) if "capital" in query else []


class Unsaid(ToyBenchmark):
    """Probes in scope that do not say which edit bears on them; with option `some` every second one does."""

    def cases(self, setting: str, limit: int | None = None, seed: int = 0) -> Iterator[Case]:
        for place, case in enumerate(super().cases(setting, limit, seed)):
            result = self.options.get("some") and place % 2
            probe = Probe(kind="asked", prompt="The capital of Land0 is", gold=("x",),
                          edit_ids=case.probes[0].edit_ids if result else ())  # fmt: skip
            yield Case(edits=case.edits, probes=(probe,))


def measured(*strategies: str, **more) -> RetrievalReport:
    return only(strategies=strategies, **more)


def only(**config) -> RetrievalReport:
    (report,) = measure_retrieval(
        RetrievalConfig.model_validate({"benchmark": BENCHMARK, "embedding": "lexical"} | config)
    )
    return report


def row(report: RetrievalReport, strategy: str, kind: str) -> RetrievalRow:
    (item,) = [row for row in report.rows if (row.strategy, row.kind) == (strategy, kind)]
    return item


def test_rank_decides_hits_and_reciprocal_rank():
    report = measured(RIGHT, THIRD)
    first, third = row(report, RIGHT, "efficacy"), row(report, THIRD, "efficacy")
    assert (first.n, first.hit_at_1, first.hit_at_5, first.mrr) == (6, 1.0, 1.0, 1.0)
    assert (third.hit_at_1, third.hit_at_5) == (0.0, 1.0)
    assert third.mrr == pytest.approx(1 / 3)
    assert first.low is not None and 0 < first.low < 1 and first.high == 1.0  # Wilson: six of six is no certainty
    assert third.low == 0.0 and third.high is not None and third.high > 0
    assert row(measured(RIGHT, benchmark_options={"twice": "1"}), RIGHT, "efficacy").n == 6  # a repeated case is one


def test_the_edits_of_all_cases_are_in_one_memory():
    assert (measured(RIGHT).edits, measured(RIGHT).entries) == (6, 6)
    assert measured(RIGHT, limit=2).entries == 2
    crowded = measured(f"{HERE}:Last", benchmark_options={"cases": "40"})
    last = row(crowded, f"{HERE}:Last", "efficacy")
    assert last.hit_at_5 == last.mrr == 0.0


class Last(Right):
    """The right entry one place deeper than is looked."""

    shift = DEPTH


def test_false_hits_are_counted_out_of_scope_only():
    report = measured(RIGHT, SILENT, benchmark_options={"probes": "2"})
    always, silent = row(report, RIGHT, "neighborhood"), row(report, SILENT, "neighborhood")
    assert (always.n, always.false_hits, always.hit_at_1, always.mrr) == (12, 1.0, 0.0, 0.0)
    assert (silent.hit_at_1, silent.hit_at_5, silent.mrr) == (1.0, 1.0, 1.0)
    assert silent.false_hits == 0.0 and silent.low is not None and 0 < silent.low < 1
    assert row(report, SILENT, "efficacy").false_hits is None
    assert row(report, SILENT, "efficacy").hit_at_1 == 1.0
    result = " ".join(retrieval_notes(report))
    assert f"{RIGHT} returned hits for all probes" in result and f"{SILENT} returned" not in result


def test_the_default_strategy_is_that_of_a_run_and_a_chain_is_measured_under_its_own_name():
    assert RunConfig(benchmark=BENCHMARK, editors=("rag",)).retriever == "default"
    assert {row.strategy for row in only().rows} == {"default"}
    result = row(measured("focus>bm25"), "focus>bm25", "efficacy")
    assert (result.n, result.hit_at_1) == (6, 1.0)


def test_probes_that_name_no_edit_are_counted_not_scored():
    report = only(benchmark=f"{HERE}:Unsaid", strategies=(RIGHT,), benchmark_options={"some": "1"})
    assert report.skipped == 3 and row(report, RIGHT, "asked").n == 3
    assert any("3 probes" in note for note in retrieval_notes(report))
    with pytest.raises(BadData, match="none of 6 probes"):
        only(benchmark=f"{HERE}:Unsaid", strategies=(RIGHT,))


def test_a_strategy_that_finds_nothing_hits_nothing_in_scope_and_out_of_it():
    report = measured("none", "dense")
    assert row(report, "none", "efficacy").hit_at_1 == row(report, "none", "efficacy").mrr == 0.0
    assert row(report, "none", "neighborhood").false_hits == 0.0
    assert row(report, "dense", "neighborhood").false_hits == 1.0


def test_time_is_positive_and_excludes_the_embedding():
    encoder = TimedEmbedding(LexicalEmbedding())
    assert encoder.seconds == 0.0
    encoder.documents(["a"])
    assert encoder.seconds == 0.0
    encoder.queries(["The capital of Land1 is"] * 50)
    assert encoder.seconds > 0.0
    assert all(math.isfinite(row.ms) and row.ms > 0 for row in measured("dense").rows)


@pytest.mark.parametrize(
    ("strategies", "more", "told"),
    [(["dens"], {}, "did you mean 'dense'"), (["dense"], {"settings": ("plane",)}, "did you mean 'plain'")],
)
def test_invalid_names_are_refused_with_a_remedy(strategies, more, told):
    with pytest.raises(BadSettings, match=told):
        measured(*strategies, **more)


def test_the_gold_retriever_finds_nothing_out_of_scope():
    report = measured("gold")
    assert row(report, "gold", "efficacy").hit_at_1 == row(report, "gold", "neighborhood").hit_at_1 == 1.0


def test_a_threshold_is_calibrated_on_correct_hits_and_applied_out_of_scope():
    report = measured("dense", calibrate="efficacy", keep=1.0)
    by_name = {item.by: item for item in report.thresholds}
    assert set(by_name) == {"score", "lead"} and by_name["score"].kind == "neighborhood"
    result = measured(f"dense>threshold(least={by_name['score'].least})")
    (name,) = {item.strategy for item in result.rows}
    assert row(result, name, "efficacy").hit_at_1 == 1.0
    assert row(result, name, "neighborhood").false_hits == pytest.approx(by_name["score"].false_hits)
    with pytest.raises(BadSettings, match="did you mean 'efficacy'"):
        measured("dense", calibrate="efficacie")
