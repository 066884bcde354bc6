"""The set-up of a run: its configuration parsed, and the cases, editors and models that it names loaded, once.

Cheap things come first, so that a wrong name fails early.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel

from emend.agents.providers.policy import CallPolicy
from emend.agents.scoring import resolve_form
from emend.editors.base import BatchSolver, Editor, EditorContext
from emend.editors.memory_based.unedited import Unedited
from emend.editors.registry import EDITORS
from emend.editors.unsupported_editors import RefusedEditor
from emend.evals.case import Benchmark, Case, Metric
from emend.evals.config.run_config import NO_CHECKPOINTS, Checkpoints, FailureLimit, Mode, RunConfig, Share, WorkersSpec
from emend.evals.metrics.scores import WRONG_BEFORE, form_for, metrics_under, under_protocols
from emend.evals.run.ability import AbilityTask, load_abilities
from emend.evals.run.edit_groups import CHUNK
from emend.evals.run.resources import (
    LazyMemory,
    check_form,
    load_benchmark,
    load_model_and_policy,
    model_fingerprint,
    run_memory,
)
from emend.evals.run.shares import PASSES, Partition, pass_ids
from emend.evals.run.side_effects import load_texts
from emend.evals.run.units import EditorPass, Group, UnfinishedCases, groups, without_repeats
from emend.memory.edit import Edit
from emend.memory.embeddings.embed import Embedding, LexicalEmbedding, load_embedding
from emend.memory.errors import BadSettings, EditorUnusable, EmendError, MissingData
from emend.memory.paths import cache_folder
from emend.memory.probe import Probe
from emend.memory.retrieval.base import Corpus, Entry, Retriever
from emend.memory.retrieval.compose import load_retriever
from emend.memory.retrieval.exact import ExactCorpus
from emend.memory.retrieval.registry import RETRIEVERS

FIRST_CASES = 50
"""Cases of which `other_edits` gives the edits."""


@dataclass(frozen=True)
class CaseSource:
    """The benchmark's cases in the settings of a run, each once, with probes as the run asks them.

    Attributes:
        benchmark: gives the cases.
        name: the benchmark's, as the configuration has it.
        settings: those to run.
        limit: number of cases of a setting; None for all.
        seed: of the sample.
        protocols: by which answers are scored.
        only_wrong_before: whether probes about an edit count only where the unedited model answers wrongly.
        form: in which the configuration says that probes are asked.
        model: the model under test.
        edits_weights: whether one of the editors changes weights.
    """

    benchmark: Benchmark
    name: str
    settings: tuple[str, ...]
    limit: int | None
    seed: int
    protocols: tuple[str, ...]
    only_wrong_before: bool
    form: str | None
    model: BaseChatModel
    edits_weights: bool

    def cases(self, setting: str) -> Iterator[Case]:
        """Yield the cases of a setting; streamed anew at every call."""
        stream = self.benchmark.cases(setting, self.limit, self.seed)
        return without_repeats(self._as_asked(case) for case in stream if case.probes)

    def _as_asked(self, case: Case) -> Case:
        return case.model_copy(update={"probes": tuple(map(self._probe, case.probes))})

    def _probe(self, probe: Probe) -> Probe:
        """The probe, scored by the run's protocols and in the form in which the run asks it."""
        probe = under_protocols(probe, self.protocols)
        scorers = probe.scorers
        if self.only_wrong_before and probe.edit_ids:
            scorers = (*scorers, WRONG_BEFORE)
        form = resolve_form(self.model, form_for(probe, self.form, self.edits_weights))
        return probe.model_copy(update={"form": form, "scorers": scorers})

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """The benchmark's metrics, under the run's protocols."""
        return tuple(metrics_under(self.benchmark.metrics(), self.protocols))

    def other_edits(self, setting: str) -> tuple[Edit, ...]:
        """Edits of the setting's first cases, whose subjects make neighbouring prompts."""
        return tuple(edit for case in islice(self.cases(setting), FIRST_CASES) for edit in case.edits)

    def names_subjects(self, setting: str) -> bool:
        """Return False if the first edits of the setting name no subject."""
        edits = next((case.edits for case in self.cases(setting) if case.edits), ())
        return not edits or any(edit.subject for edit in edits)


