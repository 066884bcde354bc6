"""Loading of a run's benchmark, model and memory from its configuration."""

import os
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from langchain_core.language_models import BaseChatModel

from emend.agents.llm import fingerprint, load_model
from emend.agents.providers.policy import CallPolicy
from emend.agents.scoring import resolve_form
from emend.editors.base import MemoryLike
from emend.evals.case import Benchmark
from emend.evals.config.limits import Limits
from emend.evals.config.memory_spec import MemorySpec
from emend.evals.config.model_spec import ModelSpec
from emend.evals.data.benchmarks.registry import BENCHMARKS, is_built_folder, open_built
from emend.evals.data.benchmarks.triples import OPTION, with_triples
from emend.evals.data.declared.benchmark import DeclaredBenchmark
from emend.evals.data.declared.description import is_declared
from emend.evals.data.facts.fact_file import FactFile
from emend.evals.data.facts.fact_formats import READERS, check_file, is_fact_file
from emend.evals.jobs.workers.choose import MEMORY
from emend.memory.edit import Edit, content_id
from emend.memory.embeddings.embed import Embedding, load_embedding
from emend.memory.errors import BadSettings, MissingData, find_near, path_remedy
from emend.memory.files import private_folder
from emend.memory.paths import cache_folder
from emend.memory.registry import nearest
from emend.memory.retrieval.base import Corpus


def load_benchmark(
    name: str, data: str | None, options: Mapping[str, str], settings: Sequence[str] = ()
) -> tuple[Benchmark, tuple[str, ...]]:
    """Load a benchmark, and return it with the settings to run, by default its first one.

    Besides the error below, errors of loading the benchmark propagate.

    Raises:
        BadSettings: the name is unknown.
    """
    benchmark = make_benchmark(name, data, options)
    return benchmark, choose_settings(benchmark, name, settings)


def make_benchmark(name: str, data: str | None, options: Mapping[str, str]) -> Benchmark:
    """Make a benchmark by name; most read their data only when cases are asked for.

    Raises:
        BadSettings: the name is unknown, or what it names is not a benchmark.
    """
    options = dict(options)
    triples = options.pop(OPTION, None)
    with BENCHMARKS.plugin_errors(name):
        benchmark = _make_benchmark(name, data, options)
        lacking = [
            part for part in ("settings", "cases", "metrics") if not hasattr(benchmark, part)
        ]
        if lacking:
            raise TypeError(f"what it made has no {', no '.join(lacking)}")
    return benchmark if triples is None else with_triples(benchmark, triples)


