"""Kills commands that write files beside a run: corrections, exports of queries and reports, and merged shares.

    python -m scripts.nightly.kill_exports --kills 200 --seed 0

Each command runs in a fork of this process and is killed by SIGKILL at a random moment of the time that it needs. A
file that was there is then as before or as the command writes it, never something between; corrections can be read; and
the same command, given again, ends as one that was never disturbed.
"""

import argparse
import csv
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from emend.evals.corrections.correction import read_corrections
from emend.evals.log.lines import RECORDS
from emend.evals.log.manifest import Manifest
from scripts.benchmarks.fuzz_run_folders import run_command

OLD = b"an earlier export\n"
RUN = "run --benchmark tinyworld --editor unedited --editor rag --embedding lexical --model tiny --limit {limit} --out"


class Subject(NamedTuple):
    """A command that is killed: its words for a folder, how the folder is prepared, and the check of what is left."""

    words: Callable[[Path], list[str]]
    prepare: Callable[[Path], object]
    check: Callable[[Path], object]
    result: Callable[[Path], object]


def fork(words: list[str], seconds: float | None) -> bool:
    """Run a command in a fork; return True if it ended by itself within the seconds."""
    pid = os.fork()
    if not pid:
        code = 1
        with suppress(BaseException):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(1, 2)
            code = bool(run_command(words))
        os._exit(code)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0


def subjects(root: Path) -> dict[str, Subject]:
    """Return the commands by name, over runs that are made here."""
    whole, shares = root / "whole", [root / f"share-{number}" for number in (1, 2)]
    make = [[*RUN.format(limit=12).split(), str(whole)]]
    make += [
        [*RUN.format(limit=12).split(), str(out), "--share", f"{number}/2"] for number, out in enumerate(shares, 1)
    ]
    for words in make:
        assert fork(words, None), f"{words} failed"
    table = root / "table.csv"
    assert fork(["judge", "correct", str(whole), "--export", str(table)], None)
    fill(table)
    query = ["report", str(whole), "--sql", "SELECT * FROM records"]
    return {
        "corrections": Subject(
            lambda folder: ["judge", "correct", str(folder / "run"), "--table", str(table)],
            lambda folder: shutil.copytree(whole, folder / "run"),
            lambda folder: read_corrections(folder / "run"),
            lambda folder: {key: line.value for key, line in read_corrections(folder / "run").items()},
        ),
        "rows of a query": exported(whole, "rows.csv", [*query, "--out"]),
        "Parquet of a query": exported(whole, "rows.parquet", [*query, "--out"]),
        "Markdown of a case": exported(whole, "case.md", ["trace", str(whole), "1", "--md", "--out"]),
        "picture of a report": exported(whole, "table.svg", ["report", str(whole), "--svg"]),
        "pages in one file": exported(whole, "run.html", ["view", str(whole), "--cases", "all", "--single"]),
        "merge": Subject(
            lambda folder: ["merge", *map(str, shares), "--out", str(folder / "merged")],
            lambda folder: None,
            lambda folder: None,
            merged,
        ),
    }


def exported(whole: Path, name: str, words: list[str]) -> Subject:
    """Return the export of a run, by words that the file follows, to a file that is there already."""

    def check(folder: Path) -> None:
        assert (folder / name).read_bytes() in (OLD, (whole.parent / f"good-{name}").read_bytes()), "a torn export"

    good = [*words, str(whole.parent / f"good-{name}")]
    assert fork(good, None), f"{good} failed"
    return Subject(
        lambda folder: [*words, str(folder / name)],
        lambda folder: (folder / name).write_bytes(OLD),
        check,
        lambda folder: (folder / name).read_bytes(),
    )


def merged(folder: Path) -> object:
    """Return the records of a merged run, the number of its cases, and the names of its files."""
    out = folder / "merged"
    cases = {name: listed.cases for name, listed in Manifest.read(out).cases.items()}
    return sorted((out / RECORDS).read_bytes().splitlines()), cases, sorted(path.name for path in out.iterdir())


def fill(table: Path) -> None:
    """Correct each answer of a table."""
    with table.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(row | {"corrected": "0.5", "note": "by hand " * 2_000} for row in rows)


def kill(subject: Subject, folder: Path, seconds: float, expected: object) -> bool:
    """Kill a command once or twice, then let it end; return True if the first kill came before its end."""
    folder.mkdir()
    subject.prepare(folder)
    was_killed = not fork(subject.words(folder), seconds)
    subject.check(folder)
    fork(subject.words(folder), seconds / 2)
    subject.check(folder)
    fork(subject.words(folder), None)  # a merge that came to its end is refused: its folder is not empty
    assert subject.result(folder) == expected, "the result differs from that of an undisturbed command"
    shutil.rmtree(folder)
    return was_killed


def main() -> int:
    """Print the counts of kills and of faults; return 1 if there is a fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng, killed, faults = random.Random(options.seed), 0, 0
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for number, (subject_name, subject) in enumerate(subjects(root).items()):
            (plain := root / f"plain-{number}").mkdir()
            subject.prepare(plain)
            start = time.monotonic()
            assert fork(subject.words(plain), None), f"{subject_name} fails undisturbed"
            seconds, expected = time.monotonic() - start, subject.result(plain)
            for count in range(max(1, options.kills // 8)):
                try:
                    killed += kill(subject, root / f"{number}-{count}", rng.uniform(0.2, 1.1) * seconds, expected)
                except Exception as error:
                    faults += 1
                    sys.stdout.write(f"{subject_name} {count}: {type(error).__name__}: {error}\n")
    sys.stdout.write(f"corrections, exports, merges: {killed} commands killed in time, {faults} faults\n")
    return int(bool(faults))


if __name__ == "__main__":
    raise SystemExit(main())
