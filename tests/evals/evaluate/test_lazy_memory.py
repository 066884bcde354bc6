"""The memory of a run: what several threads add meanwhile is written together."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from emend.evals.evaluate.resources import LazyMemory, open_lazily
from emend.memory.edit import Edit
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import BadData

THREADS = 6


class SlowMemory:
    """Takes its time over the first addition, and refuses some edits."""

    def __init__(self, refused: str = "") -> None:
        self.writes: list[list[str]] = []
        self.refused, self.may_go = refused, threading.Event()

    def add(self, edits: Sequence[Edit]) -> None:
        self.writes.append([edit.text for edit in edits])
        assert len(self.writes) > 1 or self.may_go.wait(60)
        if self.refused in self.writes[-1]:
            raise BadData(f"{self.refused} is refused")


def wait_until(happens: Callable[[], bool]) -> None:
    """Wait for another thread, a minute at most."""
    end = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.005)


def add_all(memory: SlowMemory) -> dict[str, Exception | None]:
    """What each thread's addition raised: the first begins, and the others come meanwhile."""
    lazy = LazyMemory(lambda encoder: memory, LexicalEmbedding)

    def add(number: int) -> Exception | None:
        try:
            lazy.add([Edit(form="document", text=f"fact {number}")])
        except BadData as error:
            return error
        return None

    with ThreadPoolExecutor(THREADS) as pool:
        first = pool.submit(add, 0)
        wait_until(lambda: bool(memory.writes))
        rest = [pool.submit(add, number) for number in range(1, THREADS)]
        wait_until(lambda: len(lazy._additions) == THREADS - 1)
        memory.may_go.set()
        return {f"fact {number}": future.result() for number, future in enumerate([first, *rest])}


def test_what_waits_is_written_at_once():
    memory = SlowMemory()
    assert not any(add_all(memory).values())
    assert [len(write) for write in memory.writes] == [1, THREADS - 1]
    assert sorted(sum(memory.writes, [])) == [f"fact {number}" for number in range(THREADS)]


def test_an_edit_that_cannot_be_stored_is_an_error_of_its_own_thread_alone():
    memory = SlowMemory(refused="fact 3")
    raised = add_all(memory)
    assert [name for name, error in raised.items() if error] == ["fact 3"]
    stored = {name for write in memory.writes if "fact 3" not in write for name in write}
    assert stored == raised.keys() - {"fact 3"}


def test_an_editor_gets_the_encoder_of_a_memory_that_is_not_open_yet(tmp_path: Path) -> None:
    lazy = open_lazily(tmp_path / "memory", "lexical")
    assert lazy.embedding.identity == LexicalEmbedding().identity and not (tmp_path / "memory").exists()
