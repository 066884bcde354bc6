"""What the harness itself costs: `rag` probes per second and memory, with a model that answers at once.

    python scripts/benchmarks/bench_run.py --probes 50000

At least 300 probes per second are wanted on two cores, and memory that does not grow with the number of records. (It
grows with the number of edits, which the Chroma index holds, and until the cache of query vectors is full.)
"""

import argparse
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))

from emend.evals.case import Case, Metric  # noqa: E402
from emend.evals.config.run_config import RunConfig  # noqa: E402
from emend.evals.evaluate.run import run  # noqa: E402
from emend.evals.results.aggregate.rows import report  # noqa: E402
from emend.evals.show.report.progress import RunProgress  # noqa: E402
from emend.memory.edit import Edit  # noqa: E402
from emend.memory.probe import Probe  # noqa: E402
from emend.memory.registry import trust_names  # noqa: E402
from tests.evals.toys import ScriptedModel, ToyBenchmark  # noqa: E402

trust_names(["scripts.benchmarks.bench_run:Wide"])


class Wide(ToyBenchmark):
    """Cases of one edit; the options say how many edits, and how many probes each."""

    def __init__(self, data: Path | None, options: dict[str, str]) -> None:
        self.edits, self.probes = int(options["edits"]), int(options["probes"])

    def cases(self, setting: str, limit: int | None = None, seed: int = 0) -> Iterator[Case]:
        for n in range(self.edits):
            edit = Edit(form="triplet", text=f"The capital of Land{n} is New-{n}.", subject=f"Land{n}")
            probes = tuple(
                Probe(
                    kind="efficacy",
                    prompt=f"In year {year} the capital of Land{n} is",
                    gold=(f"New-{n}",),
                    edit_ids=(edit.id,),
                )
                for year in range(self.probes)
            )
            yield Case(edits=(edit,), probes=probes)

    def metrics(self) -> Sequence[Metric]:
        return [Metric(name="EM", value="em", kinds=("efficacy",), scale=100)]


class Watch(RunProgress):
    """Notes the peak of resident memory whenever another so many probes are through."""

    def __init__(self, every: int, per_unit: int) -> None:
        super().__init__()
        self.every, self.per_unit = every, per_unit
        self.marks: list[tuple[int, float, float, float]] = []
        self.cpu = time.process_time()

    def show(self) -> None:
        probes = self.processed * self.per_unit
        if probes % self.every < self.per_unit:
            unit = 1 if sys.platform == "darwin" else 1024
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
            wall, cpu = time.monotonic() - self.start_time, time.process_time() - self.cpu
            self.marks.append((probes, wall, cpu, peak / 2**20))


def main() -> None:
    """Run, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--probes", type=int, default=50_000)
    parser.add_argument("--edits", type=int, default=500)
    parser.add_argument("--mode", default="all", help="batch:N, single or all")
    parser.add_argument("--concurrency", type=int, default=2)
    chosen = parser.parse_args()
    per_edit = max(1, chosen.probes // chosen.edits)
    config = RunConfig(
        benchmark="scripts.benchmarks.bench_run:Wide",
        editors=("rag",),
        model="scripted",
        embedding="lexical",
        mode=chosen.mode,
        concurrency=chosen.concurrency,
        benchmark_options={"edits": str(chosen.edits), "probes": str(per_edit)},
    )
    watch = Watch(chosen.probes // 5, per_edit)
    with tempfile.TemporaryDirectory() as folder:
        run(config, Path(folder) / "run", watch, model=Instant())
        threads = threading.active_count()
        began = time.monotonic()
        row = report(Path(folder) / "run").rows[0]
        reported = time.monotonic() - began
    show(watch, chosen.mode)
    Console().print(f"EM {row.mean}, n {row.n}; report in {reported:.1f} s; {threads} threads left")


class Instant(ScriptedModel):
    """Keeps no list of its calls, which would grow."""

    def reply(self, prompt: str) -> str:
        fact, _, _ = prompt.rpartition("\n")
        return fact.rpartition(" is ")[2].rstrip(".")


def show(watch: Watch, mode: str) -> None:
    """One line per fifth of the run."""
    heads = ("probes", "seconds", "probes/s", "CPU ms/probe", "peak resident MB")
    table = Table(*heads, title=f"rag, mode {mode}; rates since the line above")
    before = (0, 0.0, 0.0)
    for probes, seconds, cpu, resident in watch.marks:
        more, wall, work = probes - before[0], seconds - before[1], cpu - before[2]
        table.add_row(
            f"{probes:,}", f"{seconds:.1f}", f"{more / wall:.0f}", f"{work / more * 1000:.2f}", f"{resident:.0f}"
        )
        before = (probes, seconds, cpu)
    Console().print(table)


if __name__ == "__main__":
    main()
