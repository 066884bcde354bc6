"""Benchmark, editors, model and memory of a run, loaded once: cheap things first, so that a wrong name fails early."""

import os
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel

from emend.agents.llm import fingerprint, load_model
from emend.agents.providers.policy import CallPolicy
from emend.agents.scoring import resolve_form
from emend.editors.base import BatchSolver, Editor, EditorContext, MemoryLike
from emend.editors.memory_based.unedited import Unedited
from emend.editors.registry import EDITORS
from emend.editors.unsupported_editors import RefusedEditor
from emend.evals.case import Benchmark, Case, Metric
from emend.evals.config.run_config import MODEL, NO_CHECKPOINTS, Checkpoints, FailureLimit, Mode, RunConfig, Share
from emend.evals.data.benchmarks.fact_file.benchmark import FactFile
from emend.evals.data.benchmarks.fact_file.read import is_fact_file
from emend.evals.data.benchmarks.registry import BENCHMARKS
from emend.evals.data.benchmarks.triples import OPTION, with_triples
from emend.evals.log.manifest import decisive_fields
from emend.evals.metrics.protocols import WRONG_BEFORE, form_for, metrics_under, under_protocols
from emend.evals.run.batch_ahead import CHUNK
from emend.evals.run.perplexity import load_texts
from emend.evals.run.shares.deal import PASSES, Deal, pass_ids
from emend.evals.run.units import EditorPass, Group, UnfinishedCases, groups, without_repeats
from emend.memory.edit import Edit, content_id
from emend.memory.embeddings.embed import Embedding, LexicalEmbedding, load_embedding
from emend.memory.errors import BadSettings, EditorUnusable, EmendError, MissingData
from emend.memory.files import private_folder
from emend.memory.paths import cache_folder
from emend.memory.probe import Probe
from emend.memory.registry import nearest
from emend.memory.retrieval.base import Corpus, Entry, Retriever
from emend.memory.retrieval.compose import load_retriever
from emend.memory.retrieval.exact import ExactCorpus
from emend.memory.retrieval.registry import RETRIEVERS

MEMORY = "memory"
FIRST_CASES = 50
"""Cases of which `other_edits` gives the edits."""
LIMITS = ("rpm", "tpm", "max_cost", "max_calls", "prices", "cache")
"""Options that only concern models of providers."""


@dataclass(eq=False)
class _Addition:
    """Edits that a thread wants to have stored; `is_alone` where they are not to be stored with others."""

    edits: Sequence[Edit]
    is_stored: bool = False
    is_alone: bool = False


class LazyMemory:
    """A memory that is opened on first use, because most editors never use one; `embedding` is its encoder."""

    def __init__(self, open_memory: Callable[[], Any], embedding: Embedding | None = None) -> None:
        self._open, self.embedding = open_memory, embedding
        self._lock, self._adding = threading.Lock(), threading.Lock()
        self._additions = deque[_Addition]()
        self._memory: Any = None

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
                self._memory = self._open()
        return self._memory  # type: ignore[no-any-return]


