"""What running graphs costs beside what models take: a provider's latency, a step, and a local model's batches.

    python scripts/benchmarks/bench_graphs.py

1. `latency`: calls of 0.2 s to a provider on 127.0.0.1, in a process of its own, through the real client, 64 at once:
   `rag` over cases of four probes, MeLLo over questions of 2 to 4 hops, and OpenAI's client alone with MeLLo's calls,
   each in a process of its own; with `--workers processes:N` the client alone also in N processes. `bare graph` is
   the steps of `rag` in LangGraph with LangChain's client, in threads, without Emend: nothing is searched, scored or
   recorded, so that Emend's own share is what `rag` takes above it. What latency and
   concurrency alone demand (`bound`): 64 workers take the questions in their order, the calls of a question follow one
   another, each takes 0.2 s, and nothing else takes time; when the last one ends is the bound. Calls spread evenly
   (`even`, calls x 0.2 / 64) would take less. Measured from the provider's first request to the last record on the
   disk. 94% of the bound for `rag` and at most 1.1 times the bound for MeLLo are wanted, on two cores that do nothing
   else, the provider's work included (`server`). `CPU ms` is of all processes that evaluate, per call. A process makes
   a call every so many milliseconds at best, because all its work passes one interpreter lock: 64 at once at 0.2 s are
   one every 3.1 ms. The full measurement is
   `taskset -c 0,1 python scripts/benchmarks/bench_graphs.py latency --calls 5000 --workers processes:2`.
2. `steps`: processor time per step of the graph with a model that answers at once, in a whole run with its records and
   events, and what retrieval takes apart from it. Told of blocks of ten questions: the middle one and the least, which
   other work on the machine disturbed least. At most 1 ms is wanted.
3. `batching`: MeLLo on the embedded model, 64 questions of `tinyworld` at once against one after another, the second in
   two halves around the first. At least 4 times the throughput on two cores, and the same answers, are wanted.

On a busy machine the time of the processors tells more than that of the clock.
"""

import argparse
import heapq
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

BLOCK = 10
"""Questions that a figure of step costs is taken over."""
PROBES = 4
"""Probes of a case of `rag`."""
ALONE = "client alone"
BARE = "bare graph"
ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))

from emend.editors.base import EditorContext  # noqa: E402
from emend.editors.registry import EDITORS  # noqa: E402
from emend.evals.config.run_config import RunConfig  # noqa: E402
from emend.evals.data.benchmarks.tinyworld import TinyWorld  # noqa: E402
from emend.evals.evaluate.run import run  # noqa: E402
from emend.evals.jobs.results import Summary  # noqa: E402
from emend.evals.log.lines import EVENTS  # noqa: E402
from emend.evals.log.records import read_lines  # noqa: E402
from emend.evals.show.report.progress import RunProgress  # noqa: E402
from emend.memory.embeddings.embed import LexicalEmbedding  # noqa: E402
from emend.memory.probe import Answer, Probe  # noqa: E402
from emend.memory.retrieval.compose import load_retriever  # noqa: E402
from emend.memory.store.chroma import ChromaMemory  # noqa: E402
from scripts.benchmarks.bare_graph import ask_bare_graph  # noqa: E402
from scripts.benchmarks.chat_server import Served, ask_alone, peak_mb, serving  # noqa: E402
from scripts.benchmarks.walks import Metered, hops_of, say  # noqa: E402
from tests.fakes import ScriptedChatModel  # noqa: E402


class Mark(NamedTuple):
    """Seconds by the clock, of processors, and of them what retrieval took."""

    clock: float
    cpu: float
    retrieval: float


class Watch(RunProgress):
    """A mark whenever a unit ends."""

    def __init__(self) -> None:
        super().__init__()
        self.marks: list[Mark] = []

    def show(self) -> None:
        self.marks.append(Mark(time.monotonic(), time.process_time(), Metered.seconds))


class Late(NamedTuple):
    """Calls through a provider: the bound and what it took, in seconds; processor time; the process's peak."""

    name: str
    served: Served
    bound: float
    even: float
    elapsed: float
    cpu: float
    peak_mb: float


def bound_of(calls: Sequence[int], seconds: float, at_once: int) -> float:
    """When the last question ends if each takes its calls one after another and nothing else takes time."""
    free = [0.0] * at_once
    for count in calls:
        heapq.heapreplace(free, free[0] + count * seconds)
    return max(free)


