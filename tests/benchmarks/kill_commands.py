"""Kills and interrupts `emend judge run` at random moments, repeats it, and compares with an undisturbed scoring.

SIGKILL, SIGTERM and SIGINT (Ctrl-C) in turn. In the end the judgements and the table must be those of the undisturbed
scoring: none lost, none doubled, and no more calls made again than were under way when something was killed.

    python tests/benchmarks/kill_judges.py --kills 50 --seed 0
"""

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
import zlib
from collections import Counter
from itertools import cycle
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from emend.evals.aggregate.rows import report  # noqa: E402
from emend.evals.judges.store import list_scorings, read_judgements  # noqa: E402
from tests.benchmarks.storm_kills import SIGNALS, disturb, start, wait_for, words_of  # noqa: E402
from tests.evals.judged_runs import verdict  # noqa: E402
from tests.provider.protocols import Asked  # noqa: E402
from tests.provider.server import Provider  # noqa: E402
from tests.provider.speaking import believes  # noqa: E402

CONCURRENCY = 4
LATENCY = 0.02


def judge(asked: Asked) -> str:
    """A verdict that depends on the question alone."""
    return verdict(asked.prompt, yes="yes" if zlib.crc32(asked.prompt.encode()) % 3 else "no")


def judge_words(folder: Path, provider: Provider) -> list[str]:
    """Command line that judges a run, or goes on with it."""
    spec = provider.spec("chat", "judge")
    return f"judge run {folder} --judge {spec} --kind equivalence --concurrency {CONCURRENCY}".split()


def outcome(folder: Path) -> tuple[list[str], list[Any]]:
    """Judgements without times and costs, and the rows of the table; none of either may depend on interruptions."""
    (scoring,) = list_scorings(folder)
    changing = {"usage", "seconds"}
    judgements = [each.model_dump_json(exclude=changing) for each in read_judgements(folder, scoring)]
    return sorted(judgements), [row.model_dump() for row in report(folder).rows]


def storm(kills: int, seed: int, root: Path) -> Counter[str]:
    """Disturb scorings so many times in all, and compare every finished one with the undisturbed one.

    Returns:
        Numbers of signals by name, of `scorings` that were compared and of calls that were made `again`.

    Raises:
        AssertionError: a scoring differs, a process hangs or ends with an unexpected code.
    """
    rng, signals, counts = random.Random(seed), cycle(SIGNALS), Counter[str]()
    with Provider(believes) as provider:
        assert wait_for(start(words_of("single", "rag", provider.spec("chat"), root / "run"))) == 0
    with Provider(judge, latency=LATENCY) as provider:
        whole = shutil.copytree(root / "run", root / "whole")
        assert wait_for(start(judge_words(whole, provider))) == 0
        expected, calls = outcome(whole), provider.count
        left = kills
        while left:
            folder = shutil.copytree(root / "run", root / f"{counts['scorings']}")
            before, sent, late = provider.count, min(left, rng.randint(2, 6)), 0
            for place in range(sent, 0, -1):
                number, missing = next(signals), max(1, calls - (provider.count - before))
                process = start(judge_words(folder, provider))
                code = disturb(process, provider, rng.randint(0, 2 * missing // (place + 1)), number, rng)
                late += not code
                counts[signal.Signals(number).name if code else "too late"] += 1
            assert wait_for(start(judge_words(folder, provider))) == 0
            again = provider.count - before - calls
            assert outcome(folder) == expected, f"scoring {counts['scorings']} differs"
            assert 0 <= again <= CONCURRENCY * (sent - late), f"{again} calls were made again after {sent} signals"
            left -= sent
            counts["scorings"] += 1
            counts["again"] += again
    return counts


def main() -> None:
    """Storm, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as root:
        counts = storm(options.kills, options.seed, Path(root))
    print(f"{dict(counts)}; 0 judgements lost, 0 doubled, {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
