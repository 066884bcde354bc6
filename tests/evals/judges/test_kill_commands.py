"""Scorings that are killed, terminated and interrupted end as undisturbed ones; see kill_judges.py."""

from pathlib import Path

import pytest

from tests.benchmarks.kill_judges import storm

pytest.importorskip("langchain_openai", reason="the extra 'openai' is not installed")


@pytest.mark.slow
def test_disturbed_scorings_end_as_an_undisturbed_one(tmp_path: Path) -> None:
    assert storm(6, 3, tmp_path)["scorings"] >= 1
