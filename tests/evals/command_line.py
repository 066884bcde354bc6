"""The command line, called as a shell calls it, in this process or in one of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from emend.evals.cli.main import run_command_line
from emend.memory import registry
from tests.paths import ROOT


def emend(*words: str) -> str | int | None:
    """What `emend WORDS` ends with; its exit code where it has one, else 0."""
    before, sys.argv = sys.argv, ["emend", *words]
    try:
        with trusting_nothing():
            run_command_line()
    except SystemExit as end:
        return end.code
    finally:
        sys.argv = before
    return 0


@contextmanager
def trusting_nothing() -> Iterator[None]:
    """Context in which no name is trusted, as in a new process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_trusted", {})
        yield


class Output(NamedTuple):
    """The exit code of a command, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of an output that is one JSON object with rows and nothing else."""
        printed: dict[str, list[dict[str, Any]]] = json.loads(self.out)
        assert list(printed) == ["rows"]
        return printed["rows"]


def caller(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *first: str) -> Callable[..., Output]:
    """Call the command line in this process with these words first."""

    def call(*words: str | Path) -> Output:
        monkeypatch.setattr(sys, "argv", ["emend", *first, *map(str, words)])
        with pytest.raises(SystemExit) as ended, trusting_nothing():
            run_command_line()
            sys.exit(0)
        return Output(int(ended.value.code or 0), *capsys.readouterr())

    return call


def python(code: str, *words: str, **more: Any) -> subprocess.Popen[str]:
    """A process of its own that runs this code on those words."""
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-c", code, *words], env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more
    )
