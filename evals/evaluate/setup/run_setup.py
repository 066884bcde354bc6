"""Set-up of a run: its parsed configuration, and the cases, editors and models it names.

Cheap steps come first, so that a wrong name fails early.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel

from emend.agents.providers.policy import CallPolicy
from emend.agents.roles.instructions import ANY, joined_name, load_instructions, unused_tables
from emend.editors.base import BatchSolver, EditorContext
from emend.editors.registry import EDITORS
from emend.editors.unsupported_editors import RefusedEditor
from emend.evals.case import Benchmark
from emend.evals.config.benchmark_spec import BenchmarkSpec
from emend.evals.config.division import Share, WorkersSpec
from emend.evals.config.limits import FailureLimit, Limits
from emend.evals.config.memory_spec import MemorySpec
from emend.evals.config.mode import NO_CHECKPOINTS, Checkpoints, Mode
from emend.evals.config.model_spec import ModelSpec
from emend.evals.config.run_config import RunConfig
from emend.evals.config.scoring import ScoringSpec
from emend.evals.evaluate.ability import AbilityTask, load_abilities
from emend.evals.evaluate.edit_groups import CHUNK
from emend.evals.evaluate.resources import (
    LazyMemory,
    check_form,
    choose_settings,
    load_model_and_policy,
    model_fingerprint,
    run_memory,
)
from emend.evals.evaluate.setup.case_source import FIRST_CASES, CaseSource
from emend.evals.evaluate.setup.editor_factory import EditorFactory
from emend.evals.evaluate.setup.names import check_config
from emend.evals.evaluate.side_effects import load_texts
from emend.evals.evaluate.units import EditorPass, Group, UnfinishedCases, groups
from emend.evals.jobs.partition import Partition
from emend.evals.jobs.queues import units_at_once
from emend.evals.log.manifest import decisive_fields
from emend.evals.metrics.scoring.setup import check_benchmark_scorers
from emend.memory.embeddings.embed import Embedding, LexicalEmbedding, load_embedding
from emend.memory.errors import BadSettings
from emend.memory.paths import cache_folder
from emend.memory.registry import nearest
from emend.memory.retrieval.base import Corpus, Entry, Retriever
from emend.memory.retrieval.compose import load_retriever
from emend.memory.retrieval.exact import ExactCorpus
from emend.memory.retrieval.registry import RETRIEVERS

# Prefixes of names of components that exist only in this process.
LOCAL_NAMES = ("object:", "__main__:")
# Name under which whole passes are shared, instead of a setting.
PASSES = "passes"


@dataclass(frozen=True)
class RunSetup:
    """A run's parsed configuration with everything loaded from it.

    Nothing else in a run reads the configuration.

    Attributes:
        config: configuration as given to the manifest and other processes.
        source: source of the cases.
        editors: factory of the editors.
        mode: mode in which the cases' edits are applied together.
        checkpoints: numbers of edits after which earlier cases are asked again.
        failure_limit: limit of failed units that ends the run.
        share: the part of the run that is evaluated; None for all of it.
        workers: where units are evaluated.
        objects: names of components that exist only in this process.
        repeats: number of passes of an editor over a setting.
        concurrency: number of concurrent calls, or of units of local models.
        perplexity_texts: texts that no edit concerns.
        abilities: ability tasks of the model before and after edits of weights.
        model: the model under test.
        model_name: name of the model in the configuration.
        policy: call policy for providers; unused by a local model.
        memory: memory of the editors that use one.
        encoder: encoder of the memory; None if no editor reads it.
        unfinished: unfinished cases of a resumed run by setting, once all cases have been counted.
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
    encoder: Embedding | None = None
    unfinished: dict[str, UnfinishedCases] = field(default_factory=dict)

    def groups(self, setting: str) -> Iterator[Group]:
        """Yield the groups of a setting's cases in order; for a share, only its part.

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
                group._replace(cases=lambda: partition.pick(setting, self.source.cases(setting)))
                for group in whole
            )
        return partition.pick(setting, whole, partition.size // (self.mode.size or 1))

    @cached_property
    def partition(self) -> Partition | None:
        """Parts of the run that this share evaluates; None for a whole run.

        Groups stay whole, and so do chunks of groups that are solved ahead together, so that every
        number equals that of the whole run. A sequence cannot be divided, so mode `sequential`
        divides passes.

        Raises:
            BadSettings: there are more shares than parts.
        """
        if self.share is None:
            return None
        if self.mode.kind == "sequential":
            triples = product(
                self.source.settings, map(str, range(self.repeats)), self.editors.classes
            )
            return Partition.of(self.share, {PASSES: map(" ".join, triples)}, name=PASSES)
        ids = {
            setting: (case.id for case in self.source.cases(setting))
            for setting in self.source.settings
        }
        size = CHUNK if self._solves_ahead else self.mode.size or 1
        name = f"portions of {size} cases" if size > 1 else "cases"
        return Partition.of(self.share, ids, size, name)

    def is_finished(self, editor_pass: EditorPass) -> bool:
        """Return True if no unit of the pass is left, by the count of unfinished cases."""
        left = self.unfinished.get(editor_pass.setting)
        return (
            left is not None
            and self.checkpoints == NO_CHECKPOINTS
            and editor_pass.content_id not in left.passes
        )

    def find_unfinished(self, setting: str, finished: Collection[str]) -> UnfinishedCases:
        """Return the collector of a setting's unfinished cases; the caller adds all cases to it."""
        passes = [editor_pass for editor_pass in self.passes if editor_pass.setting == setting]
        left = self.unfinished[setting] = UnfinishedCases(passes, finished)
        return left

    @property
    def _has_groups_of_one(self) -> bool:
        """True if every case is its own group, and its questions do not depend on other cases."""
        return self.mode.kind == "single" and self.partition is None and not self._solves_ahead

    @property
    def _solves_ahead(self) -> bool:
        return self.mode.kind == "single" and any(
            isinstance(each.editor, BatchSolver) for each in self.passes
        )

    @cached_property
    def share_passes(self) -> tuple[EditorPass, ...]:
        """Passes to evaluate: all of them, except in a share of mode `sequential`."""
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
        """Reasons why editors do not work with the model, one sentence per reason."""
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
    def edits_weights(self) -> bool:
        """True if one of the editors changes weights."""
        return any(editor_pass.editor.needs_weights for editor_pass in self.passes)

    @property
    def units_at_once(self) -> int:
        """Number of units evaluated concurrently."""
        return units_at_once(self.concurrency, self.calls_providers)


