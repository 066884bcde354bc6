"""The command line, called as a shell calls it, in this process or in one of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from emend.evals.cli.main import main
from tests.evals.toys import enlist
from tests.paths import ROOT


def emend(*words: str) -> str | int | None:
    """What `emend WORDS` ends with; its exit code where it has one, else 0."""
    before, sys.argv = sys.argv, ["emend", *words]
    try:
        main()
    except SystemExit as end:
        return end.code
    finally:
        sys.argv = before
    return 0


class Told:
    """What a command wrote, and its exit code."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Of one JSON object with rows and nothing else."""
        told: dict[str, list[dict[str, Any]]] = json.loads(self.out)
        assert list(told) == ["rows"]
        return told["rows"]


def caller(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *first: str
) -> Callable[..., tuple[int, str, str]]:
    """Calls the command line in this process with these words first: exit code, stdout, stderr."""

    def call(*words: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["emend", *first, *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
            sys.exit(0)
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call


def listener(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path) -> Callable[..., Told]:
    """Calls the command line in this process, in that folder, and tells what it wrote; it knows `scripted` models."""
    enlist()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("EMEND_DATA", raising=False)

    call = caller(monkeypatch, capsys)
    return lambda *words: Told(*call(*words))


def python(code: str, *words: str, **more: Any) -> subprocess.Popen[str]:
    """A process of its own that runs this code on those words."""
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-c", code, *words], env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more
    )
