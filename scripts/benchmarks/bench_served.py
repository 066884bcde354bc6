"""Scores of a served model beside those of the local engine on DocTER, and its pairs per second.

    python scripts/benchmarks/bench_served.py --data FOLDER [--limit 40]
    python scripts/benchmarks/bench_served.py --data FOLDER --model vllm:NAME@URL --local hf:FOLDER

FOLDER holds DocTER's files. Without `--model` the embedded model answers behind a stub of a vLLM server in this
process, so that both compute with the same weights. The first table is that of two runs: every log-probability and
every value of a record is compared with its counterpart. The second asks the same pairs in three ways that take turns:
one pair at a time, 32 threads with one pair to a request, and 32 threads whose pairs are gathered into lists of 32.
Exits 1 if a likelihood score differs by more than 1e-4.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))

import emend  # noqa: E402
from emend.agents.llm import load_model  # noqa: E402
from emend.agents.providers.policy import CallPolicy  # noqa: E402
from emend.agents.served.server import MARGIN  # noqa: E402
from emend.evals.case import Record  # noqa: E402
from scripts.benchmarks.bench_likelihood import Pair, locality  # noqa: E402
from tests.provider.completions import CompletionsServer  # noqa: E402

EDITORS = ("unedited", "in_context", "rag")
LIMIT = 1e-4
GATHER = 32


class Differences(NamedTuple):
    """Two runs of the same benchmark, compared record by record."""

    records: int
    log_probs: int
    """Number of log-probabilities that were compared."""
    values: int
    log_prob: float
    """Largest difference of a log-probability."""
    value: float
    """Largest difference of a likelihood score."""
    answers: int
    """Number of records with another answer or another unscored value."""
    cut: int
    """Number of records that were not compared: a server leaves less room for a long prompt, and more of it was cut."""


def compare(run: Sequence[Record], other: Sequence[Record]) -> Differences:
    """Compare the records of the same probes.

    Raises:
        ValueError: the runs have other probes, or values of other names.
    """
    by_key = {(r.editor, r.case, r.probe, r.setting): r for r in other}
    log_probs, values, answers, cut = [], [], 0, 0
    for record in run:
        same = by_key.pop((record.editor, record.case, record.probe, record.setting))
        if record.cut_tokens != same.cut_tokens:
            cut += 1
            continue
        log_probs += [abs(a - b) for a, b in zip(record.log_probs, same.log_probs, strict=True)]
        if record.values.keys() != same.values.keys() or record.target_tokens != same.target_tokens:
            raise ValueError(f"{record.probe}: scored {sorted(record.values)} and {sorted(same.values)}")
        values += [abs(value - same.values[name]) for name, value in record.values.items() if record.log_probs]
        answers += (record.answer, record.unscored) != (same.answer, same.unscored)
    if by_key or not log_probs:
        raise ValueError(f"{len(by_key)} records are in one run only, {len(log_probs)} log-probabilities in both")
    return Differences(len(run), len(log_probs), len(values), max(log_probs), max(values), answers, cut)


@contextmanager
def stub() -> Iterator[tuple[str, dict[str, Any]]]:
    """The embedded model behind a stub server: its name, and the settings with its tokenizer."""
    local: Any = load_model("tiny", device="cpu")
    # Room for one new token is left free, and for the last token of a target that a local model need not read.
    with CompletionsServer(local.lm, window=local.lm.window + MARGIN) as server:
        yield server.spec(), {"tokenizer": str(local.lm.folder)}
    local.close()


def runs(
    data: Path,
    limit: int,
    folder: Path,
    local: str,
    served: str,
    settings: dict[str, Any],
    editors: Sequence[str] = EDITORS,
) -> list[list[Record]]:
    """The records of DocTER by the local and by the served model."""
    options: dict[str, Any] = {"data": data, "limit": limit, "embedding": "lexical", "progress": False}
    plain = emend.run("docter", editors, local, out=folder / "local", overrides={"model": {"device": "cpu"}}, **options)
    other = emend.run(
        "docter", editors, served, out=folder / "served", overrides={"model": settings}, concurrency=16, **options
    )
    return [plain.records(), other.records()]


class Speed(NamedTuple):
    """Pairs of one way of asking, with the time they took on the wall and of processors, and their scores."""

    seconds: float
    work: float
    scores: list[float]


def speeds(served: str, settings: dict[str, Any], pairs: Sequence[Pair]) -> dict[str, list[Speed]]:
    """The three ways, in turns over blocks of pairs."""
    policy = CallPolicy(rpm=10_000_000)
    alone: Any = load_model(served, policy, **settings, gather=1, score_apart=True)
    lists: Any = load_model(served, policy, **settings, gather=GATHER)
    found: dict[str, list[Speed]] = {"one at a time": [], "32 threads, one a request": [], "lists of 32": []}
    ways = list(zip(found, (alone, alone, lists), (1, GATHER, GATHER), strict=True))
    for turn, at in enumerate(range(0, len(pairs), 4 * GATHER)):
        for name, model, threads in ways[turn % 3 :] + ways[: turn % 3]:
            start, work = time.perf_counter(), time.process_time()
            with ThreadPoolExecutor(threads) as pool:
                scores = list(pool.map(lambda pair: model.score(pair[0], [pair[1]]), pairs[at : at + 4 * GATHER]))  # noqa: B023
            spent = time.perf_counter() - start, time.process_time() - work
            found[name].append(Speed(*spent, [score.log_probs[0] for score in scores]))
    alone.close()
    lists.close()
    return found


def show(found: dict[str, list[Speed]], count: int) -> Table:
    """One line for each way."""
    table = Table("way", "pairs/s", "times one at a time", "CPU ms/pair", title=f"scoring, {count:,} pairs")
    seconds = {name: sum(block.seconds for block in blocks) for name, blocks in found.items()}
    for name, blocks in found.items():
        work = sum(block.work for block in blocks)
        ratio = seconds["one at a time"] / seconds[name]
        table.add_row(name, f"{count / seconds[name]:,.0f}", f"{ratio:.2f}", f"{1000 * work / count:.2f}")
    return table


def measure(console: Console, data: Path, limit: int, pairs: int, local: str, model: str, tokenizer: str) -> bool:
    """Print both tables; returns whether all likelihood scores are equal within the limit."""
    with tempfile.TemporaryDirectory() as name, stub() as (spec, settings):
        served = model or spec
        chosen = settings if not model else {"tokenizer": tokenizer} if tokenizer else {}
        found = compare(*runs(data, limit, Path(name), local, served, chosen))
        console.print(
            f"DocTER, {limit} cases, {', '.join(EDITORS)}: {found.records:,} records, {found.log_probs:,} "
            f"log-probabilities, largest difference {found.log_prob:.1e}; {found.values:,} likelihood scores, largest "
            f"difference {found.value:.1e}; records with another answer or reason: {found.answers}; not compared, "
            f"because more of a long prompt was cut: {found.cut}"
        )
        records = json.loads((data / "locality_eval.json").read_text("utf-8"))
        asked = [pair for block in locality(records, {}) for pair in block][:pairs]
        console.print(show(speeds(served, chosen, asked), len(asked)))
    return max(found.log_prob, found.value) <= LIMIT


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT / "../shared/data/docter")
    parser.add_argument("--limit", type=int, default=40, help="cases of the two runs")
    parser.add_argument("--pairs", type=int, default=1024, help="pairs that are scored in each way")
    parser.add_argument("--local", default="tiny", help="local model to compare with")
    parser.add_argument("--model", default="", help="served model, such as vllm:NAME@URL; default: a stub server")
    parser.add_argument("--tokenizer", default="", help="its tokenizer, a folder or a Hugging Face id")
    args = parser.parse_args()
    if not measure(Console(), args.data, args.limit, args.pairs, args.local, args.model, args.tokenizer):
        sys.exit(1)


if __name__ == "__main__":
    main()
