"""Counts the calls that a memory-writing agent makes again after kills, and the prompts that differ in two equal runs.

    python -m scripts.nightly.repeated_calls --kills 10

Each scenario is run twice undisturbed, whose prompts must be equal, and once with SIGKILLs at random moments, after
which no more calls may have been made again than were under way.
"""

import argparse
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from emend.evals.streams.generator import generate_stream, with_injections
from emend.evals.streams.stream_config import StreamOptions
from emend.evals.streams.turn import write_stream
from scripts.benchmarks.kill_commands import write_facts
from scripts.benchmarks.storm_kills import disturb, start, wait_for
from tests.evals.toys import BENCHMARK
from tests.provider.protocols import Asked, Said
from tests.provider.server import Provider
from tests.provider.speaking import believes

LATENCY = 0.02
STREAM = "stream.jsonl"


class Scenario(NamedTuple):
    """A command on a folder, its model, and the maximum number of concurrent calls."""

    name: str
    reply: Callable[[Asked], Said | str]
    words: Callable[[Path, Provider], list[str]]
    under_way: int


def stream_words(systems: tuple[str, ...], concurrency: int, folder: Path, provider: Provider) -> list[str]:
    """Return the command line that runs or resumes systems over a stream."""
    words = f"stream run {folder / STREAM} --embedding lexical --concurrency {concurrency}".split()
    for system in systems:
        words += ["--system", system]
    return [*words, "--model", provider.spec("chat"), "--out", str(folder / "run")]


def writing_words(folder: Path, provider: Provider) -> list[str]:
    """Return the command line of editors, one of which writes its memory, in two processes."""
    words = (
        f"run --benchmark {BENCHMARK} --benchmark-option cases=12 --editor rag --editor agent --editor mello".split()
    )
    words += (
        "--set agent.writes=true --workers processes:2 --concurrency 4 --embedding lexical --retriever bm25".split()
    )
    return [*words, "--model", provider.spec("chat"), "--fail-on-error", "false", "--out", str(folder / "run")]


SCENARIOS = (
    Scenario("fact_agent", write_facts, partial(stream_words, ("fact_agent",), 1), 1),
    Scenario("3 systems", write_facts, partial(stream_words, ("fact_agent", "memory", "grep"), 4), 4),
    Scenario("agent.writes, processes:2", believes, writing_words, 4),
)


def make_stream(folder: Path) -> None:
    """Write a stream of 43 turns of two users with questions; three of the turns are injected."""
    folder.mkdir()
    items = list(generate_stream(StreamOptions(turns=40, seed=1, users=2)))
    write_stream(with_injections(items, 3, 1), folder / STREAM)


def prompts_of(provider: Provider) -> Counter[str]:
    """Return the prompts sent to the provider, with their counts."""
    return Counter(str((request.body["messages"], request.body.get("tools"))) for request in provider.requests)


def undisturbed(scenario: Scenario, folder: Path) -> Counter[str]:
    """Return the prompts of an uninterrupted run."""
    make_stream(folder)
    with Provider(scenario.reply) as provider:
        assert wait_for(start(scenario.words(folder, provider))) == 0
        return prompts_of(provider)


def disturbed(scenario: Scenario, folder: Path, calls: int, kills: int, rng: random.Random) -> tuple[int, int]:
    """Return the number of calls of a killed run, and the number of kills while it worked."""
    make_stream(folder)
    met = 0
    with Provider(scenario.reply, latency=LATENCY) as provider:
        for left in range(kills, 0, -1):
            missing = max(1, calls - provider.count)
            process = start(scenario.words(folder, provider))
            met += bool(
                disturb(process, provider, rng.randint(1, max(1, 2 * missing // (left + 1))), signal.SIGKILL, rng)
            )
        assert wait_for(start(scenario.words(folder, provider))) == 0
        return provider.count, met


def main() -> int:
    """Print a line for each scenario; return 1 if prompts differ or calls were repeated."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng, bad = random.Random(options.seed), 0
    for scenario in SCENARIOS:
        root = Path(tempfile.mkdtemp())
        first, second = (undisturbed(scenario, root / name) for name in ("first", "second"))
        calls, differing = first.total(), (first - second).total()
        made, met = disturbed(scenario, root / "killed", calls, options.kills, rng)
        bound = calls + met * scenario.under_way
        bad += bool(differing) or not calls <= made <= bound
        sys.stdout.write(
            f"{scenario.name}: {differing} of {calls} prompts differ; {made} calls with {met} SIGKILLs, "
            f"{made - calls} again (at most {bound - calls})\n"
        )
        sys.stdout.flush()
        shutil.rmtree(root)
    return int(bool(bad))


if __name__ == "__main__":
    raise SystemExit(main())
