"""Kills, storms and spoiled inputs, which are not part of the tests, by one command with a table.

    python -m scripts.nightly --kills 1000 --count 1000
    python -m scripts.nightly --only kills --kills 60
    python -m scripts.nightly --scale 0.01

Each script runs in a process of its own and ends with 0 where nothing was lost, doubled or wrong; its row has the
last line that it writes. The kills are shared out evenly. In the end stands what failed, with the files that hold its
output and the command that repeats it.
"""

import argparse
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
# Scripts that kill commands, by command; `stream, agent` is an agent that writes a memory.
KILLS = {
    "run": ("benchmarks.storm_kills",),
    "run, workers": ("benchmarks.kill_workers",),
    "run, weights": ("benchmarks.kill_weight_runs",),
    "judge": ("benchmarks.kill_commands", "judge"),
    "reproduce": ("benchmarks.kill_commands", "reproduce"),
    "build questions": ("benchmarks.kill_commands", "questions"),
    "build akew": ("benchmarks.kill_commands", "akew"),
    "build facts": ("benchmarks.kill_commands", "facts"),
    "build wikiupdate": ("benchmarks.kill_commands", "wikiupdate"),
    "build docter": ("benchmarks.kill_commands", "docter"),
    "build elken": ("benchmarks.kill_commands", "elken"),
    "build chains": ("benchmarks.kill_commands", "chains"),
    "build tendencies": ("benchmarks.kill_commands", "tendencies"),
    "build recoe": ("benchmarks.kill_commands", "recoe"),
    "stream, memory": ("benchmarks.kill_commands", "stream"),
    "stream, agent": ("benchmarks.kill_commands", "fact_agent"),
    "memory": ("nightly.kill_memories",),
    "mcp": ("benchmarks.kill_mcp_server",),
    "corrections, exports": ("nightly.kill_exports",),
}
GROUPS = ("kills", "storms", "fuzz")
SECONDS = 4 * 3600
OUTPUT, ERRORS = ".out", ".err"
ERROR = re.compile(r"(?:\w+\.)+[A-Z]\w+: |\w*(?:Error|Interrupt)\b")
HELD, LATE = 0, 124
"""Exit codes: nothing was wrong; a script did not end in time."""


class Attack(NamedTuple):
    """A script to run, with its group, its label in the table, and its command line."""

    group: str
    subject: str
    words: tuple[str, ...]

    @property
    def command(self) -> str:
        """The command that runs the script by itself, from the root of the checkout."""
        return shlex.join(["python", "-m", *self.words])


class Outcome(NamedTuple):
    """Result of a script: seconds, exit code, last line of output, and the path of its two files without suffix."""

    attack: Attack
    seconds: float
    code: int
    line: str
    files: Path

    @property
    def state(self) -> str:
        """The word for the exit code in the table."""
        return {HELD: "held", LATE: "no end"}.get(self.code, "FAILED")


class Amounts(NamedTuple):
    """Number of kills in all and of spoiled inputs of each sort, the seed, and the share of the fixed numbers."""

    kills: int
    inputs: int
    seed: int
    scale: float

    def options(self, **numbers: int) -> tuple[str, ...]:
        """Return options with these numbers, each scaled but at least 1."""
        return tuple(f"--{name}={max(1, round(number * self.scale))}" for name, number in numbers.items())


