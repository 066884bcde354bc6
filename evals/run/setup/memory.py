"""The memory of a run: opened on first use, in the run folder or on a server."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from emend.editors.base import MemoryLike
from emend.evals.case import Benchmark
from emend.evals.config.run_config import RunConfig
from emend.evals.log.manifest import decisive_fields
from emend.memory.edit import Edit, content_id
from emend.memory.embeddings.embed import Embedding, load_embedding
from emend.memory.files import private_folder
from emend.memory.paths import cache_folder
from emend.memory.retrieval.base import Corpus

MEMORY = "memory"


@dataclass(eq=False)
class _Addition:
    """Edits that a thread wants to have stored; `is_alone` where they are not to be stored with others."""

    edits: Sequence[Edit]
    is_stored: bool = False
    is_alone: bool = False


class LazyMemory:
    """A memory that is opened on first use, because most editors never use one; so is its encoder, `embedding`."""

    def __init__(self, open_memory: Callable[[Embedding], Any], load_encoder: Callable[[], Embedding]) -> None:
        self._open, self._load_encoder = open_memory, load_encoder
        self._lock, self._adding = threading.Lock(), threading.Lock()
        self._additions = deque[_Addition]()
        self._memory: Any = None

    @cached_property
    def embedding(self) -> Embedding:
        """The encoder of the texts."""
        return self._load_encoder()

    def add(self, edits: Sequence[Edit]) -> None:
        """Store the edits, with those of all threads that wait: each write takes as long as that of many edits."""
        addition = _Addition(edits)
        self._additions.append(addition)
        with self._adding:
            if addition.is_stored:
                return
            others = [] if addition.is_alone else [each for each in self._waiting() if each is not addition]
            together = [addition, *others]
            try:
                self._opened().add([edit for each in together for edit in each.edits])
            except Exception:  # any: each of the additions raises its own when it is stored alone
                if len(together) == 1:
                    raise
                for each in together:
                    each.is_alone = True
                self._opened().add(edits)
                return
            for each in together:
                each.is_stored = True

    def _waiting(self) -> list[_Addition]:
        return [self._additions.popleft() for _ in range(len(self._additions))]

    def view(self, edit_ids: Sequence[str] | None = None) -> Corpus:
        """Return the entries of these edits alone, or of all."""
        return self._opened().view(edit_ids)

    def close(self) -> None:
        """Close the memory if it was ever opened."""
        with self._lock:
            if self._memory is not None:
                self._memory.close()
            self._memory = None

    def _opened(self) -> MemoryLike:
        with self._lock:
            if self._memory is None:
                self._memory = self._open(self.embedding)
        return self._memory  # type: ignore[no-any-return]


def open_lazily(path: Path, embedding: str, encoder: Embedding | None = None) -> LazyMemory:
    """A memory in a folder, made when an editor first uses it."""
    return LazyMemory(lambda loaded: _open_memory(private_folder(path), loaded), lambda: _encoder(encoder, embedding))


def run_memory(config: RunConfig, folder: Path, benchmark: Benchmark, encoder: Embedding | None) -> LazyMemory:
    """A run's memory, in its folder or on a server."""
    address = config.memory_server
    if address is None:
        return open_lazily(folder / MEMORY, config.embedding, encoder)

    def connect(loaded: Embedding) -> Any:
        # Named by what the run is, so that its shares and workers use one memory, and other runs another.
        fields = decisive_fields({"config": config.model_dump(mode="json", exclude={"share"})})
        name = content_id("memory of a run", fields, loaded.identity, benchmark.provenance)
        return _open_memory(address, loaded, f"run-{name}")

    return LazyMemory(connect, lambda: _encoder(encoder, config.embedding))


def _encoder(encoder: Embedding | None, embedding: str) -> Embedding:
    return encoder or load_embedding(embedding, cache_folder("vectors"))


def _open_memory(place: Path | str, encoder: Embedding, name: str = "") -> Any:
    from emend.memory.store.chroma import ChromaMemory

    # Cases are worlds of their own: their edits contradict each other without one being later, unless they are dated.
    return ChromaMemory(place, encoder, superseding="time", name=name)