def walk(
    folder: Path, questions: int, at_once: int, watch: Watch, editor: str = "mello", probes: int = 1, **more: Any
) -> Summary:
    """A run of an editor over that many questions."""
    config = RunConfig(
        benchmark="scripts.benchmarks.walks:Walks",
        editors=(editor,),
        model=more.pop("spec", "scripted"),
        retriever=more.pop("retriever", "default"),
        embedding="lexical",
        concurrency=at_once,
        workers=more.pop("workers", "auto"),
        benchmark_options={"questions": str(questions), "probes": str(probes)},
        overrides={"mello": {"form": "text"}} if editor == "mello" else {},  # the published one, which the model speaks
    )
    summary = run(config, folder, watch, **more)
    assert summary.records == questions * probes and not summary.unscored
    return summary


def latency(folder: Path, name: str, calls: int, at_once: int, seconds: float, workers: str = "auto") -> Late:
    """An editor, a bare graph or OpenAI's client alone, through a provider that takes so many seconds a reply."""
    chains = [PROBES] * (calls // PROBES) if name in ("rag", BARE) else chains_of(calls)
    with serving(say, seconds) as told:
        if name.startswith(ALONE):
            end, cpu, peak = ask_alone(told.url, chains, at_once, int(name.removeprefix(ALONE).strip(", x") or 1))
        elif name == BARE:
            end, cpu, peak = ask_bare_graph(told.url, chains, at_once)
        else:
            watch, probes = Watch(), PROBES if name == "rag" else 1
            summary = walk(folder, len(chains), at_once, watch, name, probes, spec=told.spec, workers=workers)
            end, cpu, peak = watch.marks[-1].clock, summary.cpu_seconds, peak_mb()
    assert told.served.requests == sum(chains)
    return Late(
        name=name,
        served=told.served,
        bound=bound_of(chains, seconds, at_once),
        even=sum(chains) * seconds / at_once,
        elapsed=end - told.served.first,
        cpu=cpu,
        peak_mb=peak,
    )


def chains_of(calls: int) -> list[int]:
    """The calls of each of MeLLo's questions, about so many in all."""
    return [hops_of(number) + 1 for number in range(calls // 4)]


def apart(*arguments: Any) -> Late:
    """`latency` in a process of its own, whose memory is that of one measurement."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(latency, *arguments).result()


class Cost(NamedTuple):
    """Milliseconds of processor time per step: without retrieval, in the middle block and the least one; retrieval."""

    steps: int
    middle: float
    least: float
    retrieval: float


def steps(folder: Path, questions: int) -> Cost:
    """What a run costs beside the model; the first block, in which things are made at first use, is left out."""
    watch = Watch()
    walk(folder, questions, 1, watch, model=ScriptedChatModel(reply=say), retriever="scripts.benchmarks.walks:Metered")
    ran = Counter(line["unit"] for line in read_lines(folder, EVENTS) if "node" in line)
    counts = list(ran.values())  # in the order in which the units ended
    found: list[tuple[float, float]] = []
    for at in range(BLOCK, questions - BLOCK + 1, BLOCK):
        before, after, taken = watch.marks[at - 1], watch.marks[at + BLOCK - 1], sum(counts[at : at + BLOCK])
        searched = after.retrieval - before.retrieval
        found.append((1000 * (after.cpu - before.cpu - searched) / taken, 1000 * searched / taken))
    own = sorted(one for one, _ in found)
    return Cost(sum(counts), median(own), own[0], median(searched for _, searched in found))


class Batched(NamedTuple):
    """Questions on a local model: seconds one after another and all at once, by the clock and of processors."""

    questions: int
    calls: int
    alone: tuple[float, float]
    together: tuple[float, float]
    same: bool


def batching(model: Any, probes: Sequence[Probe], edits: Sequence[Any], folder: Path) -> Batched:
    """All questions at once between two halves of one after another."""
    memory = ChromaMemory(folder, LexicalEmbedding())
    context = EditorContext(model=model, memory=memory, retriever=load_retriever("default"))
    half = len(probes) // 2
    with EDITORS.load("mello")(context).edit(edits) as answerer:
        answerer.answer(probes[0])  # what is made at first use is made
        first, one = timed(lambda: [answerer.answer(probe) for probe in probes[:half]])
        with ThreadPoolExecutor(len(probes)) as pool:
            many, together = timed(lambda: list(pool.map(answerer.answer, probes)))
        rest, other = timed(lambda: [answerer.answer(probe) for probe in probes[half:]])
    memory.close()
    same = [said(answer) for answer in (*first, *rest)] == [said(answer) for answer in many]
    calls = sum(answer.usage.calls for answer in many)
    return Batched(len(probes), calls, (one[0] + other[0], one[1] + other[1]), together, same)


def timed(act: Any) -> tuple[list[Answer], tuple[float, float]]:
    """What came, and the seconds it took."""
    began = time.perf_counter(), time.process_time()
    told: list[Answer] = act()
    return told, (time.perf_counter() - began[0], time.process_time() - began[1])


def said(answer: Answer) -> tuple[Any, ...]:
    """All that is the same however calls are gathered: the walk's text, what was found, and the tokens."""
    return answer.text, answer.prompt, answer.retrieved, answer.usage


def hops(count: int) -> tuple[list[Probe], list[Any]]:
    """So many two-hop questions of `tinyworld`, and all edits of their cases."""
    cases = list(TinyWorld().cases("triplet"))
    asked = (probe for case in cases for probe in case.probes if probe.kind == "multihop")
    probes = list(islice(asked, count))
    kept = {name for probe in probes for name in probe.edit_ids}
    return probes, [edit for case in cases for edit in case.edits if edit.id in kept]


def tables(lates: Sequence[Late], cost: Cost | None, batched: Batched | None) -> list[Table]:
    """A table per measurement."""
    shown = []
    if lates:
        heads = ("", "calls", "at once", "bound s", "even s", "took s", "x bound", "of it", "CPU ms", "server", "MB")
        shown.append(Table(*heads, title="through a provider; processor time per call, and the provider's"))
    for late in lates:
        row = [late.name, f"{late.served.requests:,}", str(late.served.at_once)]
        row += [
            f"{late.bound:.2f}",
            f"{late.even:.2f}",
            f"{late.elapsed:.2f}",
            f"{late.elapsed / late.bound:.2f}",
            f"{late.bound / late.elapsed:.0%}",
        ]
        costs = [1000 * seconds / late.served.requests for seconds in (late.cpu, late.served.cpu)]
        shown[-1].add_row(*row, *(f"{ms:.2f}" for ms in costs), f"{late.peak_mb:.0f}")
    if cost:
        columns = ("steps", "CPU ms/step", "the least", "retrieval besides")
        shown.append(Table(*columns, title="a run with a model that answers at once"))
        shown[-1].add_row(f"{cost.steps:,}", *(f"{one:.2f}" for one in (cost.middle, cost.least, cost.retrieval)))
    if batched:
        title = f"embedded model, {batched.questions} questions, {batched.calls} calls"
        same = f"same answers: {'yes' if batched.same else 'NO'}"
        shown.append(Table("", "questions/s", "CPU ms/question", title=title, caption=same))
        for name, (wall, cpu) in (("one after another", batched.alone), ("all at once", batched.together)):
            shown[-1].add_row(name, f"{batched.questions / wall:.2f}", f"{1000 * cpu / batched.questions:.0f}")
        ratios = [one / other for one, other in zip(batched.alone, batched.together, strict=True)]
        shown[-1].add_row("ratio", f"{ratios[0]:.2f}", f"{ratios[1]:.2f}")
    return shown


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="*", default=["latency", "steps", "batching"])
    parser.add_argument("--calls", type=int, default=1200, help="through the provider, of each editor")
    parser.add_argument("--editor", nargs="*", default=["rag", "mello"], choices=["rag", "mello"])
    parser.add_argument("--workers", default="auto", help="as of `emend run`")
    parser.add_argument("--questions", type=int, default=300, help="of `steps`")
    parser.add_argument("--at-once", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=0.2, help="that the provider takes a reply")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        processes = chosen.workers.partition("processes:")[2]
        plain = [ALONE, *([f"{ALONE}, {processes} x"] if processes else [])]
        names = [*chosen.editor, BARE, *plain] if "latency" in chosen.part else []
        settings = (chosen.calls, chosen.at_once, chosen.seconds, chosen.workers)
        lates = [apart(folder / one, one, *settings) for one in names]
        cost = steps(folder / "steps", chosen.questions) if "steps" in chosen.part else None
        batched = None
        if "batching" in chosen.part:
            from emend.agents.llm import load_model

            probes, edits = hops(chosen.at_once)
            batched = batching(load_model("tiny"), probes, edits, folder / "memory")
    for table in tables(lates, cost, batched):
        Console().print(table)


if __name__ == "__main__":
    main()
