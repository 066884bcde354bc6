"""Commands that are killed, terminated and interrupted end as undisturbed ones; the nightly scripts do it more often
and for all commands, see kill_commands.py."""

from pathlib import Path

import pytest

from scripts.benchmarks.kill_commands import storm

pytest.importorskip("langchain_openai", reason="the extra 'openai' is not installed")


@pytest.mark.slow
def test_disturbed_scorings_end_as_an_undisturbed_one(tmp_path: Path) -> None:
    assert storm("judge", 6, 3, tmp_path)["finished"] >= 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["akew", "questions", "docter"])
def test_a_disturbed_construction_ends_as_an_undisturbed_one(kind: str, tmp_path: Path) -> None:
    assert storm(kind, 4, 3, tmp_path)["finished"] >= 1


@pytest.mark.slow
def test_a_disturbed_run_over_a_stream_ends_as_an_undisturbed_one(tmp_path: Path) -> None:
    assert storm("stream", 3, 3, tmp_path)["finished"] >= 1
