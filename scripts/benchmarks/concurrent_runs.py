"""Trials of several runs at the same time: in threads and asyncio tasks of one process, and in processes.

Each trial starts three runs in processes that have loaded no model yet. Into folders of their own all three must give
the records of an undisturbed run; into one folder one must, and the others must say that another process works there,
or find nothing left to do.

    python scripts/benchmarks/concurrent_runs.py --trials 20
"""

import argparse
import asyncio
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

os.environ |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}  # before torch is loaded in the server
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["emend.evals.api.run", "emend.evals.evaluate.run", "emend.agents.local.causal_lm", "emend.memory.store.chroma"]
    + ["sentence_transformers", "chromadb", "emend.editors.memory_based.rag", "tests.evals.toys"]
)
RUNS = 3
SECONDS = 300
"""Maximum time of one trial."""
EDITORS = ["in_context", "rag"]
"""They ask the model, and load an encoder; tests of `lora` have threads that train."""
OPTIONS: dict[str, Any] = {
    "model": "tiny",
    "settings": ["triplet"],
    "limit": 1,
    "progress": False,
}
FINISHED, IN_USE = "finished", "another process works there"


def ending(error: BaseException | None) -> str:
    """Return how a run ended."""
    if error is None:
        return FINISHED
    return IN_USE if "another process is working in" in str(error) else f"{type(error).__name__}: {error}"


def run_in_threads(folders: Sequence[Path]) -> list[str]:
    """Run into each folder in a thread of its own; return how each ended."""
    import emend

    endings = [""] * len(folders)

    def work(place: int) -> None:
        try:
            emend.run("tinyworld", editors=EDITORS, out=folders[place], **OPTIONS)
            endings[place] = ending(None)
        except Exception as error:  # noqa: BLE001  whatever it is, it is the trial's outcome
            endings[place] = ending(error)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(len(folders))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return endings


def run_in_tasks(folders: Sequence[Path]) -> list[str]:
    """Run into each folder in a task of one event loop; return how each ended."""
    import emend

    async def gather() -> list[Any]:
        calls = (emend.arun("tinyworld", editors=EDITORS, out=folder, **OPTIONS) for folder in folders)
        return await asyncio.gather(*calls, return_exceptions=True)

    return [ending(result if isinstance(result, BaseException) else None) for result in asyncio.run(gather())]


HOSTS: dict[str, Callable[[Sequence[Path]], list[str]]] = {"threads": run_in_threads, "asyncio": run_in_tasks}
KINDS = (*HOSTS, "processes")
PLACES = APART, ONE = "apart", "one-folder"
"""Each run into a folder of its own, or all into the same new one."""


def run_at_once(kind: str, folders: Sequence[Path]) -> list[str]:
    """Start a run into each folder at the same time, in new processes; return how each ended.

    Raises:
        AssertionError: a process failed, or did not end.
    """
    shares = [("threads", [folder]) for folder in folders] if kind == "processes" else [(kind, list(folders))]
    endings = CONTEXT.SimpleQueue()
    children = [CONTEXT.Process(target=work, args=(host, share, endings)) for host, share in shares]
    for child in children:
        child.start()
    for child in children:
        child.join(SECONDS)
        if child.is_alive():
            child.kill()
        assert child.exitcode == 0, f"{kind}: exit code {child.exitcode}"
    return [text for _ in children for text in endings.get()]


def work(host: str, folders: Sequence[Path], endings: Any) -> None:
    """The child process: run, and hand over how each run ended."""
    endings.put(HOSTS[host](folders))


def records_of(folder: Path) -> list[str]:
    """Return the records of a run, without times, in an order of their own."""
    from emend.evals.log.records import read_records
    from tests.evals.toys import untimed

    return sorted(untimed(record) for record in read_records(folder))


def fault(kind: str, folders: Sequence[Path], expected: Sequence[str]) -> str:
    """Return what is wrong with runs started at the same time; empty if nothing is."""
    endings = Counter(run_at_once(kind, folders))
    # A process that comes when the first has finished finds nothing left to do.
    if endings[FINISHED] < len(set(folders)) or endings.keys() - {FINISHED, IN_USE}:
        return "; ".join(endings.elements())
    differing = [folder.name for folder in set(folders) if records_of(folder) != list(expected)]
    return f"other records in {', '.join(differing)}" if differing else ""


def trials(
    count: int, root: Path, kinds: Sequence[str] = KINDS, places: Sequence[str] = PLACES
) -> tuple[Counter[tuple[str, str]], list[str]]:
    """Try each kind so many times in each of the places.

    Returns:
        Numbers of right trials by kind and place, and descriptions of the wrong ones.
    """
    alone = root / "alone"
    assert run_at_once("threads", [alone]) == [FINISHED]
    expected, right, wrong = records_of(alone), Counter[tuple[str, str]](), list[str]()
    for trial in range(count):
        for kind in kinds:
            for place in places:
                folder = root / f"{kind}-{place}-{trial}"
                folders = [folder] * RUNS if place == ONE else [folder / str(run) for run in range(RUNS)]
                what = fault(kind, folders, expected)
                right[kind, place] += not what
                wrong += [f"{kind}, {place}, trial {trial}: {what}"] if what else []
                print(f"{sum(right.values())} right, {len(wrong)} wrong", end="\r", file=sys.stderr, flush=True)
    return right, wrong


def main() -> int:
    """Try, and print the counts and what went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20, help="of each kind (default: %(default)s)")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--places", nargs="+", choices=PLACES, default=PLACES)
    options = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as root:
        right, wrong = trials(options.trials, Path(root), options.kinds, options.places)
    for (kind, place), count in right.items():
        print(f"{kind}, {place}: {count} of {options.trials} right")
    print("\n".join([*wrong, f"{time.monotonic() - start:.0f} s"]))
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
