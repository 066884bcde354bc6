"""Odd values of options end in one clean error; the full set is `scripts/benchmarks/odd_options.py`."""

import logging
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import pytest
from typer.testing import CliRunner

from emend.evals.cli.main import app
from emend.memory.errors import BadSettings
from emend.memory.files import read_input
from scripts.benchmarks.odd_options import OddCall, calls, prepare, problem
from tests.evals.toy_runs import RUN
from tests.evals.toys import enlist

COUNT = 60
QUICK = (
    "run", "resume", "judge run", "judge calibrate", "judge stress", "report", "trace", "compare", "analyse", "papers",
    "memory add", "memory show", "memory stats", "memory import", "data check", "list", "graph",
)  # fmt: skip
"""Commands that load no real model."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Files that the commands work on, in the working folder."""
    place, before = tmp_path_factory.mktemp("odd"), Path.cwd()
    enlist()
    os.chdir(place)
    yield place
    os.chdir(before)


@pytest.mark.slow
def test_sixty_odd_values_end_cleanly(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMEND_CACHE", str(folder / "cache"))
    monkeypatch.setattr(logging, "lastResort", None)
    odd = list(islice(calls(prepare(folder), seed=19, commands=QUICK), COUNT))
    assert len({call.words[0] for call in odd}) >= 8
    ends = {call: problem(call) for call in odd}
    assert {call.words: wrong for call, wrong in ends.items() if wrong} == {}


def error_of(*words: str) -> str:
    result = CliRunner().invoke(app, words)
    assert isinstance(result.exception, BadSettings), result.exception
    return str(result.exception)


@pytest.mark.parametrize("words", [(*RUN, "--out"), ("report",), ("trace",), ("memory", "stats", "--memory")])
def test_a_name_that_is_too_long_is_one_error(folder: Path, words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*words, "x" * 300])
    assert type(result.exception).__module__ == "emend.memory.errors", result.exception
    assert len(str(result.exception)) < 600


def test_a_nul_character_is_refused_before_a_command_begins(folder: Path) -> None:
    assert "NUL character" in error_of("report", "run\0")


@pytest.mark.parametrize("option", ["--cache", "--prices"])
def test_an_empty_path_is_refused(folder: Path, option: str) -> None:
    assert f"{option} is empty" in error_of(*RUN, "--out", "empty", option, "")


def test_the_checker_sees_tracebacks_and_wrong_exit_codes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert problem(OddCall(("papers", "akew:2"), "name", numeric=False)) == ""
    assert problem(OddCall(("papers", "nan"), "name", numeric=True)) == ""
    monkeypatch.setattr("emend.evals.papers.tables.table", lambda name: 1 / 0)
    assert problem(OddCall(("papers", "akew:2"), "name", numeric=False)).startswith("ZeroDivisionError")
    monkeypatch.setattr("emend.evals.papers.tables.table", lambda name: exec("raise SystemExit(3)"))
    assert problem(OddCall(("papers", "akew:2"), "name", numeric=False)) == "exit code 3"


def test_a_pipe_is_read_to_its_end_and_one_without_a_writer_is_not_waited_for(folder: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "empty")
    assert read_input(tmp_path / "empty") == b""
    os.mkfifo(tmp_path / "late")
    with ThreadPoolExecutor() as pool:
        written = pool.submit((tmp_path / "late").write_bytes, b"edits")
        deadline = time.monotonic() + 60
        while (content := read_input(tmp_path / "late")) == b"" and time.monotonic() < deadline:
            time.sleep(0.01)
        assert (content, written.result(60)) == (b"edits", 5)
