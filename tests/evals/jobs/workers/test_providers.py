"""Runs in processes against a provider on 127.0.0.1: limits and counts are those of one process."""

import random
import signal
from pathlib import Path
from typing import Any

import pytest

from emend.agents.providers.journal import FILE
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.run import run
from emend.memory.errors import BudgetReached
from scripts.benchmarks.storm_kills import Contents, disturb, start, wait_for, words_of
from tests.evals.toy_runs import untimed_records
from tests.evals.toys import BENCHMARK
from tests.provider.server import Provider
from tests.provider.speaking import believes

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("keys")]


def config(provider: Provider, **changed: Any) -> RunConfig:
    fields: dict[str, Any] = {
        "benchmark": BENCHMARK,
        "editors": ("rag", "unedited"),
        "embedding": "lexical",
        "retriever": "bm25",
    }
    fields |= {"model": provider.spec("chat"), "concurrency": 4, "benchmark_options": {"cases": "12"}}
    return RunConfig.model_validate(fields | {"workers": "processes:2"} | changed)


def test_the_budget_is_that_of_all_workers_and_no_reply_is_asked_for_twice(tmp_path: Path):
    with Provider(believes, latency=0.01) as provider:
        whole = run(config(provider, workers="threads"), tmp_path / "whole")
        calls = provider.count
        with pytest.raises(BudgetReached, match="--max-calls 10"):
            run(config(provider, max_calls=10), tmp_path / "run")
        assert provider.count == calls + 10
        summary = run(config(provider), tmp_path / "run")
        assert provider.count == 2 * calls
    assert summary.finished + summary.skipped == whole.finished
    assert untimed_records(tmp_path / "run") == untimed_records(tmp_path / "whole")
    assert not (tmp_path / "run" / FILE).exists()


@pytest.mark.parametrize("limits", [{}, {"rpm": 6000.0, "tpm": 1e6}])
def test_refusals_slow_all_workers_down_and_every_call_is_counted(tmp_path: Path, limits: dict[str, float]):
    with Provider(believes, choose=lambda number: "429" if 4 <= number < 14 else "") as provider:
        summary = run(config(provider, **limits), tmp_path / "run")
        (spent,) = summary.spent.values()
        assert (spent.requests, spent.retries) == (provider.count, 10)
    assert summary.finished == summary.units and spent.replies == provider.count - 10


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_driver_waits_for_calls_in_progress_and_ends_its_workers(tmp_path: Path, number: signal.Signals):
    with Provider(believes, latency=0.05) as provider:
        words = words_of("single", "rag", provider.spec("chat"), tmp_path / "whole")
        assert wait_for(start(words)) == 0
        calls = provider.count
        words[-1] = str(tmp_path / "run")
        provider.latency = 1.0  # so that the run has not ended when the signal comes, on a busy machine too
        process = start([*words, "--workers", "processes:2"])
        assert disturb(process, provider, 20, number, random.Random(0)) == 130
        assert calls < provider.count < 2 * calls
        provider.latency = 0.05
        assert wait_for(start([*words, "--workers", "processes:2"])) == 0
        assert provider.count == 2 * calls
    assert Contents.of(tmp_path / "run") == Contents.of(tmp_path / "whole")
