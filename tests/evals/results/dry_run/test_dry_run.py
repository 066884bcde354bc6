"""Estimates of runs beside what the same runs then need, of a stand-in and of a model that asks nobody."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.run import run
from emend.evals.log.baseline import read_baseline
from emend.evals.log.records import read_records
from emend.evals.results.dry_run import price, sample
from emend.evals.results.dry_run.duration import SPREAD
from emend.evals.results.dry_run.estimate import COUNTS
from emend.evals.results.dry_run.run import dry_run
from emend.evals.results.dry_run.stand_in import HOPS, ScoringStandIn, StandIn, stand_in_for
from emend.evals.show.report.estimates import dry_run_lines
from emend.evals.show.report.progress import duration
from emend.memory.errors import BadSettings
from tests.params import first_quick

EDITORS = ("unedited", "rag", "mello", "agent")


def config(**changed: Any) -> RunConfig:
    fields: dict[str, Any] = {"benchmark": "tinyworld", "editors": EDITORS, "model": "openai:none", "limit": 6}
    return RunConfig.model_validate(fields | {"embedding": "lexical"} | changed)


@pytest.fixture(scope="module", autouse=True)
def small_sample() -> Iterator[None]:
    """Sample half as many cases as the runs have."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sample, "SAMPLE", 3)
        yield


@pytest.fixture(scope="module")
def estimate(small_sample: None) -> Any:
    return dry_run(config())


@pytest.mark.slow
def test_an_estimate_is_near_what_the_run_needs(estimate: Any, tmp_path: Path) -> None:
    summary = run(config(), tmp_path / "x", model=StandIn(text="a word"))
    assert estimate.total("units") == summary.units == 24
    needed = dict.fromkeys(EDITORS, 0)
    for record in read_records(tmp_path / "x"):
        if not record.from_baseline:
            needed[record.editor] += record.usage.calls
    needed["baseline"] = sum(answer.usage.calls for _, answer in read_baseline(tmp_path / "x"))
    assert {row.editor: row.calls for row in estimate.rows} == pytest.approx(needed, rel=0.1)
    assert min(row.calls for row in estimate.rows) > 0
    assert estimate.total("input_tokens") == pytest.approx(summary.input_tokens, rel=0.1)


@pytest.mark.slow
def test_decompositions_and_tools_take_their_calls(estimate: Any) -> None:
    calls = {row.editor: row.calls for row in estimate.rows}
    steps_and_checks = 2 * HOPS + 1  # in the form `structured`, with the final answer
    assert (calls["mello"], calls["agent"]) == pytest.approx((steps_and_checks * calls["rag"], 2 * calls["rag"]), abs=2)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["single", "sequential"])
def test_an_agent_that_writes_takes_the_calls_by_which_it_reads_the_edits(mode: str, tmp_path: Path) -> None:
    writing = config(editors=("rag", "agent"), overrides={"agent": {"writes": True}}, mode=mode)
    model = StandIn(text="a word")
    run(writing, tmp_path / "x", model=model)
    estimate = dry_run(writing)
    assert estimate.total("calls") == pytest.approx(model.usage.calls, rel=0.1)
    assert estimate.total("input_tokens") == pytest.approx(model.usage.input_tokens, rel=0.1)
    calls = {row.editor: row.calls for row in estimate.rows}
    assert calls["agent"] > 2 * calls["rag"] + 2, "two for an answer, as without writing, and two for an edit"


@pytest.mark.slow
def test_a_form_by_name_takes_the_calls_of_that_form() -> None:
    estimate = dry_run(config(editors=("rag", "mello"), overrides={"mello": {"form": "text"}}))
    calls = {row.editor: row.calls for row in estimate.rows}
    assert calls["mello"] == pytest.approx((HOPS + 1) * calls["rag"], abs=2)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["structured", "text"])
def test_a_walk_takes_a_call_for_the_plan_and_for_hops_and_none_for_a_question_that_is_an_edits_own(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample, "SAMPLE", 6)  # all cases: three have fewer edits' own questions than the others
    overrides = {"kg_walk": {"form": form}}
    calls = {row.editor: row.calls for row in dry_run(config(editors=("rag", "kg_walk"), overrides=overrides)).rows}
    assert 2 <= calls["kg_walk"] / calls["rag"] < 3


