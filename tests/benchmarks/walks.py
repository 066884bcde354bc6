"""Questions that MeLLo takes in two to four hops, and a script that walks them: here, or behind a provider."""

import multiprocessing
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import ClassVar, NamedTuple

from emend.evals.case import Case, Metric
from emend.memory.edit import Edit
from emend.memory.probe import Probe
from emend.memory.retrieval.base import Corpus, Hit
from emend.memory.retrieval.compose import load_retriever
from tests.evals.toys import ToyBenchmark
from tests.provider.server import Provider

SHORTEST, LONGEST = 2, 4
_QUESTION = re.compile(r"\nQuestion: What is the end of trail (\d+) after (\d) stops\?\n")


def hops_of(number: int) -> int:
    """How many subquestions the question of that number takes; it takes one call more."""
    return SHORTEST + number % (LONGEST - SHORTEST + 1)


class Walks(ToyBenchmark):
    """Trails of two to four stops, an edit to each; the option says how many."""

    mode: ClassVar[str] = "all"

    def __init__(self, data: Path | None, options: dict[str, str]) -> None:
        self.questions = int(options["questions"])

    def cases(self, setting: str, limit: int | None = None, seed: int = 0) -> Iterator[Case]:
        for n in range(self.questions):
            edit = Edit(form="triplet", text=f"Stop 1 of trail {n} is Hut {n}.", subject=f"trail {n}")
            prompt = f"What is the end of trail {n} after {hops_of(n)} stops?"
            gold = (f"Hut {n}.{hops_of(n)}",)
            probe = Probe(kind="multihop", prompt=prompt, style="question", gold=gold, edit_ids=(edit.id,))
            yield Case(edits=(edit,), probes=(probe,))

    def metrics(self) -> Sequence[Metric]:
        return [Metric(name="EM", value="em", kinds=("multihop",), scale=100, summary="ends at the right hut")]


def say(prompt: str) -> str:
    """The next round of the published form, whatever was retrieved."""
    *_, asked = _QUESTION.finditer(prompt)
    trail, hops = asked[1], int(asked[2])
    done = prompt.count("\nRetrieved fact: ", asked.end())
    agrees = "Retrieved fact does not contradict to generated answer, so the intermediate answer is"
    verdict = f"{agrees}: Hut {trail}.{done}\n" if done else ""
    if done == hops:
        return f"{verdict}Final answer: Hut {trail}.{done}"
    asks = f"Subquestion: What is stop {done + 1} of trail {trail}?"
    return f"{verdict}{asks}\nGenerated answer: It is Hut {trail}.{done + 1}.\n"


class Metered:
    """The default strategy, with the processor time that its searches took."""

    seconds: ClassVar[float] = 0.0
    searches: ClassVar[int] = 0

    def __init__(self, corpus: Corpus) -> None:
        self.inner = load_retriever("default")(corpus)

    def search(self, query: str, k: int) -> list[Hit]:
        """As the default strategy."""
        began = time.thread_time()
        found = self.inner.search(query, k)
        Metered.seconds += time.thread_time() - began
        Metered.searches += 1
        return found


class Served(NamedTuple):
    """What a provider met: requests, the most of them at once, and when the first came (monotonic seconds)."""

    requests: int
    at_once: int
    first: float


class Serving:
    """A provider's name on the command line, and what it met, once the `with` has ended."""

    def __init__(self, spec: str) -> None:
        self.spec = spec
        self.served = Served(0, 0, 0.0)


@contextmanager
def serving(latency: float) -> Iterator[Serving]:
    """A provider that takes `latency` seconds a reply, in another process: a true one takes no time of this one."""
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    process = spawn.Process(target=_serve, args=(there, latency), daemon=True)
    process.start()
    try:
        told = Serving(here.recv())
        yield told
        here.send("enough")
        told.served = Served(*here.recv())
    finally:
        here.close()
        process.join(10)
        if process.is_alive():
            process.terminate()


def _serve(told: Connection, latency: float) -> None:
    with Provider(lambda asked: say(asked.prompt), latency=latency) as provider:
        told.send(provider.spec("chat"))
        try:
            told.recv()
        except EOFError:  # whoever asked has given up
            return
        first = min((request.at for request in provider.requests), default=time.monotonic())
        told.send((provider.count, provider.most_at_once, first))
