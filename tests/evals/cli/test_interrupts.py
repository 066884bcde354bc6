"""The first Ctrl-C waits for calls in progress, the second ends the run; nothing finished is lost."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import typer

from emend.agents.providers.journal import run_journal
from emend.evals.cli.interrupts import interruptible
from emend.evals.cli.output import end_at_signal
from emend.evals.log.lines import RECORDS
from emend.evals.log.records import read_records
from emend.memory.errors import RunRefused
from tests.evals.command_line import emend, python
from tests.provider.server import Provider

HEARD = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "  # a background job ignores it
RUN = ("run", "--benchmark", "tinyworld", "--editor", "rag", "--embedding", "lexical", "--limit", "2")


@pytest.mark.slow
def test_the_second_interruption_does_not_wait_and_paid_replies_are_kept(tmp_path: Path) -> None:
    with Provider(choose=lambda number: "hang" if number >= 3 else "", hang=300) as provider:
        out = tmp_path / "o"
        words = (*RUN, "--model", provider.spec("chat"), "--concurrency", "1", "--out", str(out))
        child = python(f"{HEARD} from emend.evals.cli.main import main; main()", *words)
        assert child.stderr
        while provider.count < 4:
            assert child.poll() is None, child.stderr.read()
            time.sleep(0.05)
        child.send_signal(signal.SIGINT)
        result = ""
        while "interrupt again to abandon them" not in result:
            result = child.stderr.readline()
            assert result, "it ended without a word"
        assert child.poll() is None
        began = time.monotonic()
        child.send_signal(signal.SIGINT)
        _, result = child.communicate(timeout=120)
        assert time.monotonic() - began < 100 and child.returncode == 130  # the reply takes 300
        assert "calls in progress will be repeated. finished units are kept." in result
        assert f"Continue with: emend resume {out}" in result
        assert "Traceback" not in result
        with run_journal(out) as journal:
            assert len(journal.units()) == 1
        provider.choose = lambda number: ""
        assert emend("resume", str(out)) == 0
        asked = provider.count
        plain = tmp_path / "undisturbed"
        assert emend(*words[:-1], str(plain)) == 0
        assert asked - 1 == provider.count - asked  # the call that was left, and no other, was made twice
    texts = [
        {(record.probe, record.editor): record.answer for record in read_records(folder)} for folder in (out, plain)
    ]
    assert texts[0] == texts[1]


WITH_A_BUSY_THREAD = (
    f"{HEARD} import sys, time; from concurrent.futures import ThreadPoolExecutor; "
    "ThreadPoolExecutor(1).submit(time.sleep, 300); "  # stands for a thread that is in torch, and cannot be ended
    "from emend.evals.cli.main import main; main()"
)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_training_waits_for_no_thread_and_ends_with_how_to_resume(
    number: signal.Signals, tmp_path: Path
) -> None:
    out = tmp_path / "o"
    words = ("run", "--benchmark", "tinyworld", "--editor", "ft", "--model", "tiny", "--mode", "all", "--limit", "40")
    child = python(WITH_A_BUSY_THREAD, *words, "--set", "ft.num_steps=100000", "--out", str(out))
    while not (out / RECORDS).exists():
        assert child.poll() is None, child.communicate()[1]
        time.sleep(0.05)
    time.sleep(1)
    child.send_signal(number)
    began = time.monotonic()
    _, errors = child.communicate(timeout=120)
    assert child.returncode == 130 and time.monotonic() - began < 60
    assert errors.rstrip().endswith(f"interrupted: finished units are kept. Continue with: emend resume {out}")
    assert "Traceback" not in errors and "terminate" not in errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_is_waited_for_is_said_at_once(
    number: signal.Signals, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    usual: dict[int, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: end_at_signal}
    before = signal.signal(number, usual[number])
    try:
        with pytest.raises(typer.Exit), interruptible(tmp_path):
            os.kill(os.getpid(), number)
            time.sleep(5)
        assert signal.getsignal(number) is usual[number]
    finally:
        signal.signal(number, before)
    assert "stopping: waiting for calls in progress" in capfd.readouterr().err


def test_an_import_that_an_interruption_ends_is_an_interruption(tmp_path) -> None:
    with pytest.raises(typer.Exit) as end, interruptible(tmp_path):
        raise ImportError("initialization failed") from KeyboardInterrupt()  # as extension modules in C++ do
    assert end.value.exit_code == 130
    with pytest.raises(ImportError), interruptible(tmp_path):
        raise ImportError("no such module")


def test_an_error_after_an_interruption_is_its_consequence_unless_it_has_a_remedy(tmp_path) -> None:
    before = signal.signal(signal.SIGTERM, end_at_signal)
    try:
        for error, ends in ((RecursionError(), typer.Exit), (RunRefused("the disk is full"), RunRefused)):
            with pytest.raises(ends), interruptible(tmp_path):
                with suppress(KeyboardInterrupt):
                    signal.raise_signal(signal.SIGTERM)
                raise error
    finally:
        signal.signal(signal.SIGTERM, before)


def test_an_error_among_its_own_causes_is_raised(tmp_path) -> None:
    error, other = RunRefused("the disk is full"), RunRefused("it is full")
    error.__cause__, other.__cause__ = other, error
    with pytest.raises(RunRefused), interruptible(tmp_path):
        raise error


INTERRUPTED_IMPORT = """
import sys

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "typer":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Finder)
"""


def test_an_interruption_while_modules_are_imported_has_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTED_IMPORT)
    paths = os.pathsep.join(map(str, (tmp_path, os.environ.get("PYTHONPATH", ""))))
    ended = subprocess.run(
        [sys.executable, "-m", "emend", "--version"], env=os.environ | {"PYTHONPATH": paths},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