@dataclass(frozen=True)
class EditorFactory:
    """Makes the editors of a run.

    Attributes:
        context: model, memory and retriever; demonstrations and settings are added to it.
        classes: by name, what makes an editor of a context.
        overrides: settings by editor.
        source: gives the settings' edits and demonstrations.
    """

    context: EditorContext
    classes: Mapping[str, Callable[[EditorContext], Editor]]
    overrides: Mapping[str, dict[str, Any]]
    source: CaseSource

    def unedited(self) -> Editor:
        """Return the editor that changes nothing: the same model, without any edit."""
        return Unedited(self.context)

    def all(self) -> dict[tuple[str, str], Editor]:
        """The editors by setting and name, with stand-ins for those that cannot work with the model or the edits.

        Raises:
            EmendError: an editor can work in no setting, or has wrong settings.
        """
        editors = self._usable()
        return editors | self._refused(editors)

    def _usable(self) -> dict[tuple[str, str], Editor]:
        """The editors by setting and name, with stand-ins for those that cannot work with the model.

        Raises:
            EmendError: none can, or an editor has wrong settings.
        """
        editors: dict[tuple[str, str], Editor] = {}
        errors: list[EmendError] = []
        for setting, name in ((setting, name) for setting in self.source.settings for name in self.classes):
            try:
                editors[setting, name] = self.editor(name, setting)
            except (EditorUnusable, MissingData) as error:
                errors.append(error)
                editors[setting, name] = RefusedEditor(None, str(error))
        if len(errors) == len(editors):
            raise errors[0]
        return editors

    def _refused(self, editors: Mapping[tuple[str, str], Editor]) -> dict[tuple[str, str], Editor]:
        """Stand-ins for editors in settings whose edits they cannot apply.

        Raises:
            BadSettings: an editor can apply those of no setting.
        """
        writing = {name for (_, name), editor in editors.items() if getattr(editor, "needs_subject", False)}
        nameless = [setting for setting in self.source.settings if writing and not self.source.names_subjects(setting)]
        refused: dict[tuple[str, str], Editor] = {}
        for name in (name for name in self.classes if name in writing):
            if len(nameless) == len(self.source.settings):
                raise BadSettings(
                    f"editor '{name}' writes at an edit's subject, and the edits of setting '{nameless[0]}' name none: "
                    f"choose another of {', '.join(self.source.benchmark.settings)} (--setting), or read triplets out "
                    "of the texts (`emend extract`) and give them with --benchmark-option triples=FILE --setting "
                    "extract."
                )
            for setting in nameless:
                reason = f"{name} writes at an edit's subject, and the edits of setting '{setting}' name none"
                refused[setting, name] = RefusedEditor(editors[setting, name], reason)
        return refused

    def editor(self, name: str, setting: str) -> Editor:
        """Make the editor of that name for a setting.

        Raises:
            BadSettings: what was made is no editor.
        """
        demonstrations = self.source.benchmark.demonstrations(setting, self.context.seed)
        context = replace(self.context, demonstrations=demonstrations, settings=self.overrides.get(name, {}))
        with EDITORS.plugin_errors(name):
            editor = self.classes[name](context)
        if lacking := [part for part in ("needs_weights", "fingerprint", "edit") if not hasattr(editor, part)]:
            raise BadSettings(
                f"editor '{name}' has no {', no '.join(lacking)}: see docs/how-to/extend.md for what an editor is."
            )
        return editor


LOCAL_NAMES = ("object:", "__main__:")
"""How names of components begin that exist in this process alone."""


