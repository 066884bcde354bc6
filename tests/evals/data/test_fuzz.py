"""Damaged benchmark files of all formats end in a plain error; the script draws and judges them."""

import pytest

from scripts.benchmarks.fuzz_data_files import storm


@pytest.mark.slow
@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_mutated_files_are_read_or_refused_without_traceback_hang_or_wrong_exit_code(count, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    outcomes, problems = storm(count, seed=18)
    assert problems == [] and sum(outcomes.values()) == count
    assert outcomes["BadData"] > count / 2 and outcomes["loads"] > count / 20