def load_setup(
    config: RunConfig, folder: Path, model: BaseChatModel | None = None, require: Sequence[str] = ()
) -> RunSetup:
    """Parse the configuration and load everything that it names.

    A given `model` replaces the configured one. Errors of loading parts propagate.

    Raises:
        BadSettings: a name is unknown, in the thresholds too.
    """
    benchmark = check_config(config, require, model)
    plan, scoring, memory_spec = config.plan, config.scoring, config.memory_spec
    retriever = load_retriever(memory_spec.retriever)
    model_spec, benchmark_spec = config.model_spec, config.benchmark_spec
    classes = {name: EDITORS.load(name) for name in config.editors}
    edits_weights = any(getattr(editor, "needs_weights", False) for editor in classes.values())
    abilities = load_abilities(scoring.ability, edits_weights)
    settings = _checked_settings(config, benchmark)
    texts = load_texts(scoring.perplexity_text, benchmark, plan.seed)
    names = benchmark_spec.name, *config.editors, model_spec.name, *memory_spec.components
    encoder = _encoder_of(memory_spec, retriever, classes.values())
    tested, policy = model_and_policy(model_spec, config.limits, plan.concurrency, model)
    memory = run_memory(memory_spec, folder, lambda: _memory_identity(config, benchmark), encoder)
    tested_model = _TestedModel(tested, model_spec.form, edits_weights)
    source = _case_source(benchmark_spec, scoring, plan.seed, (benchmark, settings), tested_model)
    wording = joined_name(memory_spec.prompts, memory_spec.prompt_template or benchmark.wording)
    context = EditorContext(
        tested, memory, retriever, wording=wording, seed=plan.seed, policy=policy, folder=folder
    )
    return RunSetup(
        config=config,
        source=source,
        editors=EditorFactory(context, classes, config.overrides, source),
        mode=plan.mode or Mode.parse(benchmark.mode),
        checkpoints=plan.checkpoints,
        failure_limit=plan.failure_limit,
        share=plan.share,
        workers=plan.workers,
        objects=local_objects(names, model is not None),
        repeats=plan.repeats,
        concurrency=plan.concurrency,
        perplexity_texts=texts,
        abilities=abilities,
        model=tested,
        model_name=model_spec.name,
        policy=policy,
        memory=memory,
        encoder=encoder,
    )


