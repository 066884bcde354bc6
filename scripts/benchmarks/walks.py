"""Questions that MeLLo takes in two to four hops, and `rag` in one call, and a script that answers them."""

import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from emend.evals.case import Case, Metric
from emend.memory.edit import Edit
from emend.memory.probe import Probe
from emend.memory.registry import trust_names
from emend.memory.retrieval.base import Corpus, Hit
from emend.memory.retrieval.compose import load_retriever
from tests.evals.toys import ToyBenchmark

trust_names(["scripts.benchmarks.walks:Walks", "scripts.benchmarks.walks:Metered"])
SHORTEST, LONGEST = 2, 4
RETRIEVED = "\nRetrieved fact: "
_QUESTION = re.compile(r"\nQuestion: What is the end of trail (\d+) after (\d) stops\?\n")


def hops_of(number: int) -> int:
    """How many subquestions the question of that number takes; it takes one call more."""
    return SHORTEST + number % (LONGEST - SHORTEST + 1)


class Walks(ToyBenchmark):
    """Trails of two to four stops, an edit and so many probes to each; the options say how many."""

    mode: ClassVar[str] = "all"

    def __init__(self, data: Path | None, options: dict[str, str]) -> None:
        self.questions, self.probes = int(options["questions"]), int(options.get("probes", 1))

    def cases(self, setting: str, limit: int | None = None, seed: int = 0) -> Iterator[Case]:
        for n in range(self.questions):
            edit = Edit(form="triplet", text=f"Stop 1 of trail {n} is Hut {n}.", subject=f"trail {n}")
            prompt = f"What is the end of trail {n} after {hops_of(n)} stops?"
            gold = (f"Hut {n}.{hops_of(n)}",)
            probes = (
                Probe(
                    kind="multihop",
                    prompt=f"{prompt} {'Please. ' * number}".strip(),
                    style="question",
                    gold=gold,
                    edit_ids=(edit.id,),
                )
                for number in range(self.probes)
            )
            yield Case(edits=(edit,), probes=tuple(probes))

    def metrics(self) -> Sequence[Metric]:
        return [Metric(name="EM", value="em", kinds=("multihop",), scale=100, summary="ends at the right hut")]


def say(prompt: str) -> str:
    """The next round of the published form, whatever was retrieved; another prompt gets one answer."""
    *_, asked = (None, *_QUESTION.finditer(f"{prompt}\n"))
    if asked is None:
        return "Hut"
    trail, hops = asked[1], int(asked[2])
    done = prompt.count(RETRIEVED, asked.end())
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
