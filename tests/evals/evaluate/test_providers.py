"""Runs against a provider on 127.0.0.1 that fails: nothing is lost, doubled or shown, and limits hold."""

import time
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.evaluate import PassEvaluator
from emend.evals.evaluate.run import run
from emend.evals.evaluate.setup.run_setup import load_setup
from emend.evals.jobs.failures import IN_A_ROW
from emend.evals.jobs.results import Summary
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import read_records
from emend.memory.errors import BadSettings, BudgetReached, TooManyFailures
from tests.evals.toys import BENCHMARK
from tests.provider.models import asked_model
from tests.provider.protocols import Asked, Raw
from tests.provider.server import Provider

PRICES = '[models."openai:any-model"]\ninput = 1000\noutput = 1000\n'


pytestmark = pytest.mark.usefixtures("keys")


def config(provider: Provider, protocol: str = "chat", **changed: Any) -> RunConfig:
    fields = {"benchmark": BENCHMARK, "editors": ("rag",), "embedding": "lexical", "model": provider.spec(protocol)}
    return RunConfig.model_validate(fields | {"retriever": "bm25", "fail_on_error": "false"} | changed)


def knows(asked: Asked) -> str:
    """The capital of the land that is asked about last, as a fact in the prompt has it."""
    return asked.prompt.partition(" is ")[2].partition(".")[0] or "nothing"


@pytest.mark.slow
def test_a_provider_that_only_fails_stops_the_run_and_loses_nothing(tmp_path):
    with Provider(knows, choose=lambda number: "500" if number >= 8 else "") as provider:
        plan = config(provider, benchmark_options={"cases": "60"}, concurrency=2)
        with pytest.raises(TooManyFailures, match=f"{IN_A_ROW} units in a row failed in the same way"):
            run(plan, tmp_path / "run", model=asked_model(provider))
        records = len(list(read_records(tmp_path / "run")))
        assert records and provider.count < 80
        provider.choose = lambda number: ""
        run(plan, tmp_path / "run", model=asked_model(provider))
    assert len(list(read_records(tmp_path / "run"))) == 120 > records


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("401", "KeyRefused.*Check the key"),
        ("403", "KeyRefused.*Check the key"),
        ("429-day", "ProviderPaused.*a pause of 1 day, 0:00:00: resume after .* UTC"),
    ],
)
def test_what_no_retry_helps_against_stops_the_run_at_once(fault, says, tmp_path):
    with Provider(knows, choose=lambda number: fault if number else "") as provider:
        plan = config(provider, benchmark_options={"cases": "60"}, concurrency=1)
        with pytest.raises(TooManyFailures, match=says):
            run(plan, tmp_path / "run", model=asked_model(provider))
        assert provider.count == 2


def test_tool_calls_that_nobody_asked_for_are_unscored(tmp_path):
    with Provider(knows, choose=lambda number: "uninvited-call") as provider:
        run(config(provider, benchmark_options={"cases": "2"}), tmp_path / "run", model=asked_model(provider))
    reasons = [set(record.unscored.values()) for record in read_records(tmp_path / "run")]
    assert len(reasons) == 4 and all("expected a reply, but it is empty" in str(reason) for reason in reasons)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "failed", "further_calls"),
    [
        ({"error": {"message": "The moon is full."}}, 1, 3),
        ({"error": {"code": "tool_use_failed", "message": "Failed to call a function."}}, 0, 0),
        ({"error": {"message": "Range of input length should be [1, 30720]"}}, 0, 0),
    ],
    ids=["unclear", "bad reply", "window"],
)
def test_a_rejected_probe_is_unscored_and_not_paid_for_at_each_resume(body, failed, further_calls, tmp_path):
    def reply(asked: Asked) -> str | Raw:
        return Raw(body, 400) if "Land1" in asked.prompt else knows(asked)

    with Provider(reply) as provider:
        plan = config(provider, benchmark_options={"cases": "2"}, concurrency=1)
        assert run(plan, tmp_path / "run", model=asked_model(provider)).failed == failed
        before = provider.count
        summaries = [run(plan, tmp_path / "run", model=asked_model(provider)) for _ in range(3)]
    assert summaries[-1].failed == 0 and provider.count == before + further_calls
    [first, second] = [record for record in read_records(tmp_path / "run") if "Land1" in record.prompt]
    for reason in (first.unscored["em"], second.unscored["agreement"]):
        assert body["error"]["message"].rstrip(".") in reason


