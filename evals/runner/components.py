"""Loads what a configuration names, cheap things first, so that a wrong name is told before a model is loaded."""

import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import isfunction
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel

from emend.agents.llm import LOCAL, MODELS, fingerprint, load_model
from emend.agents.providers.policy import CallPolicy
from emend.agents.scoring import ScoringModel
from emend.editors.base import Editor, Materials, MemoryLike
from emend.editors.memory_based.unedited import Unedited
from emend.editors.registry import EDITORS
from emend.evals.benchmarks.registry import BENCHMARKS
from emend.evals.benchmarks.triples import OPTION, with_triples
from emend.evals.case import Benchmark, Case
from emend.evals.log.manifest import MODEL, RunConfig
from emend.evals.runner.units import Pass, without_repeats
from emend.memory.edit import Edit
from emend.memory.embeddings.embed import Embedding, LexicalEmbedding, load_embedding
from emend.memory.errors import BadSettings
from emend.memory.paths import cache_folder
from emend.memory.registry import nearest
from emend.memory.retrieval.base import Corpus, Entry, Retriever
from emend.memory.retrieval.compose import load_retriever
from emend.memory.retrieval.exact import ExactCorpus
from emend.memory.retrieval.registry import retriever_errors

MEMORY = "memory"
OWN = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
"""The form of `module:attribute`."""


class LazyMemory:
    """A memory that is opened when it is first used, because most editors never do."""

    def __init__(self, open_memory: Callable[[], Any]) -> None:
        self._open = open_memory
        self._lock = threading.Lock()
        self._memory: Any = None

    def add(self, edits: Sequence[Edit]) -> None:
        """Store the edits."""
        self._opened().add(edits)

    def view(self, edit_ids: Sequence[str] | None = None) -> Corpus:
        """The entries of these edits alone, or of all."""
        return self._opened().view(edit_ids)

    def close(self) -> None:
        """Let go of the memory, if it was ever opened."""
        with self._lock:
            if self._memory is not None:
                self._memory.close()
            self._memory = None

    def _opened(self) -> MemoryLike:
        with self._lock:
            if self._memory is None:
                self._memory = self._open()
        return self._memory  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Parts:
    """What a run works with."""

    config: RunConfig
    benchmark: Benchmark
    settings: tuple[str, ...]
    editors: Mapping[str, Callable[[Materials], Editor]]
    retriever: Callable[[Corpus], Retriever]
    model: BaseChatModel
    memory: LazyMemory
    policy: CallPolicy
    """How providers are asked; a model on this machine has no need of it."""

    def cases(self, setting: str) -> Iterator[Case]:
        """The cases of a setting, each once; streamed anew at every call."""
        stream = self.benchmark.cases(setting, self.config.limit, self.config.seed)
        return without_repeats(case for case in stream if case.probes)

    @cached_property
    def passes(self) -> tuple[Pass, ...]:
        """One per setting, repeat and editor, in that order."""
        fingerprint = model_fingerprint(self.config.model, self.model)
        editors = {(s, name): self.editor(name, s) for s in self.settings for name in self.editors}
        return tuple(
            Pass(
                editor=editors[setting, name],
                name=name,
                model=self.config.model,
                model_fingerprint=fingerprint,
                setting=setting,
                mode=self.config.mode or self.benchmark.mode,
                repeat=repeat,
            )
            for setting in self.settings
            for repeat in range(self.config.repeat)
            for name in self.editors
        )

    def editor(self, name: str, setting: str) -> Editor:
        """The editor of that name, ready for a setting.

        Raises:
            BadSettings: what was made is no editor.
        """
        materials = self._materials(
            demonstrations=self.benchmark.demonstrations(setting, self.config.seed),
            settings=self.config.overrides.get(name, {}),
        )
        with EDITORS.plugin_errors(name):
            made = self.editors[name](materials)
        if lacking := [part for part in ("needs_weights", "fingerprint", "edit") if not hasattr(made, part)]:
            raise BadSettings(
                f"editor '{name}' has no {', no '.join(lacking)}: see docs/extend.md for what an editor is."
            )
        return made

    def unedited(self) -> Editor:
        """What agreement is measured against: the same model, without any edit."""
        return Unedited(self._materials())

    def _materials(self, **more: Any) -> Materials:
        return Materials(
            model=self.model,
            memory=self.memory,
            retriever=self.retriever,
            wording=self.config.wording or self.benchmark.wording,
            seed=self.config.seed,
            policy=self.policy,
            **more,
        )


def load_parts(config: RunConfig, folder: Path, model: BaseChatModel | None = None) -> Parts:
    """Everything that the configuration names; `model` takes the place of the named one.

    Raises:
        BadSettings: an unknown name. And whatever loading a benchmark or a model raises.
    """
    editors = {name: EDITORS.load(name) for name in config.editors}
    retriever = load_retriever(config.retriever)
    benchmark, settings = load_benchmark(config)
    model, policy = model_with_policy(config, model)
    encoder: Embedding | None = None
    if any(getattr(editor, "reads_memory", False) for editor in editors.values()):
        encoder = load_embedding(config.embedding, cache_folder("vectors"))
        _try_out(config.retriever, retriever)
    return Parts(
        config=config,
        benchmark=benchmark,
        settings=settings,
        editors=editors,
        retriever=retriever,
        model=model,
        policy=policy,
        memory=LazyMemory(lambda: _open_memory(folder / MEMORY, config.embedding, encoder)),
    )


