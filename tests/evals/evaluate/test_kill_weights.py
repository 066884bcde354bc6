"""Runs of editors of weights that are ended by signals and resumed, a few of scripts/benchmarks/kill_weight_runs.py."""

from pathlib import Path

import pytest

from scripts.benchmarks.kill_weight_runs import storm


@pytest.mark.slow
def test_a_run_that_changes_weights_and_is_ended_three_times_is_as_undisturbed(tmp_path: Path) -> None:
    assert sum(storm(3, 1, tmp_path, ("batch",)).values()) == 3