@pytest.mark.slow
def test_cost_and_time_are_those_of_the_whole_run(estimate: Any, tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text('currency = "EUR"\n[models."openai:none"]\ninput = 2.0\noutput = 8.0\n')
    limits = {"prices": str(tmp_path / "prices.toml"), "editors": ("rag",), "concurrency": 2}
    whole = dry_run(config(**limits))
    calls, tokens_in, tokens_out = map(whole.total, COUNTS)
    assert whole.cost == pytest.approx((2 * tokens_in + 8 * tokens_out) / 1e6)
    assert whole.seconds == calls / 2
    half = dry_run(config(**limits, share="1/2", rpm=6, repeats=2))
    assert half.total("calls") == pytest.approx(calls, abs=2)
    assert half.seconds == pytest.approx(half.total("calls") / 6 * 60 * 2)
    assert "EUR" in dry_run_lines(whole)[-2] and "no price" in dry_run_lines(estimate)[-2]


@pytest.mark.slow
def test_a_local_model_scores_costs_nothing_and_is_not_loaded(tmp_path: Path) -> None:
    local = dry_run(config(model="hf:nowhere", editors=("rag", "rome"), mode="sequential", reevaluate_at="2,end"))
    rag, rome, _ = local.rows
    assert (local.cost, local.seconds) == (None, None)
    assert " to " not in dry_run_lines(local)[-2], "of a model of unknown size no time is known"
    assert rag.units == rome.units == 6 + 2 + 6 and rome.calls > 0
    assert ScoringStandIn(text="a").score("p", ["a", "b"]).usage.calls == 1


@pytest.mark.slow
def test_a_local_model_of_known_size_has_a_range_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(price, "local_seconds", lambda config, rows, parameters: 60.0)
    local = dry_run(config(model="tiny", editors=("rag", "rome"), limit=2))
    assert local.seconds and 60 < local.seconds < 600, "the start, which takes what the dry run took, is in it"
    low, high = (duration(end) for end in (local.seconds / SPREAD, local.seconds * SPREAD))
    assert f"{low} to {high} at this machine's current speed" in dry_run_lines(local)[-2]


@pytest.mark.slow
def test_replies_of_a_local_model_go_on_towards_their_limit_and_further_without_an_edit() -> None:
    editors = ("unedited", "rag", "rome")
    short, long = (
        [row.output_tokens for row in dry_run(config(model="tiny", editors=editors, limit=2, overrides=limit)).rows]
        for limit in ({"model": {"max_new_tokens": 16}}, {"model": {"max_new_tokens": 64}})
    )
    assert all(tokens > 2 * before > 0 for tokens, before in zip(long, short, strict=True))
    unedited, rag, rome, baseline = long
    assert unedited + baseline == rome == 2 * rag


@pytest.mark.slow
def test_texts_whose_perplexity_is_measured_count_for_editors_of_weights_alone() -> None:
    editors = ("rag", "ft")
    read, unread, together = (
        dry_run(config(model="tiny", editors=editors, limit=2, **options)).rows
        for options in ({"mode": "single"}, {"mode": "single", "perplexity_text": "none"}, {"mode": "all"})
    )
    assert [row.perplexity_tokens for row in read[:2]] == [0, 2 * together[1].perplexity_tokens]
    assert unread[1].perplexity_tokens == 0 < together[1].perplexity_tokens


@pytest.mark.slow
@pytest.mark.parametrize(("options", "times"), first_quick([({"mode": "sequential"}, 1), ({"mode": "single"}, 2)]))
def test_questions_on_ability_are_read_after_each_edit_alone_and_at_checkpoints(options: Any, times: int) -> None:
    run = {"model": "tiny", "editors": ("ft",), "limit": 2, "perplexity_text": "none", **options}
    one = dry_run(config(**run | {"limit": 1, "mode": "single"}, ability=("built_in",))).total("perplexity_tokens")
    again = {"reevaluate_at": "end"} if options["mode"] == "sequential" else {}
    assert one > 0 and dry_run(config(**run, **again, ability=("built_in",))).total("perplexity_tokens") == times * one


def test_ability_is_checked_with_the_runs_own_editors() -> None:
    with pytest.raises(BadSettings, match="--ability"):
        dry_run(config(model="tiny", editors=("rag",), limit=1, ability=("built_in",)))


@pytest.mark.slow
def test_a_setting_that_an_editor_cannot_write_asks_nothing() -> None:
    rows = dry_run(config(model="tiny", editors=("rome",), settings=("triplet", "document"), limit=2)).rows
    assert [(row.setting, row.calls > 0) for row in rows] == [("triplet", True), ("document", False), ("", True)]


@pytest.mark.slow
def test_units_of_a_sequence_need_what_units_alone_need() -> None:
    alone, sequence = (
        dry_run(config(editors=("rag",), **options)).rows[0]
        for options in ({"mode": "single"}, {"mode": "sequential", "reevaluate_at": "2,end"})
    )
    assert (alone.units, sequence.units) == (6, 6 + 2 + 6)
    assert sequence.calls / sequence.units == pytest.approx(alone.calls / alone.units, rel=0.05)


def test_a_model_that_no_run_could_load_has_no_estimate() -> None:
    with pytest.raises(BadSettings, match="openai:gpt-4o"):
        dry_run(config(model="gpt-4o", limit=1))


@pytest.mark.parametrize(
    ("model", "scores"),
    [("openai:gpt", False), ("my_model:Model", False), ("vllm:m@http://h/v1", True), ("tiny", True)],
)
def test_a_model_is_taken_to_score_where_its_provider_does(model: str, scores: bool) -> None:
    assert issubclass(stand_in_for(model), ScoringStandIn) == scores