@pytest.mark.slow
def test_calls_never_pass_their_limit_and_the_run_goes_on_with_another(tmp_path):
    with Provider(knows, latency=0.01) as provider:
        plan = config(provider, benchmark_options={"cases": "12"}, max_calls=10)
        with pytest.raises(BudgetReached, match="--max-calls 10"):
            run(plan, tmp_path / "run")
        assert provider.count == 10 == spent(tmp_path)["requests"]
        summary = run(plan.model_copy(update={"max_calls": 1000}), tmp_path / "run")
    assert (summary.units, summary.failed, len(list(read_records(tmp_path / "run")))) == (12, 0, 24)
    assert spent(tmp_path)["requests"] == provider.count <= 36 + 4  # what was in work is asked again


@pytest.mark.slow
def test_concurrency_is_the_number_of_calls_in_flight_and_twice_as_many_units_are_under_way(tmp_path, monkeypatch):
    units = AtOnce(PassEvaluator._evaluate_unit)
    monkeypatch.setattr(PassEvaluator, "_evaluate_unit", lambda *asked: units(*asked))

    def hold(asked):
        """Replies when as many are under way as there should be, however slow the machine is."""
        end = time.monotonic() + 60
        while (provider.most_at_once < 3 or units.most < 6) and time.monotonic() < end:
            time.sleep(0.002)
        return knows(asked)

    with Provider(hold, latency=0.02) as provider:
        run(config(provider, benchmark_options={"cases": "12"}, concurrency=3), tmp_path / "run")
    assert (provider.most_at_once, units.most) == (3, 6)