@dataclass(frozen=True)
class RunComponents:
    """Benchmark, editors, model and memory of a run, and the parsed parts of its configuration."""

    config: RunConfig
    benchmark: Benchmark
    settings: tuple[str, ...]
    mode: Mode
    checkpoints: Checkpoints
    failure_limit: FailureLimit
    perplexity_texts: tuple[str, ...]
    editors: Mapping[str, Callable[[EditorContext], Editor]]
    retriever: Callable[[Corpus], Retriever]
    model: BaseChatModel
    memory: LazyMemory
    policy: CallPolicy
    """How providers are called; a local model does not need it."""
    unfinished: dict[str, UnfinishedCases] = field(default_factory=dict)
    """Cases that are left of a resumed run by setting, once all have been counted."""

    def cases(self, setting: str) -> Iterator[Case]:
        """Yield the cases of a setting, each once, with probes as the run asks them; streamed anew at every call."""
        stream = self.benchmark.cases(setting, self.config.limit, self.config.seed)
        return without_repeats(self._as_asked(case) for case in stream if case.probes)

    def _as_asked(self, case: Case) -> Case:
        return case.model_copy(update={"probes": tuple(map(self._probe, case.probes))})

    def _probe(self, probe: Probe) -> Probe:
        """The probe, scored by the run's protocols and in the form in which the run asks it."""
        probe = under_protocols(probe, self.config.protocols)
        scorers = probe.scorers
        if self.config.count_only == WRONG_BEFORE and probe.edit_ids:
            scorers = (*scorers, WRONG_BEFORE)
        form = resolve_form(self.model, form_for(probe, self.config.form, self.edits_weights))
        return probe.model_copy(update={"form": form, "scorers": scorers})

    @cached_property
    def edits_weights(self) -> bool:
        """True if one of the editors changes weights."""
        return any(getattr(editor, "needs_weights", False) for editor in self.editors.values())

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """The benchmark's metrics, under the run's protocols."""
        return tuple(metrics_under(self.benchmark.metrics(), self.config.protocols))

    def groups(self, setting: str) -> Iterator[Group]:
        """Yield the groups of cases of a setting, in order; in a share, those that are dealt to it.

        Groups without unfinished units may be left out.
        """
        left = self.unfinished.get(setting)
        if left is not None and left.cases is not None and self._has_groups_of_one:
            return groups(lambda: iter(left.cases or ()), self.mode)
        whole = groups(lambda: self.cases(setting), self.mode, self.checkpoints)
        deal, kind = self.deal, self.mode.kind
        if deal is None or kind == "sequential":
            return whole
        if kind == "all":
            return (group._replace(cases=lambda: deal.pick(setting, self.cases(setting))) for group in whole)
        return deal.pick(setting, whole, deal.size // (self.mode.size or 1))

    @cached_property
    def deal(self) -> Deal | None:
        """Parts of the run that are this share's; None for a whole run.

        Groups are dealt whole, and with editors that solve ahead whole chunks of them, so that every number is that of
        the whole run; a sequence is never divided, so that mode `sequential` deals passes.

        Raises:
            BadSettings: there are more shares than parts.
        """
        if self.config.share is None:
            return None
        share = Share.parse(self.config.share)
        if self.mode.kind == "sequential":
            return Deal.of(share, {PASSES: pass_ids(self.settings, self.config)})
        ids = {setting: (case.id for case in self.cases(setting)) for setting in self.settings}
        return Deal.of(share, ids, CHUNK if self._solves_ahead else self.mode.size or 1)

    def is_finished(self, editor_pass: EditorPass) -> bool:
        """True if no unit of the pass is left; told by what was found when the cases were counted."""
        left = self.unfinished.get(editor_pass.setting)
        return left is not None and self.checkpoints == NO_CHECKPOINTS and editor_pass.content_id not in left.passes

    def find_unfinished(self, setting: str, finished: Collection[str]) -> UnfinishedCases:
        """Return the collector of a setting's unfinished cases, to which all of its cases are to be added."""
        passes = [editor_pass for editor_pass in self.passes if editor_pass.setting == setting]
        left = self.unfinished[setting] = UnfinishedCases(passes, finished)
        return left

    @property
    def _has_groups_of_one(self) -> bool:
        """True if every case is a group of its own, and what is asked of it depends on no other."""
        return self.mode.kind == "single" and self.deal is None and not self._solves_ahead

    @property
    def _solves_ahead(self) -> bool:
        return self.mode.kind == "single" and any(isinstance(each.editor, BatchSolver) for each in self.passes)

    @cached_property
    def share_passes(self) -> tuple[EditorPass, ...]:
        """Passes to evaluate: all of them, but for shares of mode `sequential`."""
        if self.deal is None or self.mode.kind != "sequential":
            return self.passes
        return tuple(self.deal.pick(PASSES, self.passes))

    @cached_property
    def model_fingerprint(self) -> dict[str, Any]:
        """Fingerprint of the model under test."""
        return model_fingerprint(self.config.model, self.model)

    @cached_property
    def passes(self) -> tuple[EditorPass, ...]:
        """One pass per setting, repeat and editor, in that order."""
        editors = self._usable()
        editors |= self._refused(editors)
        return tuple(
            EditorPass(
                editor=editors[setting, name],
                name=name,
                model=self.config.model,
                model_fingerprint=self.model_fingerprint,
                setting=setting,
                mode=self.mode,
                repeat=repeat,
            )
            for setting in self.settings
            for repeat in range(self.config.repeats)
            for name in self.editors
        )

    def _usable(self) -> dict[tuple[str, str], Editor]:
        """The editors by setting and name, with stand-ins for those that cannot work with the model.

        Raises:
            EmendError: none can, or an editor has wrong settings.
        """
        editors: dict[tuple[str, str], Editor] = {}
        errors: list[EmendError] = []
        for setting, name in ((setting, name) for setting in self.settings for name in self.editors):
            try:
                editors[setting, name] = self.editor(name, setting)
            except (EditorUnusable, MissingData) as error:
                errors.append(error)
                editors[setting, name] = RefusedEditor(None, str(error))
        if len(errors) == len(editors):
            raise errors[0]
        return editors

    @property
    def refusals(self) -> list[str]:
        """Why editors cannot work with the model, a sentence for all that share the reason."""
        names: dict[str, dict[str, None]] = {}
        for each in self.passes:
            if isinstance(each.editor, RefusedEditor) and each.editor.is_unusable:
                names.setdefault(each.editor.reason, {})[each.name] = None
        return [f"without {', '.join(editors)}: {reason}" for reason, editors in names.items()]

    def _refused(self, editors: Mapping[tuple[str, str], Editor]) -> dict[tuple[str, str], Editor]:
        """Stand-ins for editors in settings whose edits they cannot apply.

        Raises:
            BadSettings: an editor can apply those of no setting.
        """
        writing = {name for (_, name), editor in editors.items() if getattr(editor, "needs_subject", False)}
        nameless = [setting for setting in self.settings if writing and not self.names_subjects(setting)]
        refused: dict[tuple[str, str], Editor] = {}
        for name in (name for name in self.editors if name in writing):
            if len(nameless) == len(self.settings):
                raise BadSettings(
                    f"editor '{name}' writes at an edit's subject, and the edits of setting '{nameless[0]}' name none: "
                    f"choose another of {', '.join(self.benchmark.settings)} (--setting), or read triplets out of the "
                    "texts (`emend extract`) and give them with --benchmark-option triples=FILE --setting extract."
                )
            for setting in nameless:
                reason = f"{name} writes at an edit's subject, and the edits of setting '{setting}' name none"
                refused[setting, name] = RefusedEditor(editors[setting, name], reason)
        return refused

    def other_edits(self, setting: str) -> tuple[Edit, ...]:
        """Edits of the setting's first cases, whose subjects make neighbouring prompts."""
        return tuple(edit for case in islice(self.cases(setting), FIRST_CASES) for edit in case.edits)

    def names_subjects(self, setting: str) -> bool:
        """Return False if the first edits of the setting name no subject."""
        edits = next((case.edits for case in self.cases(setting) if case.edits), ())
        return not edits or any(edit.subject for edit in edits)

    def editor(self, name: str, setting: str) -> Editor:
        """Make the editor of that name for a setting.

        Raises:
            BadSettings: what was made is no editor.
        """
        context = self._context(
            demonstrations=self.benchmark.demonstrations(setting, self.config.seed),
            settings=self.config.overrides.get(name, {}),
        )
        with EDITORS.plugin_errors(name):
            editor = self.editors[name](context)
        if lacking := [part for part in ("needs_weights", "fingerprint", "edit") if not hasattr(editor, part)]:
            raise BadSettings(
                f"editor '{name}' has no {', no '.join(lacking)}: see docs/how-to/extend.md for what an editor is."
            )
        return editor

    def unedited(self) -> Editor:
        """Return the editor that changes nothing: the same model, without any edit."""
        return Unedited(self._context())

    def _context(self, **fields: Any) -> EditorContext:
        return EditorContext(
            model=self.model,
            memory=self.memory,
            retriever=self.retriever,
            wording=self.config.prompt_template or self.benchmark.wording,
            seed=self.config.seed,
            policy=self.policy,
            **fields,
        )

    @property
    def calls_providers(self) -> bool:
        """True if the model under test, or one that an editor loaded, is behind an API."""
        return bool(self.passes) and bool(self.policy.models)

    @property
    def units_at_once(self) -> int:
        """Number of units under way: twice that of calls to a provider, so that the next call waits for none's end."""
        concurrency = self.config.concurrency
        return 2 * concurrency if concurrency > 1 and self.calls_providers else concurrency


def load_components(config: RunConfig, folder: Path, model: BaseChatModel | None = None) -> RunComponents:
    """Load everything that the configuration names; `model` takes the place of the named one.

    Raises:
        BadSettings: an unknown name. And whatever loading a benchmark or a model raises.
    """
    editors = {name: EDITORS.load(name) for name in config.editors}
    retriever = load_retriever(config.retriever)
    benchmark, settings = load_benchmark(config.benchmark, config.data, config.benchmark_options, config.settings)
    texts = load_texts(config.perplexity_text, benchmark, config.seed)
    if model is None:
        model, policy = load_model_and_policy(config)
    else:
        policy = getattr(model, "policy", None) or CallPolicy()
    _check_form(config, model)
    policy.limit_calls(config.concurrency)
    encoder: Embedding | None = None
    if any(getattr(editor, "reads_memory", False) for editor in editors.values()):
        encoder = load_embedding(config.embedding, cache_folder("vectors"))
        _try_retriever(config.retriever, retriever)
    return RunComponents(
        config=config,
        benchmark=benchmark,
        settings=settings,
        mode=Mode.parse(config.mode or benchmark.mode),
        checkpoints=Checkpoints.parse(config.reevaluate_at),
        failure_limit=FailureLimit.parse(config.fail_on_error),
        perplexity_texts=texts,
        editors=editors,
        retriever=retriever,
        model=model,
        policy=policy,
        memory=_run_memory(config, folder, benchmark, encoder),
    )


def load_model_and_policy(config: RunConfig) -> tuple[BaseChatModel, CallPolicy]:
    """Load the named model, and make the policy by which it and the editors' own models are called."""
    policy = config.policy()
    return load_model(config.model, policy, **config.overrides.get(MODEL, {})), policy


def _check_form(config: RunConfig, model: BaseChatModel) -> None:
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
    return BENCHMARKS.load(name)(data_folder(name, data), dict(options))


def _try_retriever(name: str, retriever: Callable[[Corpus], Retriever]) -> None:
    """Make the retriever once, so that a setting that it does not take fails before anything is written."""
    entry = Entry(id="x", edit_id="x", text="The capital of Veldania is Ostrim.")
    with RETRIEVERS.plugin_errors(name):
        retriever(ExactCorpus.of([entry], LexicalEmbedding()))


def open_lazily(path: Path, embedding: str, encoder: Embedding | None = None) -> LazyMemory:
    """A memory in a folder, made when an editor first uses it."""
    return LazyMemory(lambda: _open_memory(private_folder(path), _encoder(encoder, embedding)), encoder)


def _run_memory(config: RunConfig, folder: Path, benchmark: Benchmark, encoder: Embedding | None) -> LazyMemory:
    """A run's memory, in its folder or on a server."""
    address = config.memory_server
    if address is None:
        return open_lazily(folder / MEMORY, config.embedding, encoder)

    def connect() -> Any:
        # Named by what the run is, so that its shares and workers use one memory, and other runs another.
        fields = decisive_fields({"config": config.model_dump(mode="json", exclude={"share"})})
        loaded = _encoder(encoder, config.embedding)
        name = content_id("memory of a run", fields, loaded.identity, benchmark.provenance)
        return _open_memory(address, loaded, f"run-{name}")

    return LazyMemory(connect, encoder)


def _encoder(encoder: Embedding | None, embedding: str) -> Embedding:
    return encoder or load_embedding(embedding, cache_folder("vectors"))


def _open_memory(place: Path | str, encoder: Embedding, name: str = "") -> Any:
    from emend.memory.store.chroma import ChromaMemory

    # Cases are worlds of their own: their edits contradict each other without one being later, unless they are dated.
    return ChromaMemory(place, encoder, superseding="time", name=name)


def data_folder(benchmark: str, data: str | None) -> Path | None:
    """Return the data folder: under `EMEND_DATA` first, then the path as given; None lets the benchmark decide."""
    if root := os.environ.get("EMEND_DATA"):
        folder = Path(root) / (data or benchmark)
        if folder.exists():
            return folder
    return Path(data) if data else None


def model_fingerprint(spec: str, model: BaseChatModel) -> dict[str, Any]:
    """Return the model's name, a digest of local weights, and the parameters that it is called with."""
    plain = (str, int, float, bool, list, tuple, type(None))
    parameters = {name: value for name, value in model._identifying_params.items() if isinstance(value, plain)}
    return {"name": spec, "fingerprint": fingerprint(model, spec), "parameters": parameters}
