"""Kills and interrupts runs over a provider at random moments, resumes them, and compares them with undisturbed ones.

SIGKILL, SIGTERM and SIGINT (Ctrl-C) in turn, editors `rag` and `mello`, modes single, batch, all and sequential. After
every run its records and steps must be those of the undisturbed run: none lost, none doubled, no reply left behind.

    python scripts/benchmarks/storm_kills.py --kills 200 --seed 0
"""

import argparse
import contextlib
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from emend.agents.providers.journal import FILE  # noqa: E402
from emend.evals.log.lines import BASELINE, EVENTS, RECORDS  # noqa: E402
from emend.evals.log.records import read_lines, read_records  # noqa: E402
from tests.evals.toys import BENCHMARK, untimed  # noqa: E402
from tests.provider.server import Provider  # noqa: E402
from tests.provider.speaking import believes  # noqa: E402

CASES = 24
SECONDS = 120
"""Maximum time of one process; a run of so few cases takes a few seconds."""
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
SCENARIOS = tuple((mode, editor) for mode in ("single", "batch:5", "all", "sequential") for editor in ("rag", "mello"))
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["emend.evals.cli.main", "emend.evals.cli.commands.run", "emend.evals.api.run", "emend.evals.api.run"]
    + [
        "emend.evals.evaluate.run",
        "emend.evals.show.report.layout",
        "emend.evals.results.aggregate.judged",
        "truststore",
        "jiter",
    ]
    + ["emend.agents.providers.chat_model", "langchain_openai", "chromadb", "emend.memory.store.chroma"]
    + ["emend.editors.memory_based.rag", "emend.editors.memory_based.mello", "emend.memory.retrieval.bm25"]
    + ["tests.evals.toys"]
)


class Contents(NamedTuple):
    """What may not depend on interruptions: records without times, steps, and the unedited model's answers."""

    records: list[str]
    steps: list[tuple[str, ...]]
    baseline: list[str]

    @classmethod
    def of(cls, folder: Path) -> "Contents":
        """Read a run folder."""
        steps = (line for line in read_lines(folder, EVENTS) if "unit" in line)
        return cls(
            sorted(untimed(record) for record in read_records(folder)),
            sorted((line["unit"], line["probe"], line["node"], str(line["update"])) for line in steps),
            sorted(line["key"] for line in read_lines(folder, BASELINE)),
        )


def words_of(mode: str, editor: str, spec: str, folder: Path) -> list[str]:
    """Command line of a run, which resumes the run that is in the folder."""
    words = f"run --benchmark {BENCHMARK} --editor {editor} --editor unedited --mode {mode} --concurrency 4".split()
    words += f"--benchmark-option cases={CASES} --embedding lexical --retriever bm25 --model {spec}".split()
    words += ["--reevaluate-at", "every:10,end"] if mode == "sequential" else []
    return [*words, "--out", str(folder)]


def work(words: Sequence[str]) -> None:
    """Run the command line, silently, as a process of its own does."""
    os.environ["OPENAI_API_KEY"] = "sk-planted-0123456789"
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background ignores it
    with open(os.devnull, "w") as nowhere:
        for stream in (1, 2):
            os.dup2(nowhere.fileno(), stream)
    from emend.evals.cli.main import main

    sys.argv = ["emend", *words]
    main()


def start(words: Sequence[str]) -> Any:
    """Start a process with the command line."""
    process = CONTEXT.Process(target=work, args=(list(words),))
    process.start()
    return process


def wait_for(process: Any) -> int:
    """Exit code of a process, which must end by itself."""
    process.join(SECONDS)
    if process.is_alive():
        process.kill()
        process.join()
        raise AssertionError(f"the process did not end within {SECONDS} s")
    return int(process.exitcode)


def disturb(process: Any, provider: Provider, calls: int, number: signal.Signals, rng: random.Random) -> int:
    """Send the signal a random moment after so many more calls; return the process's exit code."""
    target, limit = provider.count + calls, time.monotonic() + SECONDS
    while process.is_alive() and provider.count < target and time.monotonic() < limit:
        time.sleep(0.001)
    time.sleep(rng.uniform(0, 0.03))
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, number)
    code = wait_for(process)
    expected = {0, -signal.SIGKILL} if number == signal.SIGKILL else {0, 130}
    if not calls:  # it may have come before the command line was there to take it
        expected |= {-number, 1}  # 1 is Python's code for an interruption while it imports
    if code not in expected:
        raise AssertionError(f"exit code {code} after {number.name}")
    return code


def storm(kills: int, seed: int, workplace: Path, scenarios: Sequence[tuple[str, str]] = SCENARIOS) -> Counter[str]:
    """Disturb runs so many times in all, and compare every finished run with the undisturbed one.

    Returns:
        Numbers of signals by name, of `runs` that were compared and of calls that were made `again`.

    Raises:
        AssertionError: a run differs, a process hangs or ends with an unexpected code.
    """
    counts = Counter[str]()
    shares = [kills // len(scenarios) + (place < kills % len(scenarios)) for place in range(len(scenarios))]
    for (mode, editor), share in zip(scenarios, shares, strict=True):
        if not share:
            continue
        rng, signals = random.Random(f"{seed}/{mode}/{editor}"), cycle(SIGNALS)
        with Provider(believes, latency=0.004) as provider:
            folder = workplace / f"{mode}-{editor}".replace(":", "-")
            assert wait_for(start(words_of(mode, editor, provider.spec("chat"), folder / "whole"))) == 0
            whole, calls = Contents.of(folder / "whole"), provider.count
            assert len(whole.records) > CASES
            for run in range(share):
                if not share:
                    break
                out, before, sent = folder / str(run), provider.count, min(share, rng.randint(2, 8))
                for left in range(sent, 0, -1):
                    number = next(signals)
                    process = start(words_of(mode, editor, provider.spec("chat"), out))
                    missing = max(2, calls - (provider.count - before))
                    code = disturb(process, provider, rng.randint(1, max(2, 2 * missing // (left + 1))), number, rng)
                    counts[number.name if code else "too late"] += 1
                share -= sent
                assert wait_for(start(words_of(mode, editor, provider.spec("chat"), out))) == 0
                difference = [
                    name for name, a, b in zip(Contents._fields, whole, Contents.of(out), strict=True) if a != b
                ]
                assert not difference, f"{mode}, {editor}, run {run}: other {', '.join(difference)}"
                assert not (out / FILE).exists(), "replies of finished units are left"
                assert (out / RECORDS).read_bytes().count(b"\n") == len(whole.records)
                counts["runs"] += 1
                counts["again"] += provider.count - before - calls
    return counts


def main() -> None:
    """Storm, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as workplace:
        counts = storm(options.kills, options.seed, Path(workplace))
    print(f"{dict(counts)}; 0 records lost, 0 doubled, {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
