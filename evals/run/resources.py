"""The benchmark, the model and the memory of a run, made of what its configuration names."""

import os
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel

from emend.agents.llm import fingerprint, load_model
from emend.agents.providers.policy import CallPolicy
from emend.agents.scoring import resolve_form
from emend.editors.base import MemoryLike
from emend.evals.case import Benchmark
from emend.evals.config.run_config import MODEL, RunConfig
from emend.evals.data.benchmarks.fact_file import FactFile
from emend.evals.data.benchmarks.fact_formats import is_fact_file
from emend.evals.data.benchmarks.registry import BENCHMARKS, is_built_folder, open_built
from emend.evals.data.benchmarks.triples import OPTION, with_triples
from emend.evals.log.manifest import decisive_fields
from emend.memory.edit import Edit, content_id
from emend.memory.embeddings.embed import Embedding, load_embedding
from emend.memory.errors import BadSettings
from emend.memory.files import private_folder
from emend.memory.paths import cache_folder
from emend.memory.registry import nearest
from emend.memory.retrieval.base import Corpus


def load_benchmark(
    name: str, data: str | None, options: Mapping[str, str], settings: Sequence[str] = ()
) -> tuple[Benchmark, tuple[str, ...]]:
    """Load the benchmark of that name, and list the settings to run: its first one if none is named.

    Raises:
        BadSettings: an unknown name. And whatever loading a benchmark raises.
    """
    options = dict(options)
    triples = options.pop(OPTION, None)
    with BENCHMARKS.plugin_errors(name):
        benchmark = _make_benchmark(name, data, options)
        lacking = [part for part in ("settings", "cases", "metrics") if not hasattr(benchmark, part)]
        if lacking:
            raise TypeError(f"what it made has no {', no '.join(lacking)}")
    if triples is not None:
        benchmark = with_triples(benchmark, triples)
    chosen = tuple(dict.fromkeys(settings)) or benchmark.settings[:1]
    for setting in chosen:
        next(iter(benchmark.cases(setting, limit=1)), None)  # a benchmark may know more of why it lacks a setting
        if setting not in benchmark.settings:
            raise BadSettings(f"{name} has no setting '{setting}': {nearest(setting, list(benchmark.settings))}")
    return benchmark, chosen


def _make_benchmark(name: str, data: str | None, options: Mapping[str, str]) -> Benchmark:
    if is_fact_file(name):
        return FactFile(name, Path(data) if data else None, options)
    if is_built_folder(name):
        return open_built(name, options, data_folder(name, data) if data else None)
    return BENCHMARKS.load(name)(data_folder(name, data), dict(options))


def data_folder(benchmark: str, data: str | None) -> Path | None:
    """Return the data folder: under `EMEND_DATA` first, then the path as given; None lets the benchmark decide."""
    if root := os.environ.get("EMEND_DATA"):
        folder = Path(root) / (data or benchmark)
        if folder.exists():
            return folder
    return Path(data) if data else None


LIMITS = ("rpm", "tpm", "max_cost", "max_calls", "prices", "cache")
"""Options that only concern models of providers."""


def load_model_and_policy(config: RunConfig) -> tuple[BaseChatModel, CallPolicy]:
    """Load the named model, and make the policy by which it and the editors' own models are called."""
    policy = config.policy()
    return load_model(config.model, policy, **config.overrides.get(MODEL, {})), policy


def check_form(config: RunConfig, model: BaseChatModel) -> None:
    """Check that the model can be asked in the form that the configuration names.

    Raises:
        BadSettings: it takes no plain text, or has no chat template.
    """
    if config.form == "plain" and resolve_form(model, "plain") == "chat":
        raise BadSettings(f"--form plain with model '{config.model}': it takes messages only. Leave --form out.")
    if config.form == "chat" and resolve_form(model, "chat") == "plain":
        raise BadSettings(
            f"--form chat with model '{config.model}': it has no chat template, or model.chat=false turns it off. "
            "Leave --form out."
        )


def refuse_unused_limits(config: RunConfig, policy: CallPolicy) -> None:
    """Check, once all models are loaded, that limits, prices and a cache concern one of them.

    Raises:
        BadSettings: every model is local.
    """
    limits = [f"--{name.replace('_', '-')}" for name in LIMITS if getattr(config, name) is not None]
    if limits and not policy.models:
        raise BadSettings(
            f"{' and '.join(limits)} with model '{config.model}': a model on this machine has no provider to call or "
            "pay."
        )


def model_fingerprint(spec: str, model: BaseChatModel) -> dict[str, Any]:
    """Return the model's name, a digest of local weights, and the parameters that it is called with."""
    plain = (str, int, float, bool, list, tuple, type(None))
    parameters = {name: value for name, value in model._identifying_params.items() if isinstance(value, plain)}
    return {"name": spec, "fingerprint": fingerprint(model, spec), "parameters": parameters}


MEMORY = "memory"


@dataclass(eq=False)
class _Addition:
    """Edits that a thread wants to have stored."""

    edits: Sequence[Edit]
    is_stored: bool = False


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
            waiting = [self._additions.popleft() for _ in range(len(self._additions))]
            together = [addition, *(each for each in waiting if each is not addition)]
            try:
                self._opened().add([edit for each in together for edit in each.edits])
            except Exception:  # any: the other additions are stored, or raise their own, when their turn comes
                if len(together) == 1:
                    raise
                self._opened().add(edits)
                return
            for each in together:
                each.is_stored = True

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
