"""Kills processes that write a memory of facts or of edits, and checks that nothing is lost or doubled.

    python -m scripts.nightly.kill_memories --kills 200 --seed 0

A process writes numbered facts (each operation with an id of its own) or edits, and says so after each. SIGKILL comes
at a random moment; the next process repeats the operation that was not said to be done and goes on. In the end the
journal of facts holds each operation once, and both memories hold what was written. Every second kill of facts comes
while two processes write to the same file.
"""

import argparse
import multiprocessing
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from emend.memory.edit import Edit, Triplet
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import MemoryUnavailable
from emend.memory.facts.fact import Provenance
from emend.memory.facts.fact_memory import FactMemory
from emend.memory.store.chroma import ChromaMemory

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["chromadb", "emend.memory.store.chroma", "emend.memory.facts.fact_memory"])
LONGEST = 0.06
"""Maximum seconds from the first operation to the kill, enough for a few operations."""
SECONDS = 120


def write_facts(folder: Path, writer: str, start: int, done: Connection) -> None:
    """Remember numbered facts in an endless loop."""
    with FactMemory(folder) as memory:
        number = start
        while True:
            origin = Provenance(operation_id=f"{writer} {number}", recorded_at="2026-01-01")
            try:
                memory.remember("Ann", "tasks", f"{writer} task {number}", provenance=origin)
            except MemoryUnavailable:  # the other process holds the file; retry with the same id
                continue
            done.send(number)
            number += 1


def write_edits(folder: Path, writer: str, start: int, done: Connection) -> None:
    """Add numbered edits in an endless loop."""
    with ChromaMemory(folder, LexicalEmbedding()) as memory:
        number = start
        while True:
            memory.add([numbered_edit(number)])
            done.send(number)
            number += 1


def numbered_edit(number: int) -> Edit:
    """Return an edit about the town with this number."""
    triplet = Triplet(subject=f"Town {number}", relation="mayor", object=f"Mayor {number}")
    return Edit(
        id=f"edit-{number}", form="triplet", text=f"The mayor of Town {number}: Mayor {number}.", triplets=(triplet,)
    )


class Writer:
    """A process that writes until it is killed; `next` is its first unconfirmed operation."""

    def __init__(self, target: Any, folder: Path, name: str) -> None:
        self.target, self.folder, self.name, self.next = target, folder, name, 0

    def start(self) -> None:
        """Start a process that begins with the first unconfirmed operation."""
        self.said, said = CONTEXT.Pipe(duplex=False)
        self.process = CONTEXT.Process(target=self.target, args=(self.folder, self.name, self.next, said), daemon=True)
        self.process.start()
        said.close()

    def wait(self) -> None:
        """Wait until an operation is confirmed."""
        assert self.said.poll(SECONDS), f"{self.name} did nothing for {SECONDS} s"
        self._take()

    def kill(self) -> None:
        """Kill the process, and read its remaining confirmations."""
        assert self.process.pid is not None and self.process.is_alive(), f"{self.name} ended by itself"
        self.process.kill()
        self.process.join(SECONDS)
        assert self.process.exitcode == -signal.SIGKILL
        while self.said.poll():
            try:
                self._take()
            except EOFError:
                return

    def _take(self) -> None:
        self.next = self.said.recv() + 1


def storm_facts(folder: Path, kills: int, rng: random.Random) -> list[str]:
    """Kill one of two writers of facts repeatedly; return the problems found at the end."""
    writers = [Writer(write_facts, folder, name) for name in ("first", "second")]
    for kill in range(kills):
        working = writers if kill % 2 else writers[:1]
        for writer in working:
            writer.start()
        for writer in working:
            writer.wait()
        time.sleep(rng.uniform(0, LONGEST))
        for writer in working:
            writer.kill()
    return check_facts(folder, writers)


def check_facts(folder: Path, writers: list[Writer]) -> list[str]:
    """Return lost or doubled operations.

    A confirmed operation must occur once, the last one at most once.
    """
    with FactMemory(folder) as memory:
        counts = Counter(entry.operation_id for entry in memory.journal())
        held = Counter(fact.object for fact in memory.lookup("Ann", "tasks").facts)
    wrong = [f"{name} was done {count} times" for name, count in (counts | held).items() if count != 1]
    for writer in writers:
        for number in range(writer.next):
            if not counts[f"{writer.name} {number}"] or not held[f"{writer.name} task {number}"]:
                wrong.append(f"{writer.name} {number} is lost")
    if counts.total() != held.total():
        wrong.append(f"{counts.total()} operations, {held.total()} facts")
    return wrong


def storm_edits(folder: Path, kills: int, rng: random.Random) -> list[str]:
    """Kill a writer of edits repeatedly; return the edits lost or doubled at the end."""
    writer = Writer(write_edits, folder, "edits")
    for _ in range(kills):
        writer.start()
        writer.wait()
        time.sleep(rng.uniform(0, LONGEST))
        writer.kill()
    with ChromaMemory(folder, LexicalEmbedding(), create=False) as memory:
        ids = Counter(edit.id for edit in memory.edits())
        hits = memory.view().nearest("Who is the mayor of Town 0?", 1)
    expected = Counter(f"edit-{number}" for number in range(writer.next))
    wrong = [f"{id_} is there {count} times" for id_, count in ids.items() if count > 1]
    wrong += [f"{id_} is lost" for id_ in expected - ids]
    if len(ids) > writer.next + 1 or not hits:
        wrong.append(f"{len(ids)} edits of {writer.next}, {len(hits)} found")
    return wrong


def main() -> int:
    """Print the counts; return 1 if anything was lost or doubled."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    edits = options.kills // 3
    with tempfile.TemporaryDirectory() as root:
        wrong = storm_facts(Path(root, "facts"), options.kills - edits, rng)
        if edits:
            wrong += storm_edits(Path(root, "edits"), edits, rng)
    sys.stdout.writelines(f"    {problem}\n" for problem in wrong[:20])
    lost = sum("lost" in problem for problem in wrong)
    sys.stdout.write(f"{{'SIGKILL': {options.kills}}}; {lost} lost, {len(wrong) - lost} doubled or odd\n")
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
