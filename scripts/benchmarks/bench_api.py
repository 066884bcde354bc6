"""Library against command line: the same small run by `emend.run` in a script and by `emend run`, as whole processes.

    python scripts/benchmarks/bench_api.py --rounds 9

The two take turns, on the machine as it is and beside a busy loop on every core; start-up counts. The ratio of the
medians of their times is to be within 10 % of 1.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

LONGEST = 900
"""Seconds after which a run is given up, and a busy loop ends in any case."""
OPTIONS = {"setting": "triplet", "model": "tiny", "embedding": "lexical"}
EDITORS = ("unedited", "rag")
SCRIPT = """
import sys, emend
result = emend.run("tinyworld", {editors}, {model!r}, settings={setting!r}, embedding={embedding!r},
                   limit={limit}, out=sys.argv[1])
print(result.table())
"""
COMMAND = "from emend.evals.cli.main import main; main()"
LOOP = f"import time\nend = time.monotonic() + {LONGEST}\nwhile time.monotonic() < end: pass"


class Cost(NamedTuple):
    """Seconds and processor seconds of one process."""

    wall: float
    cpu: float


def programs(limit: int) -> dict[str, list[str]]:
    """The processes to compare, without the folder that each is given last."""
    words = ["run", "--benchmark", "tinyworld", "--limit", str(limit)]
    words += [word for name, value in OPTIONS.items() for word in (f"--{name}", value)]
    words += [word for editor in EDITORS for word in ("--editor", editor)]
    script = SCRIPT.format(editors=list(EDITORS), limit=limit, **OPTIONS)
    return {
        "emend run": [sys.executable, "-c", COMMAND, *words, "--out"],
        "emend.run": [sys.executable, "-c", script],
    }


def cost_of(program: Sequence[str], folder: Path) -> Cost:
    """What a run of the program costs.

    Raises:
        CalledProcessError: it failed.
    """
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*program, str(folder)], check=True, capture_output=True, timeout=LONGEST)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(time.perf_counter() - start, cpu)


@contextmanager
def busy_cores(count: int) -> Iterator[None]:
    """Busy loops, one a process, while the `with` lasts."""
    loops = [subprocess.Popen([sys.executable, "-c", LOOP]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
        for loop in loops:
            loop.wait()


def compare(limit: int, rounds: int) -> dict[str, list[Cost]]:
    """The costs of each program, whose runs take turns; the first round, which fills caches, is not counted."""
    costs: dict[str, list[Cost]] = {name: [] for name in programs(limit)}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(rounds + 1):
            order = list(programs(limit).items())
            for place, (name, program) in enumerate(order[:: -1 if turn % 2 else 1]):
                cost = cost_of(program, Path(folder) / f"{turn}-{place}")
                if turn:
                    costs[name].append(cost)
    return costs


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, default=20, help="edits of tinyworld")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--loops", type=int, default=os.cpu_count() or 1, help="busy loops beside the second half")
    parsed = parser.parse_args()
    table = Table("beside", "program", "s", "from", "to", "CPU s")
    ratios = []
    for loops in dict.fromkeys((0, parsed.loops)):
        with busy_cores(loops):
            costs = compare(parsed.limit, parsed.rounds)
        beside = f"{loops} busy loops"
        for name, each in costs.items():
            walls = [cost.wall for cost in each]
            numbers = (median(walls), min(walls), max(walls), median(cost.cpu for cost in each))
            table.add_row(beside, name, *(f"{number:.2f}" for number in numbers))
        command, library = ([median(column) for column in zip(*each, strict=True)] for each in costs.values())
        ratios.append(
            f"emend.run / emend run beside {beside}: {library[0] / command[0]:.3f} of the time, "
            f"{library[1] / command[1]:.3f} of the CPU time"
        )
    Console().print(table)
    print(*ratios, sep="\n")


if __name__ == "__main__":
    main()
