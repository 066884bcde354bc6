"""Storm of faults over three protocols: no unit is lost, doubled or scored wrongly, and refusals cost little.

`python scripts/benchmarks/storm.py` runs four editors against a server on 127.0.0.1 that answers 30% of the requests
with one of its kinds of faults, resumes until every unit is finished, and compares the records with an undisturbed
run's. Then it measures calls a second under refusals: at random, and at a server's own limit.
"""

import argparse
import itertools
import os
import random
import tempfile
import threading
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from emend.agents.providers.policy import CallPolicy
from emend.evals.case import Record
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.run import run
from emend.evals.log.records import read_records
from emend.memory.errors import ProviderPaused, TooManyFailures
from tests.evals.toys import BENCHMARK
from tests.provider.models import PROTOCOLS, asked_model, quick_policy
from tests.provider.server import ALL_FAULTS, Provider
from tests.provider.speaking import believes

EDITORS = ("rag", "mello", "crag", "agent")
KINDS = tuple(fault for fault in ALL_FAULTS if fault != "wrong_schema")  # it is an answer, and a wrong one
REFUSALS = tuple(fault for fault in ALL_FAULTS if fault.startswith("429") and not fault.endswith(("day", "after")))
MOST_RESUMES = 200
KEY = "sk-planted-0123456789"
Choose = Callable[[int], str]


def mixed(kinds: tuple[str, ...], share: float, seed: int) -> Choose:
    """Return the fault of each request by its number: all kinds in turn, in a random order."""
    drawn = random.Random(seed)
    order = itertools.cycle(drawn.sample(kinds, len(kinds)))
    return lambda number: next(order) if drawn.random() < share else ""


def evaluate(folder: Path, protocol: str, cases: int, choose: Choose) -> tuple[list[Record], Counter[str]]:
    """Run to the end, however often that takes; return the records, and how often each fault was met."""
    config = RunConfig(
        benchmark=BENCHMARK,
        editors=EDITORS,
        embedding="lexical",
        retriever="bm25",
        model="openai:any-model",
        mode="all",
        concurrency=4,
        benchmark_options={"cases": str(cases), "probes": "0", "scorer": "exact_match"},
        overrides={"crag": {"evaluator": "model", "k": 1}},
        fail_on_error="false",
    )
    with Provider(believes, choose=choose, hang=2.0) as provider:
        bounds: dict[str, Any] = {"timeout": 0.6, "deadline": 3.0, "reply_mb": 1.0}
        for _ in range(MOST_RESUMES):
            model = asked_model(provider, protocol, quick_policy(), **bounds)
            try:
                if not run(config, folder, model=model).failed:
                    break
            except TooManyFailures:  # a refused key, or a pause of a day: the next run goes on
                pass
        met = Counter(request.fault for request in provider.requests if request.fault)
        return list(read_records(folder)), met + Counter(requests=provider.count)


def compare(calm: list[Record], stormy: list[Record]) -> Counter[str]:
    """Count units that were lost, doubled, scored wrongly, unscored, and the same."""
    counts = Counter(record.unit for record in stormy)
    by_unit = {record.unit: record for record in stormy}
    outcome = Counter({name: 0 for name in ("lost", "doubled", "wrong", "unscored", "same")})
    for record in calm:
        other = by_unit.get(record.unit)
        if other is None:
            outcome["lost"] += 1
        elif other.values.items() <= record.values.items():
            outcome["same" if other.values == record.values else "unscored"] += 1
        else:
            outcome["wrong"] += 1
    outcome["doubled"] = sum(count - 1 for count in counts.values())
    return outcome


def leaks(folder: Path) -> list[str]:
    """Files in which the key is."""
    return [path.name for path in folder.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


class Limit:
    """Refuses what is more than so many calls a second, over the last second."""

    def __init__(self, calls: int, kinds: tuple[str, ...]) -> None:
        self.calls, self.kinds = calls, itertools.cycle(kinds)
        self._times, self._lock = deque[float](), threading.Lock()

    def __call__(self, number: int) -> str:
        with self._lock:
            now = time.monotonic()
            while self._times and self._times[0] < now - 1:
                self._times.popleft()
            if len(self._times) < self.calls:
                self._times.append(now)
                return ""
            return next(self.kinds)


def calls_a_second(choose: Choose, seconds: float, threads: int = 8) -> float:
    """Return the replies a second that threads get from a server which takes a tenth of a second for each."""
    replies, end = itertools.count(), time.monotonic() + seconds
    with Provider(lambda asked: "Ostrim", choose=choose, latency=0.1) as provider:
        policy = CallPolicy()
        model = asked_model(provider, policy=policy)

        def ask() -> None:
            while time.monotonic() < end:
                with suppress(ProviderPaused):  # refused too often: no reply
                    model.invoke("Where?")
                    next(replies)

        with ThreadPoolExecutor(threads) as pool:
            for done in [pool.submit(ask) for _ in range(threads)]:
                done.result()
    return next(replies) / seconds


def main() -> int:
    """Print both tables; return 1 where a unit was lost, doubled or scored wrongly, or half the throughput."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=40, help="cases of the toy benchmark, for each of four editors")
    parser.add_argument("--share", type=float, default=0.3, help="share of requests that meet a fault")
    parser.add_argument("--seconds", type=float, default=15.0, help="of each measurement of throughput")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    os.environ |= {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
    warnings.simplefilter("ignore")
    bad = 0
    for protocol in PROTOCOLS:
        with tempfile.TemporaryDirectory() as folder:
            calm, _ = evaluate(Path(folder, "calm"), protocol, chosen.cases, lambda number: "")
            start = time.monotonic()
            choose = mixed(KINDS, chosen.share, chosen.seed)
            stormy, met = evaluate(Path(folder, "storm"), protocol, chosen.cases, choose)
            outcome = compare(calm, stormy)
            leaked = leaks(Path(folder))
        requests = met.pop("requests")
        print(
            f"{protocol}: {len(calm)} units, {requests} requests, {met.total()} faults of {len(met)} kinds, "
            f"{', '.join(f'{count} {name}' for name, count in outcome.items())}, key in {leaked or 'no file'}, "
            f"{time.monotonic() - start:.0f} s",
            flush=True,
        )
        bad += outcome["lost"] + outcome["doubled"] + outcome["wrong"] + len(leaked)
    calm_rate = calls_a_second(lambda number: "", chosen.seconds)
    for name, choose, allowed in (
        ("30% refused at random", mixed(REFUSALS, 0.3, chosen.seed), calm_rate),
        ("at most 20 calls a second", Limit(20, REFUSALS), 20.0),
    ):
        rate = calls_a_second(choose, chosen.seconds)
        print(f"{name}: {rate:.1f} calls/s of {allowed:.1f}, {rate / allowed:.0%}", flush=True)
        bad += rate < allowed / 2
    return int(bool(bad))


if __name__ == "__main__":
    raise SystemExit(main())