def attacks(amounts: Amounts) -> Iterator[Attack]:
    """Yield all scripts, each with its share of the kills or its number of inputs."""
    seed = f"--seed={amounts.seed}"
    for position, (subject, (script, *words)) in enumerate(KILLS.items()):
        share = amounts.kills // len(KILLS) + (position < amounts.kills % len(KILLS))
        if share:
            yield Attack("kills", f"{subject}: {share} kills", (f"scripts.{script}", *words, f"--kills={share}", seed))
    yield Attack("kills", "calls made again", ("scripts.nightly.repeated_calls", *amounts.options(kills=10), seed))
    storm = ("scripts.benchmarks.storm", *amounts.options(cases=40), seed)
    yield Attack("storms", "faults of providers", storm)
    for subject, script in (
        ("data files", "benchmarks.fuzz_data_files"),
        ("run folders", "benchmarks.fuzz_run_folders"),
        ("options", "benchmarks.odd_options"),
    ):
        yield Attack("fuzz", subject, (f"scripts.{script}", f"--count={amounts.inputs}", seed))
    documents = ("scripts.nightly.odd_documents", *amounts.options(pdfs=400, pages=60, texts=30))
    yield Attack("fuzz", "documents", documents)
    yield Attack("fuzz", "queries", ("scripts.nightly.odd_queries",))
    surroundings = ("scripts.nightly.odd_surroundings", *amounts.options(count=200), seed)
    yield Attack("fuzz", "edits, memories, dumps, servers", surroundings)
    share = max(1, round(1 / amounts.scale))
    yield Attack("fuzz", "servers that attack", ("scripts.nightly.hostile_servers", f"--share={share}"))


def carry_out(attack: Attack, folder: Path) -> Outcome:
    """Run a script to its end, with its output in files; what it leaves running is killed."""
    files = folder / re.sub(r"[^a-z0-9]+", "-", attack.subject)
    start = time.monotonic()
    with files.with_suffix(OUTPUT).open("wb") as output, files.with_suffix(ERRORS).open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", *attack.words],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, start_new_session=True,
        )  # fmt: skip
        try:
            code = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            code = LATE
        finally:
            with suppress(ProcessLookupError):  # none is left
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return Outcome(attack, time.monotonic() - start, code, last_line(files, code), files)


def last_line(files: Path, code: int) -> str:
    """Return the last line of a script's output, or where it failed the last line that names an error."""
    lines = files.with_suffix(OUTPUT).read_text("utf-8", "replace").strip().splitlines()
    if code:
        errors = files.with_suffix(ERRORS).read_text("utf-8", "replace").strip().splitlines()
        lines += [line for line in errors if ERROR.match(line)] or errors[-1:]
    return (lines or ["no output"])[-1][:200]


def summary(outcomes: Sequence[Outcome]) -> str:
    """Return the number of scripts in which everything held, and for each other how to repeat it."""
    failed = [outcome for outcome in outcomes if outcome.code != HELD]
    counts = Counter(outcome.attack.group for outcome in outcomes)
    groups = ", ".join(f"{count} {group}" for group, count in counts.items())
    text = f"\n{len(outcomes) - len(failed)} of {len(outcomes)} held ({groups}).\n"
    for outcome in failed:
        text += f"\n{outcome.state}: {outcome.attack.subject}: {outcome.line}\n"
        text += f"  output: {outcome.files}{OUTPUT}, {ERRORS}\n  repeat: {outcome.attack.command}\n"
    return text


def main() -> int:
    """Run all scripts, print a row for each and what failed; return 1 if any exit code was not 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000, help="kills in all (default: %(default)s)")
    parser.add_argument("--count", type=int, default=1000, help="spoiled inputs of each sort (default: %(default)s)")
    parser.add_argument("--scale", type=float, default=1.0, help="share of all these numbers, such as 0.01")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=GROUPS, action="append")
    parser.add_argument("--logs", type=Path, help="folder for the scripts' outputs (default: a new temporary one)")
    options = parser.parse_args()
    kills, count = (max(1, round(number * options.scale)) for number in (options.kills, options.count))
    folder = options.logs or Path(tempfile.mkdtemp(prefix="emend-nightly-"))
    folder.mkdir(parents=True, exist_ok=True)
    sys.stdout.write(f"The scripts' outputs are in {folder}.\n")
    outcomes: list[Outcome] = []
    for attack in attacks(Amounts(kills, count, options.seed, options.scale)):
        if attack.group in (options.only or GROUPS):
            sys.stdout.write(f"{attack.group:7} {attack.subject:32} ")
            sys.stdout.flush()
            outcomes.append(outcome := carry_out(attack, folder))
            sys.stdout.write(f"{outcome.state:7} {outcome.seconds:6.0f} s  {outcome.line}\n")
    sys.stdout.write(summary(outcomes))
    return int(any(outcome.code for outcome in outcomes))


if __name__ == "__main__":
    raise SystemExit(main())
