"""Runs over a provider that are killed, terminated and interrupted end as undisturbed ones; see storm_kills.py."""

import signal
from pathlib import Path

import pytest

from scripts.benchmarks.storm_kills import SCENARIOS, storm

pytest.importorskip("langchain_openai", reason="the extra 'openai' is not installed")


@pytest.mark.slow
def test_disturbed_runs_end_as_undisturbed_ones(tmp_path: Path) -> None:
    counts = storm(9, 5, tmp_path, SCENARIOS[::3])
    assert sum(counts[number.name] for number in signal.Signals) + counts["too late"] == 9 and counts["runs"] >= 3
