"""A run folder with one mutated file: every command that reads it ends with exit code 0, or with one error."""

from pathlib import Path

import pytest

from scripts.benchmarks.fuzz_run_folders import COMMANDS, fuzz

pytest.importorskip("langchain_openai", reason="the extra 'openai' is not installed")


@pytest.mark.slow
def test_mutated_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
    monkeypatch.setenv("EMEND_CACHE", str(tmp_path / "cache"))
    findings, outcomes = fuzz(30, 3, tmp_path, commands=2)
    assert findings == [] and outcomes.total() == 60 and min(outcomes["error"], outcomes["success"]) > 10


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 100, 20))
def test_one_hundred_mutated_files_and_all_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """In five parts, each of which has the time of a test."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
    monkeypatch.setenv("EMEND_CACHE", str(tmp_path / "cache"))
    findings, outcomes = fuzz(20, 4, tmp_path, first=first)
    assert findings == [] and outcomes.total() == 20 * len(COMMANDS)
