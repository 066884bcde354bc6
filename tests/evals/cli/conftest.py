"""The command line, called in this process and in an empty folder."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.evals.command_line import Output, caller
from tests.evals.toys import enlist


@pytest.fixture
def shell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., Callable[..., Output]]:
    """A function from first words to one that calls `emend` with these and more; it knows `scripted` models."""
    enlist()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EMEND_CACHE", str(tmp_path / "cache"))
    for name in ("EMEND_DATA", "EMEND_MEMORY"):
        monkeypatch.delenv(name, raising=False)
    return lambda *first: caller(monkeypatch, capsys, *first)


@pytest.fixture
def emend(shell: Callable[..., Callable[..., Output]]) -> Callable[..., Output]:
    """A function that calls `emend`."""
    return shell()
