"""Units a second by kind of workers, side by side: units that compute, and units that wait for a provider.

    python scripts/benchmarks/bench_workers.py compute --workers processes:1 processes:2 processes:4 ray
    python scripts/benchmarks/bench_workers.py wait --workers threads processes:2 processes:4 --concurrency 64

`compute`: each unit computes for 30 ms of processor time under the interpreter lock. At least 3.4 times the rate of one
worker is wanted of four on four free cores. `wait`: MeLLo through the real client to a provider on 127.0.0.1, in a
process of its own, that takes 0.2 s a reply, four calls a unit; `of ideal` is the rate beside that of so many calls at
once.

Rates are those of the middle half of the units, when all workers are there; `start` is when the first quarter has
ended, and `CPU ms` are those of a unit in all processes but the provider's, with what starting them took, and those in
the driver's process alone. Rounds of all kinds follow one another, and the median of each is told, because other work
disturbs them.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from emend.editors.base import Answerer  # noqa: E402
from emend.evals.config.run_config import RunConfig  # noqa: E402
from emend.evals.evaluate.run import run  # noqa: E402
from emend.evals.jobs.progress import Progress  # noqa: E402
from emend.memory.edit import Edit  # noqa: E402
from emend.memory.registry import trust_names  # noqa: E402
from scripts.benchmarks.chat_server import serving  # noqa: E402
from scripts.benchmarks.walks import say  # noqa: E402
from tests.evals.toys import BENCHMARK, ToyEditor  # noqa: E402

trust_names(["scripts.benchmarks.bench_workers:Burner"])
SECONDS = 0.03
"""Processor time of a unit that computes."""
LATENCY, CALLS = 0.2, 4
"""Seconds that the provider takes a reply, and calls of a unit that waits, in the mean."""


class Burner(ToyEditor):
    """Computes before it answers."""

    @contextmanager
    def edit(self, edits: Sequence[Edit]) -> Iterator[Answerer]:
        end = time.thread_time() + SECONDS
        while time.thread_time() < end:
            sum(range(5000))  # the clock is a system call, and should not be what is measured
        with super().edit(edits) as answerer:
            yield answerer


class Times(Progress):
    """When each unit ended."""

    def __init__(self) -> None:
        self.begin, self.ends = time.monotonic(), list[float]()

    def unit(self, editor: str, failed: bool = False, unscored: int = 0, tokens: int = 0) -> None:
        """Note the time."""
        assert not failed
        self.ends.append(time.monotonic())


class Speed(NamedTuple):
    """Units a second, seconds until a quarter had ended, and processor time of a unit: all, and the driver's."""

    rate: float
    start: float
    cpu_ms: float
    driver_ms: float


def measure(fields: dict[str, Any], folder: Path) -> Speed:
    """Run once."""
    times, began = Times(), time.process_time()
    summary = run(RunConfig.model_validate(fields), folder, times)
    quarter = len(times.ends) // 4
    rate = 2 * quarter / (times.ends[3 * quarter - 1] - times.ends[quarter - 1])
    cpu_ms, driver_ms = (1000 * spent / len(times.ends) for spent in (summary.cpu_seconds, time.process_time() - began))
    return Speed(rate, times.ends[quarter - 1] - times.begin, cpu_ms, driver_ms)


def fields_of(options: argparse.Namespace, spec: str) -> dict[str, Any]:
    """Return the options of a run."""
    fields: dict[str, Any] = {"concurrency": options.concurrency, "embedding": "lexical"}
    if options.what == "wait":
        questions = {"questions": str(options.units)}
        walks = {"benchmark": "scripts.benchmarks.walks:Walks", "benchmark_options": questions}
        return fields | walks | {"editors": ["mello"], "model": spec}
    cases = {"cases": str(options.units), "probes": "0"}
    burner = {"editors": ["scripts.benchmarks.bench_workers:Burner"], "model": "tests.evals.toys:ScriptedModel"}
    return fields | burner | {"benchmark": BENCHMARK, "benchmark_options": cases}


def main() -> None:
    """Measure, and print a line for each kind of workers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["compute", "wait"])
    parser.add_argument("--workers", nargs="+", default=["threads", "processes:1", "processes:2", "processes:4"])
    parser.add_argument("--units", type=int, default=2000, help="units of a run (default: %(default)s)")
    parser.add_argument("--concurrency", type=int, default=64, help="calls at the same time (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    options = parser.parse_args()
    speeds: dict[str, list[Speed]] = {workers: [] for workers in options.workers}
    with (
        tempfile.TemporaryDirectory() as name,
        serving(say, LATENCY) if options.what == "wait" else nullcontext() as served,
    ):
        fields = fields_of(options, served.spec if served else "")
        for number in range(options.rounds):
            for workers in options.workers:
                folder = Path(name) / f"{workers}-{number}".replace(":", "-")
                speeds[workers].append(measure(fields | {"workers": workers}, folder))
    first = median(speed.rate for speed in speeds[options.workers[0]])
    for workers, rounds in speeds.items():
        rate, start, cpu_ms, driver_ms = (median(values) for values in zip(*rounds, strict=True))
        ideal = f", {rate * CALLS * LATENCY / options.concurrency:.1%} of ideal" if options.what == "wait" else ""
        print(
            f"{workers:12} {rate:8.1f} units/s, {rate / first:.2f} x{ideal}, start {start:.1f} s, {cpu_ms:.2f} CPU ms, "
            f"{driver_ms:.2f} in the driver"
        )


if __name__ == "__main__":
    main()
