"""Lets tests import `tests.fakes`; appended, so that no folder of the root hides an installed package.

What of the environment and of the machine decides how a test ends is put aside here, before anything reads it.
"""

import gc
import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.append(str(Path(__file__).parents[1]))

for name in ("GITHUB_ACTIONS", "FORCE_COLOR", "PY_COLORS", "NO_COLOR", "TTY_COMPATIBLE"):
    os.environ.pop(name, None)  # typer and rich colour what they print by these
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")


def pytest_collection_finish(session: pytest.Session) -> None:
    """A full collection of thousands of tests takes a second, in which every test with a clock stands still."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of both providers, which nobody takes for real ones."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-planted-0123456789")