def _checked_settings(config: RunConfig, benchmark: Benchmark) -> tuple[str, ...]:
    """Return the benchmark's settings to run, with scorers and instructions that apply to them."""
    spec = config.benchmark_spec
    settings = choose_settings(benchmark, spec.name, spec.settings)
    check_benchmark_scorers(benchmark, settings)
    _check_instructions(config.memory_spec.prompts, benchmark, settings, config.plan.seed)
    return settings


def _check_instructions(
    path: str, benchmark: Benchmark, settings: Sequence[str], seed: int
) -> None:
    """Check a file of instructions against the kinds of the benchmark's probes, with a warning of
    tables that are not used: a paper's file may have some for other options of the benchmark.

    Raises:
        BadData: the file cannot be used.
        BadSettings: none of its tables is used.
    """
    tables = load_instructions(path)
    kinds = {kind for metric in benchmark.metrics() for kind in metric.kinds}
    if not unused_tables(tables, kinds):
        return
    for setting in settings:  # metrics that are for all kinds of probe name none
        cases = benchmark.cases(setting, FIRST_CASES, seed)
        kinds |= {probe.kind for case in cases for probe in case.probes}
    unused = unused_tables(tables, kinds)
    if len(unused) == len(tables):
        raise BadSettings(
            f"--prompts '{path}': {benchmark.name} has no question of the kind '{unused[0]}': "
            f"{nearest(unused[0], [*kinds, ANY])}"
        )
    for name in unused:
        logging.getLogger(__name__).warning(
            f"--prompts '{path}', table [{name}] is not used: {benchmark.name} has no question "
            f"of that kind, but {', '.join(sorted(kinds))}."
        )


def model_and_policy(
    spec: ModelSpec, limits: Limits, concurrency: int, model: BaseChatModel | None
) -> tuple[BaseChatModel, CallPolicy]:
    """Return the model under test, the given one if any, and its call policy."""
    if model is None:
        model, policy = load_model_and_policy(spec, limits)
    else:
        policy = getattr(model, "policy", None) or CallPolicy()
    check_form(spec, model)
    policy.limit_calls(concurrency)
    return model, policy


def _encoder_of(spec: MemorySpec, retriever: Any, editors: Iterable[Any]) -> Embedding | None:
    """Return the encoder, and try the retriever; None if no editor reads the memory."""
    if not any(getattr(editor, "reads_memory", False) for editor in editors):
        return None
    encoder = load_embedding(spec.embedding, cache_folder("vectors"))
    _try_retriever(spec.retriever, retriever)
    return encoder


def _memory_identity(config: RunConfig, benchmark: Benchmark) -> tuple[Any, ...]:
    """Return all that decides a run's records, to derive its memory's name on a server."""
    fields = config.model_dump(mode="json", exclude={"share"})
    return decisive_fields({"config": fields}), benchmark.provenance


class _TestedModel(NamedTuple):
    """The model under test, with the configured form of its questions, if any."""

    model: BaseChatModel
    form: str | None
    edits_weights: bool


def _case_source(
    spec: BenchmarkSpec,
    scoring: ScoringSpec,
    seed: int,
    loaded: tuple[Benchmark, tuple[str, ...]],
    tested_model: _TestedModel,
) -> CaseSource:
    benchmark, settings = loaded
    return CaseSource(
        benchmark=benchmark,
        name=spec.name,
        settings=settings,
        limit=spec.limit,
        seed=seed,
        protocols=scoring.protocols,
        only_wrong_before=scoring.only_wrong_before,
        form=tested_model.form,
        model=tested_model.model,
        edits_weights=tested_model.edits_weights,
    )


def local_objects(names: Iterable[str], has_model: bool) -> tuple[str, ...]:
    """Return the names of components that no other process can load, including a given model."""
    local = [name for name in names if name.startswith(LOCAL_NAMES)]
    return ("the model", *local) if has_model else tuple(local)


def _try_retriever(name: str, retriever: Callable[[Corpus], Retriever]) -> None:
    """Make the retriever once, so that unsupported settings fail before anything is written."""
    entry = Entry(id="x", edit_id="x", text="The capital of Veldania is Ostrim.")
    with RETRIEVERS.plugin_errors(name):
        retriever(ExactCorpus.of([entry], LexicalEmbedding()))
