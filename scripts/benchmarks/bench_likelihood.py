"""Pairs per second of the likelihood engine, against one pair at a time and against plain padded batching.

    python scripts/benchmarks/bench_likelihood.py --data FOLDER

FOLDER holds DocTER's `locality_eval.json`: ten prompts per record, each with two targets. A second table puts the
beginning of DocTER's document (`en_doc.json`) in front of the ten prompts, which is how a retrieved document is asked
about. The ways take turns on the same records, so that whatever else the machine does falls on all of them alike; on a
busy machine the time of the processors tells more than that of the clock. At least 5 times one pair at a time is wanted
on two cores with the embedded model.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))

from emend.agents.local.causal_lm import CausalLM  # noqa: E402
from emend.agents.tiny import model_folder  # noqa: E402

Pair = tuple[str, str]
Way = Callable[[CausalLM, Sequence[Pair]], list[float]]


def one_at_a_time(lm: CausalLM, pairs: Sequence[Pair]) -> list[float]:
    """A forward pass for every pair."""
    return [lm.log_probs([pair], share=False)[0].log_prob for pair in pairs]


def padded(lm: CausalLM, pairs: Sequence[Pair]) -> list[float]:
    """Batches of rows of like length, every pair a row of its own."""
    rows = lm.encode_pairs(pairs)
    scores = lm.likelihood.tokens(rows, range(len(rows)), share=False)
    return [sum(token.log_prob for token in tokens) for tokens in scores]


def engine(lm: CausalLM, pairs: Sequence[Pair]) -> list[float]:
    """What Emend does."""
    return [scored.log_prob for scored in lm.log_probs(pairs)]


WAYS: dict[str, Way] = {"one at a time": one_at_a_time, "padded batches": padded, "engine": engine}


class Measured(NamedTuple):
    """Seconds of each way over the same pairs, on the wall and of processors, and how far their results differ."""

    pairs: int
    seconds: dict[str, float]
    work: dict[str, float]
    differ: float


def measure(lm: CausalLM, blocks: Sequence[Sequence[Pair]]) -> Measured:
    """Every way on every block, the ways in another order each time."""
    seconds, work = dict.fromkeys(WAYS, 0.0), dict.fromkeys(WAYS, 0.0)
    differ = 0.0
    for turn, pairs in enumerate(blocks):
        told: dict[str, list[float]] = {}
        for name in _turned(list(WAYS), turn):
            began, worked = time.perf_counter(), time.process_time()
            told[name] = WAYS[name](lm, pairs)
            seconds[name] += time.perf_counter() - began
            work[name] += time.process_time() - worked
        for name in WAYS:
            differ = max(differ, *(abs(a - b) for a, b in zip(told[name], told["one at a time"], strict=True)))
    return Measured(sum(map(len, blocks)), seconds, work, differ)


def _turned(names: list[str], turn: int) -> list[str]:
    turn %= len(names)
    return names[turn:] + names[:turn]


def locality(records: Sequence[dict[str, object]], documents: dict[int, str]) -> Iterator[list[Pair]]:
    """The pairs of each record: ten prompts by two targets, after the record's document if there is one."""
    for record in records:
        before = documents.get(int(str(record["id"])), "")
        targets = [str(record["original_target"]), str(record["altered_target"])]
        queries = record["query"]
        assert isinstance(queries, list)
        yield [(f"{before}{query}", target) for query in queries for target in targets]


def blocks(pairs: Sequence[list[Pair]], size: int) -> list[list[Pair]]:
    """The pairs of so many records together."""
    return [[pair for some in pairs[at : at + size] for pair in some] for at in range(0, len(pairs), size)]


def show(title: str, found: Measured) -> Table:
    """One line per way."""
    heads = ("way", "pairs/s", "times one at a time", "CPU ms/pair", "times less CPU")
    table = Table(*heads, title=f"{title}: {found.pairs:,} pairs")
    one, alone = found.seconds["one at a time"], found.work["one at a time"]
    for name, seconds in found.seconds.items():
        work = found.work[name]
        cpu = f"{1000 * work / found.pairs:.2f}"
        table.add_row(name, f"{found.pairs / seconds:,.0f}", f"{one / seconds:.2f}", cpu, f"{alone / work:.2f}")
    return table


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=ROOT / "../shared/data/docter")
    parser.add_argument("--records", type=int, default=60)
    parser.add_argument("--together", type=int, default=20, help="records whose pairs are given to a way at once")
    chosen = parser.parse_args()
    lm = CausalLM(model_folder(), device="cpu")
    records = json.loads((chosen.data / "locality_eval.json").read_text("utf-8"))[: chosen.records]
    told = json.loads((chosen.data / "en_doc.json").read_text("utf-8"))["data"]
    documents = {int(doc["id"]): f"New Fact: {' '.join(doc['src'].split()[:80])}\n" for doc in told}
    measure(lm, blocks(list(locality(records[:2], {})), 1))  # what is made at first use is made
    for title, before in (("prompts alone", {}), ("after 80 words of a document", documents)):
        found = measure(lm, blocks(list(locality(records, before)), chosen.together))
        Console().print(show(title, found), f"largest difference of a log-probability: {found.differ:.1e}")


if __name__ == "__main__":
    main()
