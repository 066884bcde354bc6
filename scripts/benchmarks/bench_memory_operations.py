"""Measures the operations of a memory of facts: how long does each take, and how large is the file?

    python scripts/benchmarks/bench_memory_operations.py [--facts 100000] [--rounds 200] [--embedding lexical]

The memory is filled with facts of invented people, a third of which replace others, in batches; a dependency of each
hundredth person derives a fact. Then every kind of operation is done `--rounds` times, in random order, each as a
transaction of its own. p50 and p99 are of these, in milliseconds; CPU is the p50 of the process's own time, without
waits for the disk and for other processes.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))

from emend.memory.embeddings.embed import load_embedding  # noqa: E402
from emend.memory.facts.fact_memory import FactMemory  # noqa: E402
from scripts.benchmarks.bench_memory import name_of  # noqa: E402

RELATIONS = ("home city", "employer", "friend", "favourite colour", "likes", "phone number", "head coach")
BATCH = 1_000


def person(number: int) -> str:
    return f"{name_of(random.Random(number))} {name_of(random.Random(-number - 1))}"


def fill(memory: FactMemory, facts: int, draw: random.Random) -> int:
    """Add the facts and return the number of people."""
    people = max(1, facts // 5)
    for start in range(0, facts, BATCH):
        with memory.batch():
            for _ in range(start, min(start + BATCH, facts)):
                memory.remember(person(draw.randrange(people)), draw.choice(RELATIONS), name_of(draw))
    with memory.batch():
        for number in range(0, people, 100):
            subject = person(number)
            memory.depend(subject, "parking lot", (subject, "home city"), value="lot of {object}")
    return people


def operations(memory: FactMemory, people: int, rounds: int, draw: random.Random) -> dict[str, Callable[[], object]]:
    """Each kind of operation, on a person that is drawn when it is called."""

    def someone() -> str:
        return person(draw.randrange(people))

    def forget() -> object:
        return memory.forget(stored.pop())

    stored = [memory.remember(someone(), "tasks", name_of(draw)).facts[0].id for _ in range(rounds)]

    return {
        "remember": lambda: memory.remember(someone(), draw.choice(RELATIONS), name_of(draw)),
        "update": lambda: memory.update(someone(), "home city", name_of(draw)),
        "forget": forget,
        "lookup": lambda: memory.lookup(someone(), draw.choice(RELATIONS)),
        "lookup, derived": lambda: memory.lookup(person(100 * draw.randrange(1 + people // 100)), "parking lot"),
        "history": lambda: memory.history(someone(), draw.choice(RELATIONS)),
        "as of, one subject": lambda: memory.as_of("2100", subject=someone()),
        "search": lambda: memory.search(f"Where does {someone()} live?"),
    }


def measure(memory: FactMemory, people: int, rounds: int, draw: random.Random) -> dict[str, list[tuple[float, float]]]:
    """Milliseconds of each kind of operation, by the clock and of the CPU."""
    calls = operations(memory, people, rounds, draw)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    order = [name for name in calls for _ in range(rounds)]
    draw.shuffle(order)
    for name in order:
        start, cpu = time.perf_counter(), time.process_time()
        calls[name]()
        times[name].append((1000 * (time.perf_counter() - start), 1000 * (time.process_time() - cpu)))
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--facts", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--embedding", default="lexical", help="lexical, minilm or words (none)")
    arguments = parser.parse_args()
    embedding = None if arguments.embedding == "words" else load_embedding(arguments.embedding)
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder, FactMemory(folder, embedding=embedding) as memory:
        draw, start = random.Random(0), time.perf_counter()
        people = fill(memory, arguments.facts, draw)
        built = time.perf_counter() - start
        times = measure(memory, people, arguments.rounds, draw)
        size = sum(path.stat().st_size for path in Path(folder).iterdir()) / 1e6
        table = Table(title=f"{memory.count():,} statements, filled in {built:.0f} s, {size:.0f} MB")
        for column in ("operation", "p50 ms", "p99 ms", "CPU ms"):
            table.add_column(column, justify="left" if column == "operation" else "right")
        for name, values in [*times.items(), ("all", [each for part in times.values() for each in part])]:
            clock, cpu = np.array(values).T
            table.add_row(name, *(f"{np.percentile(*each):.1f}" for each in ((clock, 50), (clock, 99), (cpu, 50))))
        Console(width=100).print(table)


if __name__ == "__main__":
    main()
