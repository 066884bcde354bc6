"""Several runs at the same time, a few of scripts/benchmarks/concurrent_runs.py."""

from pathlib import Path

import pytest

from scripts.benchmarks.concurrent_runs import KINDS, PLACES, trials


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_three_runs_at_once_give_the_records_of_one_and_a_folder_takes_one_of_them(kind: str, tmp_path: Path) -> None:
    right, wrong = trials(1, tmp_path, [kind])
    assert not wrong and right == {(kind, place): 1 for place in PLACES}
