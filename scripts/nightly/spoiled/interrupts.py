"""Runs that edit weights, interrupted by Ctrl-C at random moments, and ended afterwards."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from emend.evals.log.lines import RECORDS
from scripts.nightly.spoiling import Case

COMMAND = "run --benchmark tinyworld --model tiny --limit 2"
METHODS = {
    "rome": "--editor rome --mode single",
    "memit": "--editor memit --mode sequential",
    "ft": "--editor ft --mode single",
    "lora": "--editor lora --mode batch:2",
    "rome sequential": "--editor rome --mode sequential --reevaluate-at every:1",
    "workers": "--editor memit --mode single --workers processes:2",
}
COSTS = ("seconds", "edit_cost", "of")
"""Fields of a record that differ between two equal runs."""
GRACE = 60.0
"""Seconds in which an interrupted command has to end."""


def interrupted_runs(root: Path, count: int, rng: random.Random) -> Iterator[Case]:
    """Yield runs that are interrupted once, or twice at once, and ended; their results are those of a whole run."""
    wholes: dict[str, Path] = {}
    for number, name in enumerate(islice(cycle(METHODS), count)):
        words = [*COMMAND.split(), *METHODS[name].split()]
        if name not in wholes:
            wholes[name] = root / name.replace(" ", "-")
            begin = time.monotonic()
            end(words, wholes[name])
            seconds = time.monotonic() - begin
        moment = rng.uniform(0, seconds)
        again = rng.choice((None, None, 0.01, 0.3))
        out = root / str(number)
        yield f"{name} {moment:.2f} s, {again} {number}", partial(interrupt, words, out, wholes[name], moment, again)


def interrupt(words: list[str], out: Path, whole: Path, moment: float, again: float | None) -> None:
    """Interrupt a run, end it, and compare its records and files with those of one that was not interrupted."""
    code, output = start_and_interrupt(words, out, moment, again)
    assert "Traceback" not in output, f"exit code {code}: {output[-400:]}"
    assert code in (0, 130), f"exit code {code}: {output[-400:]}"
    if (out / RECORDS).exists():
        torn = [line for line in (out / RECORDS).read_bytes().split(b"\n")[:-1] if not is_json(line)]
        assert not torn, "a line is torn"
    end(words, out)
    assert outcomes(out) == outcomes(whole), "results differ from those of a run without interruption"
    left = files(out) - files(whole)
    assert not left, f"files are left: {sorted(left)}"


def start_and_interrupt(words: list[str], out: Path, moment: float, again: float | None) -> tuple[int, str]:
    """Start a command, interrupt it after `moment` and perhaps again; return its exit code and output."""
    process = subprocess.Popen(
        [sys.executable, "-m", "emend", *words, "--out", str(out)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True, preexec_fn=take_interrupts,
    )  # fmt: skip
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(moment)
        for pause in (None, again) if again else (None,):
            time.sleep(pause or 0)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to all of its processes
        output, _ = process.communicate(timeout=GRACE)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, output


def take_interrupts() -> None:
    """Handle SIGINT as a command in the foreground does; one in the background ignores it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def end(words: list[str], out: Path) -> None:
    """Run a command to its end."""
    ended = subprocess.run(
        [sys.executable, "-m", "emend", *words, "--out", str(out)],
        capture_output=True, text=True, check=False, timeout=10 * GRACE,
    )  # fmt: skip
    assert not ended.returncode, f"exit code {ended.returncode}: {ended.stderr[-400:]}"


def is_json(line: bytes) -> bool:
    """Return whether a line is JSON."""
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def outcomes(folder: Path) -> list[dict[str, Any]]:
    """Return a run's records in order of unit and probe, without what differs between two equal runs."""
    records = [json.loads(line) for line in (folder / RECORDS).read_text().splitlines()]
    records.sort(key=lambda record: (record["unit"], record["probe"], record["repeat"], record["checkpoint"]))
    return [{name: value for name, value in record.items() if name not in COSTS} for record in records]


def files(folder: Path) -> set[str]:
    """Return the names of all files of a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
