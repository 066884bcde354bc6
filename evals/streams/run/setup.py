"""Set-up of a run over a stream: everything that its configuration names, loaded once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel

from emend.agents.providers.policy import CallPolicy
from emend.agents.scoring import resolve_form
from emend.editors.base import Editor, EditorContext
from emend.editors.registry import EDITORS
from emend.evals.case import pass_id, unit_key
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.resources import (
    LazyMemory,
    model_fingerprint,
    open_lazily,
)
from emend.evals.evaluate.setup.run_setup import local_objects, model_and_policy
from emend.evals.jobs.limits import refuse_unused_limits
from emend.evals.jobs.workers.choose import MEMORY
from emend.evals.log.lines import TURNS
from emend.evals.streams.run.answers import MESSAGES, ContextReader
from emend.evals.streams.run.line import MODE
from emend.evals.streams.run.source import StreamSource, read_stream_source
from emend.evals.streams.stream_config import StreamConfig
from emend.evals.streams.system import SYSTEMS, SystemContext, SystemFactory
from emend.evals.streams.systems.editor import EditorSystem, load_editor
from emend.memory.embeddings.embed import Embedding, load_embedding
from emend.memory.errors import BadSettings
from emend.memory.paths import cache_folder
from emend.memory.registry import nearest
from emend.memory.retrieval.compose import load_retriever

# Folder of the systems' stores within the run folder.
STORES = "systems"


class StreamPass(NamedTuple):
    """A pass of one system over the stream."""

    system: str
    repeat: int


@dataclass(frozen=True)
class Systems:
    """Factory of a run's memory systems.

    Attributes:
        factories: factories of the memory systems, by name.
        editors: editors that are used as systems, by name.
        context: resources of a system, without its folder and settings.
        settings: settings by name of a system.
        form: prompt form in which editors ask models that accept both, plain or chat.
    """

    factories: Mapping[str, SystemFactory]
    editors: Mapping[str, Editor]
    context: SystemContext
    settings: Mapping[str, dict[str, Any]]
    form: Any

    def make(self, name: str, folder: Path | None) -> Any:
        """Create a new system, or reopen the one whose store is in the folder.

        Raises:
            BadSettings: the system has neither `context_for` nor `answer`.
        """
        if name in self.editors:
            return EditorSystem(name, self.editors[name], self.form)
        factory = self.factories[name]
        embedding = self.context.embedding if _reads_memory(factory) else None
        system = factory(
            SystemContext(
                model=self.context.model,
                embedding=embedding,
                folder=folder,
                settings=self.settings.get(name, {}),
                policy=self.context.policy,
                evidence=self.context.evidence,
            )
        )
        if not (hasattr(system, "context_for") or hasattr(system, "answer")):
            raise BadSettings(
                f"memory system '{name}' has neither context_for nor answer: see "
                "docs/how-to/streams.md."
            )
        return system

    def store_folder(self, name: str, folder: Path) -> Path | None:
        """Return the folder of a system's stores; None if the system is not persistent."""
        if not getattr(self.factories.get(name), "persistent", False):
            return None
        return folder / STORES / name.replace(":", "-")

    def fingerprint(self, name: str, reader: ContextReader) -> dict[str, Any]:
        """Return everything that determines a system's answers besides model and stream."""
        if name in self.editors:
            return self.editors[name].fingerprint
        return {"system": name, "settings": self.settings.get(name, {}), **reader.fingerprint}


@dataclass(frozen=True)
class StreamSetup:
    """A loaded run over a stream.

    Attributes:
        config: configuration of the run.
        run_config: the same configuration as stored in the run folder.
        source: the stream.
        systems: the systems that are asked.
        reader: the model under test as reader of recalled contexts.
        model: the model under test.
        policy: policy of provider calls.
        memory: memory of the editors among the systems.
        objects: names of components that exist only in this process.
    """

    config: StreamConfig
    run_config: RunConfig
    source: StreamSource
    systems: Systems
    reader: ContextReader
    model: BaseChatModel
    policy: CallPolicy
    memory: LazyMemory
    objects: tuple[str, ...]

    @property
    def passes(self) -> list[StreamPass]:
        """One pass per repeat and system, in that order."""
        return [
            StreamPass(name, repeat)
            for repeat in range(self.config.repeats)
            for name in self.run_config.editors
        ]

    @cached_property
    def model_fingerprint(self) -> dict[str, Any]:
        """Fingerprint of the model under test."""
        return model_fingerprint(self.config.model, self.model)

    @cached_property
    def fingerprints(self) -> dict[str, dict[str, Any]]:
        """Fingerprint of each system: what determines its answers."""
        names = self.run_config.editors
        return {name: self.systems.fingerprint(name, self.reader) for name in names}

    def pass_id(self, stream_pass: StreamPass) -> str:
        """Return an id of everything that determines the answers of a pass, except the place."""
        name, repeat = stream_pass
        fingerprint = self.fingerprints[name]
        return pass_id(name, fingerprint, self.model_fingerprint, TURNS, MODE, repeat)

    def unit_key(self, stream_pass: StreamPass, place: str) -> str:
        """Return the key of a place in a pass."""
        return unit_key(place, self.pass_id(stream_pass))


