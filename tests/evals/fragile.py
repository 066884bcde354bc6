"""MeLLo in a process that is killed: by itself after a node, or by a provider in the middle of a call."""

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from emend.agents.llm import load_model
from emend.agents.roles.decompose import CHECKED, FINAL, TENTATIVE
from emend.editors.answerers import FunctionAnswerer
from emend.editors.base import Answerer
from emend.editors.memory_based.mello import Mello
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.run import run
from emend.evals.jobs.results import Summary
from emend.graphs.execution import call_on_step
from emend.memory.edit import Edit
from emend.memory.probe import Answer, Probe, Step
from emend.memory.registry import trust_names
from tests.evals.toys import BENCHMARK
from tests.fakes import begun
from tests.provider.models import quick_policy
from tests.provider.protocols import Asked
from tests.provider.speaking import believes

EDITOR = "tests.evals.fragile:Fragile"
trust_names([EDITOR])  # in processes of their own, too
CALLING = {"decompose": TENTATIVE, "check": CHECKED, "respond": FINAL}
"""The nodes that ask the model, and how the last line of what they ask begins."""
SILENT = ("retrieve", "compose")


class Fragile(Mello):
    """Kills its process right after a node has ended so many times; `die_after` names node and number."""

    die_after: ClassVar[tuple[str, int]] = ("", 0)
    ended: ClassVar[Counter[str]] = Counter()

    @contextmanager
    def edit(self, edits: Sequence[Edit]) -> Iterator[Answerer]:
        with super().edit(edits) as answerer:
            assert isinstance(answerer, FunctionAnswerer)
            inner = answerer.respond

            def respond(probe: Probe, targets: Sequence[str] | None) -> Answer:
                with call_on_step(self._heard):
                    return inner(probe, targets)

            yield FunctionAnswerer(respond, answerer.cost)

    def _heard(self, step: Step) -> None:
        self.ended[step.node] += 1
        if (step.node, self.ended[step.node]) == self.die_after:
            os.kill(os.getpid(), signal.SIGKILL)


class Killer:
    """A provider's responder that kills a child at the n-th call of a node, before it replies."""

    def __init__(self) -> None:
        self.victim = self.number = 0
        self.node = ""
        self.known = threading.Event()
        self._met, self._lock = Counter[str](), threading.Lock()

    def aim(self, node: str, number: int) -> None:
        """Wait for so many more calls of that node; "" for none."""
        with self._lock:
            self.node, self.number, self.victim = node, number, 0
            self.known.clear()
            self._met.clear()

    def turn_on(self, victim: int) -> None:
        """The process that is killed; a call that comes before it is named waits for it."""
        self.victim = victim
        self.known.set()

    def __call__(self, asked: Asked) -> Any:
        last = begun(asked.prompt).rpartition("\n")[2]
        node = next((node for node, lead in CALLING.items() if last.startswith(lead)), "")
        with self._lock:
            self._met[node] += 1
            hit = node and (node, self._met[node]) == (self.node, self.number)
        if hit and self.known.wait(60):  # without a victim 0 would be killed, which is all of this process's group
            os.kill(self.victim, signal.SIGKILL)
        return believes(asked)


def config(spec: str, concurrency: int, cases: int) -> RunConfig:
    """Line by line, so that three nodes ask the model; two probes a case, and what the unedited model says to one."""
    return RunConfig(
        benchmark=BENCHMARK,
        editors=(EDITOR,),
        model=spec,
        embedding="lexical",
        retriever="bm25",
        concurrency=concurrency,
        overrides={EDITOR: {"form": "lines"}},
        benchmark_options={"cases": str(cases)},
    )


def work(told: RunConfig, folder: Path, die_after: tuple[str, int] = ("", 0)) -> Summary:
    """What the child does, and who finishes it."""
    Fragile.die_after = die_after
    Fragile.ended.clear()
    return run(told, folder, model=load_model(told.model, quick_policy(), timeout=30.0))