class AtOnce:
    """Counts how many threads are inside of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.lock, self.now, self.most = function, Lock(), 0, 0

    def __call__(self, *asked: Any) -> Any:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        try:
            return self.function(*asked)
        finally:
            with self.lock:
                self.now -= 1


def spent(folder: Path) -> dict[str, Any]:
    (item,) = Manifest.read(folder / "run").spent.values()
    return item.model_dump()


@pytest.mark.slow
def test_cost_stops_the_run_and_stands_in_summary_and_manifest(tmp_path):
    (tmp_path / "prices.toml").write_text(PRICES, encoding="utf-8")
    with Provider(knows) as provider:
        plan = config(provider, benchmark_options={"cases": "12"}, prices=str(tmp_path / "prices.toml"), concurrency=1)
        with pytest.raises(BudgetReached, match="--max-cost 0.1"):
            run(plan.model_copy(update={"max_cost": 0.1}), tmp_path / "run")
        assert 0.05 < spent(tmp_path)["cost"] <= 0.1
        summary = run(plan, tmp_path / "run")
    (now,) = summary.spent.values()
    assert now.cost == pytest.approx((now.input_tokens + now.output_tokens) / 1000) and now.requests == now.replies
    assert spent(tmp_path)["cost"] == pytest.approx((now.cost or 0) + 0.1, abs=0.06)
    manifest = Manifest.read(tmp_path / "run")
    assert manifest.prices == {
        "currency": "USD",
        "models": {"openai:any-model": {"input": 1000.0, "output": 1000.0, "cache_read": None, "cache_write": None}},
    }
    sent = {key: value for key, value in provider.requests[0].body.items() if key != "messages"}
    assert manifest.model["parameters"] == sent and sent["temperature"] == 0


@pytest.mark.slow
def test_a_second_run_with_the_same_cache_asks_nothing_and_says_the_same(tmp_path):
    with Provider(knows) as provider:
        plan = config(provider, benchmark_options={"cases": "4"}, cache=str(tmp_path / "kept"), repeats=2)
        first = run(plan, tmp_path / "one")
        count = provider.count
        again = run(plan, tmp_path / "two")
    assert provider.count == count > 0 and first.calls == count
    assert (again.calls, again.input_tokens, again.finished) == (0, 0, 8)
    (now,) = again.spent.values()
    assert (now.requests, now.cached, now.cost) == (0, count, None)
    answers = [{r.probe: (r.answer, r.values) for r in read_records(tmp_path / name)} for name in ("one", "two")]
    assert answers[0] == answers[1]
    assert sum(r.usage.cached for r in read_records(tmp_path / "two")) > 0


def test_limits_of_a_model_without_a_provider_are_refused(tmp_path):
    (tmp_path / "p.toml").write_text('[models."tiny"]\ninput = 1\noutput = 1\n', encoding="utf-8")
    limits: dict[str, Any] = {"rpm": 5.0, "max_calls": 5, "max_cost": 1.0, "prices": str(tmp_path / "p.toml")}
    with Provider() as provider:
        plan = config(provider, model="tiny", cache=str(tmp_path / "kept"), **limits)
        with pytest.raises(
            BadSettings, match="--rpm and --max-cost and --max-calls and --prices and --cache with model"
        ):
            run(plan, tmp_path / "run")


@pytest.mark.slow
def test_limits_hold_for_an_editor_s_second_model_where_the_first_is_local(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
    config = RunConfig(
        benchmark="tinyworld",
        editors=("serac",),
        overrides={"serac": {"counterfactual": "openai:other"}},
        max_calls=3,
        embedding="lexical",
    )
    parts = load_setup(config, tmp_path)
    second = parts.editors.editor("serac", "triplet").counterfactual  # type: ignore[attr-defined]
    assert second.policy is parts.policy
    parts.policy.close()


def test_the_summary_counts_what_the_provider_saw(tmp_path):
    with Provider(knows, faults=["500", "429"]) as provider:
        summary: Summary = run(
            config(provider, benchmark_options={"cases": "3"}), tmp_path / "run", model=asked_model(provider)
        )
    (now,) = summary.spent.values()
    assert (now.requests, now.retries, now.requests - now.replies) == (provider.count, 2, 2)
    assert summary.calls == now.replies and now.seconds_waited > 0


def test_what_a_unit_was_answered_before_the_provider_failed_is_not_asked_again(tmp_path):
    with Provider(knows, strike=lambda asked: "404" if provider.count > 1 else "") as provider:
        plan = config(provider, benchmark_options={"cases": "1"}, editors=("rag",))
        failed = run(plan, tmp_path / "run")
        assert (failed.failed, failed.records) == (1, 0)
        first = provider.count
        provider.strike = lambda asked: ""
        summary = run(plan, tmp_path / "run")
    assert (summary.failed, summary.records) == (0, 2)
    assert len({request.body["messages"][0]["content"] for request in provider.requests}) == provider.count - 1
    assert (first, provider.count) == (3, 4) and not (tmp_path / "run" / "replies.sqlite").exists()


USAGE = {"prompt_tokens": 5, "completion_tokens": 0, "total_tokens": 5}
TOO_LARGE = "Request too large for m on tokens per min (TPM): Limit 30000, Requested 41000."


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reply", "requests", "reason"),
    [
        (Raw({"choices": [], "usage": USAGE}), 2, "no choices"),
        (Raw({"error": {"message": TOO_LARGE, "code": "rate_limit_exceeded"}}, 429), 1, "Requested 41000"),
    ],
)
def test_replies_that_never_come_are_unscored_and_do_not_end_the_run(reply, requests, reason, tmp_path):
    with Provider(lambda asked: reply) as provider:
        plan = config(provider, editors=("unedited",), benchmark_options={"cases": "20"}, concurrency=1)
        summary = run(plan, tmp_path / "run", model=asked_model(provider))
    results = list(read_records(tmp_path / "run"))
    assert (summary.failed, provider.count) == (0, requests * len(results)) and len(results) > 2 * IN_A_ROW
    assert all(reason in str(record.unscored) for record in results)