def choose_settings(
    benchmark: Benchmark, name: str, settings: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the settings to run, by default the benchmark's first one, each with a case.

    Raises:
        BadSettings: the benchmark has no such setting.
    """
    chosen = tuple(dict.fromkeys(settings)) or benchmark.settings[:1]
    for setting in chosen:
        # a benchmark may give a better reason for a missing setting
        next(iter(benchmark.cases(setting, limit=1)), None)
        if setting not in benchmark.settings:
            raise BadSettings(
                f"{name} has no setting '{setting}': {nearest(setting, list(benchmark.settings))}"
            )
    return chosen


def _make_benchmark(name: str, data: str | None, options: Mapping[str, str]) -> Benchmark:
    if is_declared(name):
        return cast(Benchmark, DeclaredBenchmark(name, Path(data) if data else None, options))
    if is_fact_file(name):
        return FactFile(name, Path(data) if data else None, options)
    if is_built_folder(name):
        return open_built(name, options, data_folder(name, data) if data else None)
    _refuse_path(name)
    return BENCHMARKS.load(name)(data_folder(name, data), dict(options))


def check_benchmark_name(name: str) -> None:
    """Check that a benchmark is known, and that its file exists if the name is one's own file.

    Raises:
        MissingData: there is no such file or folder.
        BadSettings: the name is unknown, or the file has an unsupported suffix.
    """
    if is_fact_file(name):
        check_file(name)
    elif not (is_declared(name) or is_built_folder(name)):
        _refuse_path(name)
        if ":" not in name and not BENCHMARKS.installed(name):
            _refuse_unknown(name)


def _refuse_unknown(name: str) -> None:
    """Refuse an unknown name with the nearest benchmark, or own file in the working folder.

    Raises:
        BadSettings: always.
    """
    files = [file.name for file in Path().iterdir() if is_fact_file(file.name)]
    near = find_near(name, [*BENCHMARKS.names(), *files])
    if near in files:
        raise BadSettings(f"unknown benchmark '{name}': did you mean the file '{near}'?")
    BENCHMARKS.load(name)  # raises the error that names the nearest


def _refuse_path(name: str) -> None:
    """Refuse a name that is a path but not a file of facts.

    Raises:
        MissingData: there is no such file or folder.
        BadSettings: the path exists, but is not a file that can be read as facts.
    """
    path = Path(name).expanduser()
    if BENCHMARKS.installed(name) or ":" in name or not (path.suffix or "/" in name):
        return
    endings = ", ".join(READERS)
    if path.is_dir():
        raise BadSettings(
            f"'{name}' is a folder, but not one that emend build made: name such a folder, or a "
            "file of facts in it."
        )
    if path.exists():
        raise BadSettings(
            f"'{name}' has an unsupported suffix: facts are in a file that ends in {endings}, or "
            "in a folder of emend build."
        )
    raise MissingData(
        f"'{name}' is neither a file nor a known benchmark: {path_remedy(path)} Files of facts end "
        f"in {endings}; see emend list benchmarks."
    )


def data_folder(benchmark: str, data: str | None) -> Path | None:
    """Return the data folder, looked up in `EMEND_DATA` first and then as given.

    None lets the benchmark choose its folder.
    """
    if root := os.environ.get("EMEND_DATA"):
        folder = Path(root) / (data or benchmark)
        if folder.exists():
            return folder
    return Path(data) if data else None


def load_model_and_policy(spec: ModelSpec, limits: Limits) -> tuple[BaseChatModel, CallPolicy]:
    """Load a model, and make the call policy of it and of the editors' own models."""
    policy = limits.policy()
    return load_model(spec.name, policy, **spec.settings), policy


def check_form(spec: ModelSpec, model: BaseChatModel) -> None:
    """Check that the model can be asked in the form of its specification.

    Raises:
        BadSettings: the model takes no plain text, or has no chat template.
    """
    if spec.form == "plain" and resolve_form(model, "plain") == "chat":
        raise BadSettings(
            f"--form plain with model '{spec.name}': it accepts only messages. Leave --form out."
        )
    if spec.form == "chat" and resolve_form(model, "chat") == "plain":
        raise BadSettings(
            f"--form chat with model '{spec.name}': it has no chat template, or model.chat=false "
            "turns it off. Leave --form out."
        )


def model_fingerprint(spec: str, model: BaseChatModel) -> dict[str, Any]:
    """Return the model's name, a digest of local weights, and its call parameters."""
    plain = (str, int, float, bool, list, tuple, type(None))
    parameters = {
        name: value for name, value in model._identifying_params.items() if isinstance(value, plain)
    }
    return {"name": spec, "fingerprint": fingerprint(model, spec), "parameters": parameters}


@dataclass(eq=False)
class _Addition:
    """Edits that a thread is waiting to store."""

    edits: Sequence[Edit]
    is_stored: bool = False


class LazyMemory:
    """A memory that is opened on first use, like its encoder, since most editors need none."""

    def __init__(
        self, open_memory: Callable[[Embedding], Any], load_encoder: Callable[[], Embedding]
    ) -> None:
        self._open, self._load_encoder = open_memory, load_encoder
        self._lock, self._adding = threading.Lock(), threading.Lock()
        self._additions = deque[_Addition]()
        self._memory: Any = None

    @cached_property
    def embedding(self) -> Embedding:
        """Encoder of the texts."""
        return self._load_encoder()

    def add(self, edits: Sequence[Edit]) -> None:
        """Store edits, together with those of all waiting threads.

        Writing many edits at once takes about as long as writing one.
        """
        addition = _Addition(edits)
        self._additions.append(addition)
        with self._adding:
            if addition.is_stored:
                return
            waiting = [self._additions.popleft() for _ in range(len(self._additions))]
            together = [addition, *(each for each in waiting if each is not addition)]
            try:
                self._opened().add([edit for each in together for edit in each.edits])
            except Exception:
                # every other waiting thread then stores its own edits or raises its own error
                if len(together) == 1:
                    raise
                self._opened().add(edits)
                return
            for each in together:
                each.is_stored = True

    def view(self, edit_ids: Sequence[str] | None = None) -> Corpus:
        """Return a corpus of the entries of these edits, or of all."""
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
    """Return a temporary memory, made on first use, which moves to a folder when it is large."""

    def open_temporary(loaded: Embedding) -> Any:
        return _open_memory(private_folder(path), loaded, temporary=True)

    return LazyMemory(open_temporary, lambda: _encoder(encoder, embedding))


def run_memory(
    spec: MemorySpec, folder: Path, identity: Callable[[], Sequence[Any]], encoder: Embedding | None
) -> LazyMemory:
    """Return a run's memory, in its folder or on a server.

    On a server, the memory's name depends on the encoder and on the run's configuration, so that
    shares and workers of a run use the same memory.
    """
    server = spec.server
    if server is None:
        return open_lazily(folder / MEMORY, spec.embedding, encoder)

    def connect(loaded: Embedding) -> Any:
        fields, *others = identity()
        name = content_id("memory of a run", fields, loaded.identity, *others)
        return _open_memory(server, loaded, f"run-{name}")

    return LazyMemory(connect, lambda: _encoder(encoder, spec.embedding))


def _encoder(encoder: Embedding | None, embedding: str) -> Embedding:
    return encoder or load_embedding(embedding, cache_folder("vectors"))


def _open_memory(
    place: Path | str, encoder: Embedding, name: str = "", temporary: bool = False
) -> Any:
    from emend.memory.store.chroma import ChromaMemory

    # Cases are independent of each other: contradicting edits do not supersede one another unless
    # they are dated.
    return ChromaMemory(place, encoder, superseding="time", name=name, temporary=temporary)