@dataclass(frozen=True)
class RunSetup:
    """A run's configuration, parsed, and what it names, loaded; nothing else of a run reads the configuration.

    Attributes:
        config: as the manifest and other processes get it.
        source: the cases.
        editors: makes the editors.
        mode: how many cases' edits are applied together.
        checkpoints: at which earlier cases are asked again.
        failure_limit: which ends the run.
        share: the part of the run that is evaluated; None for all of it.
        workers: where units are evaluated.
        objects: names of components that exist in this process alone.
        repeats: number of passes of an editor over a setting.
        concurrency: number of calls, or of local models' units, at a time.
        perplexity_texts: texts that no edit is about.
        abilities: tasks that the model does before and under edits of weights.
        model: the model under test.
        model_name: its name, as the configuration has it.
        policy: how providers are called; a local model does not need it.
        memory: of the editors that have one.
        unfinished: cases that are left of a resumed run by setting, once all have been counted.
    """

    config: RunConfig
    source: CaseSource
    editors: EditorFactory
    mode: Mode
    checkpoints: Checkpoints
    failure_limit: FailureLimit
    share: Share | None
    workers: WorkersSpec
    objects: tuple[str, ...]
    repeats: int
    concurrency: int
    perplexity_texts: tuple[str, ...]
    abilities: tuple[AbilityTask, ...]
    model: BaseChatModel
    model_name: str
    policy: CallPolicy
    memory: LazyMemory
    unfinished: dict[str, UnfinishedCases] = field(default_factory=dict)

    def groups(self, setting: str) -> Iterator[Group]:
        """Yield the groups of cases of a setting, in order; in a share, its part of them.

        Groups without unfinished units may be left out.
        """
        left = self.unfinished.get(setting)
        if left is not None and left.cases is not None and self._has_groups_of_one:
            return groups(lambda: iter(left.cases or ()), self.mode)
        whole = groups(lambda: self.source.cases(setting), self.mode, self.checkpoints)
        partition, kind = self.partition, self.mode.kind
        if partition is None or kind == "sequential":
            return whole
        if kind == "all":
            return (
                group._replace(cases=lambda: partition.pick(setting, self.source.cases(setting))) for group in whole
            )
        return partition.pick(setting, whole, partition.size // (self.mode.size or 1))

    @cached_property
    def partition(self) -> Partition | None:
        """Parts of the run that are this share's; None for a whole run.

        Groups stay whole, and with editors that solve ahead whole chunks of them, so that every number is that of
        the whole run; a sequence is never divided, so that mode `sequential` divides passes.

        Raises:
            BadSettings: there are more shares than parts.
        """
        if self.share is None:
            return None
        if self.mode.kind == "sequential":
            return Partition.of(
                self.share, {PASSES: pass_ids(self.source.settings, self.repeats, self.editors.classes)}
            )
        ids = {setting: (case.id for case in self.source.cases(setting)) for setting in self.source.settings}
        return Partition.of(self.share, ids, CHUNK if self._solves_ahead else self.mode.size or 1)

    def is_finished(self, editor_pass: EditorPass) -> bool:
        """True if no unit of the pass is left, by the count of unfinished cases."""
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
        return self.mode.kind == "single" and self.partition is None and not self._solves_ahead

    @property
    def _solves_ahead(self) -> bool:
        return self.mode.kind == "single" and any(isinstance(each.editor, BatchSolver) for each in self.passes)

    @cached_property
    def share_passes(self) -> tuple[EditorPass, ...]:
        """Passes to evaluate: all of them, but for shares of mode `sequential`."""
        if self.partition is None or self.mode.kind != "sequential":
            return self.passes
        return tuple(self.partition.pick(PASSES, self.passes))

    @cached_property
    def model_fingerprint(self) -> dict[str, Any]:
        """Fingerprint of the model under test."""
        return model_fingerprint(self.model_name, self.model)

    @cached_property
    def passes(self) -> tuple[EditorPass, ...]:
        """One pass per setting, repeat and editor, in that order."""
        editors = self.editors.all()
        return tuple(
            EditorPass(
                editor=editors[setting, name],
                name=name,
                model=self.model_name,
                model_fingerprint=self.model_fingerprint,
                setting=setting,
                mode=self.mode,
                repeat=repeat,
            )
            for setting in self.source.settings
            for repeat in range(self.repeats)
            for name in self.editors.classes
        )

    @property
    def refusals(self) -> list[str]:
        """Why editors cannot work with the model, a sentence for all that share the reason."""
        names: dict[str, dict[str, None]] = {}
        for each in self.passes:
            if isinstance(each.editor, RefusedEditor) and each.editor.is_unusable:
                names.setdefault(each.editor.reason, {})[each.name] = None
        return [f"without {', '.join(editors)}: {reason}" for reason, editors in names.items()]

    @property
    def calls_providers(self) -> bool:
        """True if the model under test, or one that an editor loaded, is behind an API."""
        return bool(self.passes) and bool(self.policy.models)

    @property
    def units_at_once(self) -> int:
        """Number of units under way: twice that of calls to a provider, so that the next call waits for none's end."""
        return 2 * self.concurrency if self.concurrency > 1 and self.calls_providers else self.concurrency


def load_setup(config: RunConfig, folder: Path, model: BaseChatModel | None = None) -> RunSetup:
    """Parse the configuration and load everything that it names; `model` takes the place of the named one.

    Raises:
        BadSettings: an unknown name. And whatever loading a benchmark or a model raises.
    """
    retriever = load_retriever(config.retriever)
    benchmark, settings = load_benchmark(config.benchmark, config.data, config.benchmark_options, config.settings)
    # A stream is asked of memory systems too, which are no editors anywhere else.
    load_editor = getattr(benchmark, "load_editor", EDITORS.load)
    classes = {name: load_editor(name) for name in config.editors}
    texts = load_texts(config.perplexity_text, benchmark, config.seed)
    has_model = model is not None
    if model is None:
        model, policy = load_model_and_policy(config)
    else:
        policy = getattr(model, "policy", None) or CallPolicy()
    check_form(config, model)
    policy.limit_calls(config.concurrency)
    encoder: Embedding | None = None
    if any(getattr(each, "reads_memory", False) for each in classes.values()):
        encoder = load_embedding(config.embedding, cache_folder("vectors"))
        _try_retriever(config.retriever, retriever)
    parsed, memory = config.parsed(), run_memory(config, folder, benchmark, encoder)
    edits_weights = any(getattr(each, "needs_weights", False) for each in classes.values())
    source = _case_source(config, benchmark, settings, model, edits_weights)
    wording = config.prompt_template or benchmark.wording
    context = EditorContext(model, memory, retriever, wording=wording, seed=config.seed, policy=policy, folder=folder)
    return RunSetup(
        config=config,
        source=source,
        editors=EditorFactory(context, classes, config.overrides, source),
        mode=parsed.mode or Mode.parse(benchmark.mode),
        checkpoints=parsed.checkpoints,
        failure_limit=parsed.failure_limit,
        share=parsed.share,
        workers=parsed.workers,
        objects=_local_objects(config, has_model),
        repeats=config.repeats,
        concurrency=config.concurrency,
        perplexity_texts=texts,
        abilities=load_abilities(config.ability, edits_weights),
        model=model,
        model_name=config.model,
        policy=policy,
        memory=memory,
    )


def _case_source(
    config: RunConfig, benchmark: Benchmark, settings: tuple[str, ...], model: BaseChatModel, edits_weights: bool
) -> CaseSource:
    return CaseSource(
        benchmark=benchmark,
        name=config.benchmark,
        settings=settings,
        limit=config.limit,
        seed=config.seed,
        protocols=config.protocols,
        only_wrong_before=config.count_only == WRONG_BEFORE,
        form=config.form,
        model=model,
        edits_weights=edits_weights,
    )


def _local_objects(config: RunConfig, has_model: bool) -> tuple[str, ...]:
    """Names of the components that no other process can load."""
    names = (config.benchmark, *config.editors, config.model, config.retriever, config.embedding)
    return (*(("the model",) if has_model else ()), *(name for name in names if name.startswith(LOCAL_NAMES)))


def _try_retriever(name: str, retriever: Callable[[Corpus], Retriever]) -> None:
    """Make the retriever once, so that a setting that it does not take fails before anything is written."""
    entry = Entry(id="x", edit_id="x", text="The capital of Veldania is Ostrim.")
    with RETRIEVERS.plugin_errors(name):
        retriever(ExactCorpus.of([entry], LexicalEmbedding()))