def model_with_policy(config: RunConfig, model: BaseChatModel | None = None) -> tuple[BaseChatModel, CallPolicy]:
    """The named model and how it is asked; a model that is given brings its own way, or none.

    Raises:
        BadSettings: limits, prices or a cache for a model that has no provider.
    """
    if model is not None:
        return model, getattr(model, "policy", None) or CallPolicy()
    given: dict[str, Any] = {name: getattr(config, name) for name in ("rpm", "tpm", "max_cost", "max_calls")}
    given |= {name: Path(path) for name in ("prices", "cache") if (path := getattr(config, name)) is not None}
    told = " and ".join("--" + name.replace("_", "-") for name, value in given.items() if value is not None)
    local = BadSettings(f"{told} with model '{config.model}': a model on this machine has no provider to ask or pay.")
    limited = told and not asks_elsewhere(config)
    if limited and config.model.partition(":")[0] in LOCAL:
        raise local
    policy = CallPolicy.of(**given)
    model = load_model(config.model, policy, **config.overrides.get(MODEL, {}))
    if limited and not hasattr(model, "policy"):  # of a plug-in
        raise local
    return model, policy


def asks_elsewhere(config: RunConfig) -> bool:
    """Whether an editor is set to ask a model of a provider besides the model under test."""
    values = [value for name, told in config.overrides.items() if name != MODEL for value in told.values()]
    spoken = [str(value) for value in values if ":" in str(value)]
    known = set(MODELS.names())
    return any(
        provider not in LOCAL if (provider := spec.partition(":")[0]) in known else _makes_a_model(spec)
        for spec in spoken
    )


def _makes_a_model(spec: str) -> bool:
    """Whether that is the `module:attribute` of a chat model, or of what makes one; one that scores asks nobody."""
    if not OWN.fullmatch(spec):
        return False
    try:
        found: Any = MODELS.load(spec)
    except BadSettings:  # another setting that has a colon
        return False
    if isinstance(found, type):
        return issubclass(found, BaseChatModel) and not hasattr(found, "score")
    return isfunction(found) or isinstance(found, BaseChatModel) and not isinstance(found, ScoringModel)


def load_benchmark(config: RunConfig) -> tuple[Benchmark, tuple[str, ...]]:
    """The benchmark that the configuration names, and the settings to run: its first one where none is named.

    Raises:
        BadSettings: an unknown name. And whatever loading a benchmark raises.
    """
    options = dict(config.options)
    triples = options.pop(OPTION, None)
    with BENCHMARKS.plugin_errors(config.benchmark):
        benchmark = BENCHMARKS.load(config.benchmark)(data_folder(config), options)
        lacking = [part for part in ("settings", "cases", "metrics") if not hasattr(benchmark, part)]
        if lacking:
            raise TypeError(f"what it made has no {', no '.join(lacking)}")
    if triples is not None:
        benchmark = with_triples(benchmark, triples)
    settings = tuple(dict.fromkeys(config.settings)) or benchmark.settings[:1]
    for setting in settings:
        next(iter(benchmark.cases(setting, limit=1)), None)  # a benchmark may know more of why it lacks a setting
        if setting not in benchmark.settings:
            raise BadSettings(
                f"{config.benchmark} has no setting '{setting}': {nearest(setting, list(benchmark.settings))}"
            )
    return benchmark, settings


def _try_out(name: str, retriever: Callable[[Corpus], Retriever]) -> None:
    """A setting that a strategy does not take is found before anything is written."""
    entry = Entry(id="x", edit_id="x", text="The capital of Veldania is Ostrim.")
    with retriever_errors(name):
        retriever(ExactCorpus.of([entry], LexicalEmbedding()))


def _open_memory(path: Path, embedding: str, encoder: Embedding | None) -> Any:
    from emend.memory.store.chroma import ChromaMemory

    # Cases are worlds of their own: their edits contradict each other without one being later, unless they are dated.
    encoder = encoder or load_embedding(embedding, cache_folder("vectors"))
    return ChromaMemory(path, encoder, superseding="time")


def data_folder(config: RunConfig) -> Path | None:
    """Where the data is: under `EMEND_DATA` first, then the path as it is given; None lets the benchmark say."""
    roots = [Path(os.environ["EMEND_DATA"])] if os.environ.get("EMEND_DATA") else []
    for root in roots:
        if (root / (config.data or config.benchmark)).exists():
            return root / (config.data or config.benchmark)
    return Path(config.data) if config.data else None


def model_fingerprint(spec: str, model: BaseChatModel) -> dict[str, Any]:
    """The model's name, a digest of its weights where they are at hand, and the parameters that it is asked with."""
    plain = (str, int, float, bool, list, tuple, type(None))
    asked = {name: value for name, value in model._identifying_params.items() if isinstance(value, plain)}
    return {"name": spec, "fingerprint": fingerprint(model, spec), "parameters": asked}