def load_stream_setup(
    file: str, config: StreamConfig, folder: Path, model: BaseChatModel | None = None
) -> StreamSetup:
    """Read the stream and load everything that the configuration names.

    Args:
        file: file of the stream.
        config: configuration of the run.
        folder: run folder.
        model: replaces the configured model; only for workers that are threads.

    Raises:
        BadSettings: an unknown name or setting, or limits that apply to no model.
        EmendError: the stream or the model cannot be loaded.
    """
    run_config = config.run_config(file)
    source = read_stream_source(file, config)
    makers = {name: _maker(name) for name in run_config.editors}
    names = *run_config.editors, config.model, config.embedding
    objects = local_objects(names, model is not None)
    is_given = model is not None
    model_spec, limits = run_config.model_spec, run_config.limits
    model, policy = model_and_policy(model_spec, limits, config.concurrency, model)
    form = resolve_form(model, "plain" if config.form == "plain" else "chat")
    encoder = _encoder(config.embedding, [maker.make for maker in makers.values()])
    memory = open_lazily(folder / MEMORY, config.embedding, encoder)
    retriever = load_retriever(run_config.memory_spec.retriever)
    editor_context = EditorContext(
        model, memory, retriever, (), MESSAGES, seed=config.seed, policy=policy, folder=folder
    )
    systems = Systems(
        factories={name: maker.make for name, maker in makers.items() if not maker.is_editor},
        editors=_editors(makers, run_config.overrides, editor_context),
        context=SystemContext(model, encoder, policy=policy, evidence=source.evidence),
        settings=config.overrides,
        form=form,
    )
    if not is_given:
        refuse_unused_limits(limits, config.model, policy)
    return StreamSetup(
        config=config,
        run_config=run_config,
        source=source,
        systems=systems,
        reader=ContextReader.load(model, config.budget, form),
        model=model,
        policy=policy,
        memory=memory,
        objects=objects,
    )


class _Maker(NamedTuple):
    """Factory of a memory system, or of an editor that is used as one."""

    make: Callable[[Any], Any]
    is_editor: bool


def _maker(name: str) -> _Maker:
    """Find the factory with a name, of a memory system or else of an editor.

    Raises:
        BadSettings: there is neither, or it cannot be loaded.
    """
    if SYSTEMS.installed(name):
        return _Maker(SYSTEMS.load(name), is_editor=False)
    if EDITORS.installed(name):
        return _Maker(EDITORS.load(name), is_editor=True)
    if ":" not in name:
        names = [*SYSTEMS.names(), *EDITORS.names()]
        raise BadSettings(f"unknown memory system '{name}': {nearest(name, names)}")
    return _Maker(SYSTEMS.load(name), is_editor=False)


def _editors(
    makers: Mapping[str, _Maker], settings: Mapping[str, dict[str, Any]], context: EditorContext
) -> dict[str, Editor]:
    """Return the editors among the systems by name, each with its settings."""
    return {
        name: load_editor(name, maker.make, replace(context, settings=settings.get(name, {})))
        for name, maker in makers.items()
        if maker.is_editor
    }


def _reads_memory(make: object) -> bool:
    return bool(getattr(make, "reads_memory", False))


def _encoder(name: str, makers: Sequence[object]) -> Embedding | None:
    """Return the encoder for systems that search by vectors; None if there is no such system."""
    if not any(map(_reads_memory, makers)):
        return None
    return load_embedding(name, cache_folder("vectors"))
