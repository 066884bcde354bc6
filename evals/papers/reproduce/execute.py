"""Execution of a recipe's runs one after another, each resumed where it stopped."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emend.agents.llm import is_local_spec, load_model
from emend.agents.providers.usage import ProviderUsage
from emend.evals.config.limits import PROVIDER_OPTIONS
from emend.evals.config.measure_config import BenchmarkConfig, ExtractionConfig
from emend.evals.config.overrides import MODEL
from emend.evals.config.run_config import RunConfig
from emend.evals.data.benchmarks.triples import OPTION
from emend.evals.evaluate.run import run
from emend.evals.jobs.progress import Progress
from emend.evals.judging.panel import Panel
from emend.evals.judging.score_run import score_run
from emend.evals.judging.scorings.manifest import JudgeCalling
from emend.evals.log.manifest import MANIFEST, Manifest, changed_fields
from emend.evals.measure.extraction import extract_documents
from emend.evals.metrics.equivalence.scorer import load_equivalence
from emend.evals.papers.reproduce.recipe import Recipe, RecipeRun
from emend.evals.results.aggregate.runs import list_runs
from emend.memory.edit import FrozenModel
from emend.memory.embeddings.embed import load_embedding
from emend.memory.errors import BudgetReached, EmendError, MissingData
from emend.memory.paths import cache_folder
from emend.memory.redaction import hide_keys

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


# Values of `workers` that can use an already loaded model.
SHARED_WORKERS = ("auto", "threads")


class RunOutcome(FrozenModel):
    """Outcome of a recipe's run; `error` says why it is not finished or not judged."""

    folder: str
    units: int = 0
    finished: int = 0
    error: str = ""

    @property
    def is_finished(self) -> bool:
        """True if every unit is finished."""
        return 0 < self.units == self.finished


def outcome_of(folder: Path, error: str = "") -> RunOutcome:
    """Return the progress of the run in a folder, which may not have started yet."""
    with suppress(MissingData):  # no run yet, or a damaged manifest that the run itself reports
        row = list_runs(folder)[0]
        return RunOutcome(folder=str(folder), units=row.units, finished=row.finished, error=error)
    return RunOutcome(folder=str(folder), error=error)


def with_runs_of(folder: Path, recipe: Recipe, also_begun: bool = False) -> Recipe:
    """Return the recipe with runs replaced by larger finished ones in a folder.

    A call with `--only` plans a part of an earlier, larger run. Only editors, settings and
    overrides are taken from the folder, since its files may come from a stranger; execution options
    (`RESUMABLE_FIELDS`) are always the recipe's.

    Args:
        folder: folder of run folders.
        recipe: recipe of a published table.
        also_begun: also use runs that are not finished.
    """
    there = [
        config
        for path in sorted(folder.glob(f"*/{MANIFEST}"))
        for config in _config_of(path.parent, also_begun)
    ]
    runs: dict[str, RecipeRun] = {}
    for planned in recipe.runs:
        parts = (config for config in there if _is_part(planned.config, config))
        held = next(
            (config for config in parts if not _contradicts(config, recipe)), planned.config
        )
        fields = {name: getattr(held, name) for name in ("editors", "settings", "overrides")}
        each = RecipeRun(
            config=planned.config.model_copy(update=fields), judged_by=planned.judged_by
        )
        before = runs.get(each.name, each)
        runs[each.name] = each.model_copy(
            update={"judged_by": tuple(dict.fromkeys((*before.judged_by, *each.judged_by)))}
        )
    return recipe.model_copy(update={"runs": tuple(runs.values())})


def _config_of(folder: Path, also_begun: bool) -> list[RunConfig]:
    """Return the configuration of the run in a folder, if its name fits; empty for a damaged run.

    The run itself reports the damage.
    """
    with suppress(EmendError):
        config = Manifest.read(folder).config
        if RecipeRun(config=config).name == folder.name and (
            also_begun or outcome_of(folder).is_finished
        ):
            return [config]
    return []


def _is_part(config: RunConfig, other: RunConfig) -> bool:
    """Return True if another run has the run's editors and settings, and is otherwise equal."""
    if not (
        {*config.editors} <= {*other.editors}
        and {*config.settings} <= {*other.settings}
        and config.settings
    ):
        return False
    overrides = {
        name: values for name, values in other.overrides.items() if name in (*config.editors, MODEL)
    }
    part = {"editors": config.editors, "settings": config.settings, "overrides": overrides}
    return RecipeRun(config=other.model_copy(update=part)).name == RecipeRun(config=config).name


def _contradicts(config: RunConfig, recipe: Recipe) -> bool:
    """Return True if a run has an editor with overrides that no run of the recipe plans for it.

    The table would otherwise show that editor's figures instead of the planned ones.
    """
    for editor in config.editors:
        planned = [
            run.config.overrides.get(editor, {})
            for run in recipe.runs
            if editor in run.config.editors
        ]
        if planned and config.overrides.get(editor, {}) not in planned:
            return True
    return False


class RecipeRunner:
    """Runs a recipe in a folder with one subfolder per run.

    Args:
        recipe: recipe to run.
        out: folder of the run folders.
        progress: makes the progress display of a run.
        say: prints a line.
        guard: context manager around each run, which handles interruptions.
    """

    def __init__(
        self,
        recipe: Recipe,
        out: Path,
        progress: Callable[[], Progress],
        say: Callable[[str], None],
        guard: Callable[[Path], AbstractContextManager[None]],
    ) -> None:
        self.recipe, self.out, self.say = recipe, out, say
        self._progress, self._guard = progress, guard
        self._model: BaseChatModel | None = None
        self._loaded = ""
        self._spent = 0.0
        self._calls = 0

    def run(self) -> list[RunOutcome]:
        """Run everything that is not finished; runs that failed are tried again by the next call.

        Raises:
            BudgetReached: the budget of all runs together is spent.
        """
        try:
            return [self._outcome(number, each) for number, each in enumerate(self.recipe.runs, 1)]
        finally:
            self._close()

    def _outcome(self, number: int, each: RecipeRun) -> RunOutcome:
        folder = self.out / each.name
        self.say(f"run {number} of {len(self.recipe.runs)}: {title(each.config)}")
        with self._guard(folder):
            try:
                if changed := changed_fields(each.config, folder):
                    self.say(f"  values of this command are used: {changed}")
                if outcome_of(folder).is_finished:
                    self.say("  already finished")
                else:
                    self._run(each.config, folder)
                self._judge(each, folder)
            except BudgetReached:
                raise
            except Exception as error:  # noqa: BLE001, the other runs go on
                text = " ".join(hide_keys(f"{type(error).__name__}: {error}").split())
                self.say(f"  failed: {text}")
                self._close()  # the model may be unusable after the error
                return outcome_of(folder, text)
        return outcome_of(folder)

    def _run(self, config: RunConfig, folder: Path) -> None:
        others = [
            self.out / each.name for each in self.recipe.runs if each.config.model == config.model
        ]
        others.remove(folder)
        self._extract(config)
        paid = _usage(folder)
        try:
            run(
                self._within_budget(config),
                folder,
                self._progress(),
                self._shared_model(config),
                baselines=others,
            )
        finally:  # the cost of a failed run counts too
            self._count(_usage(folder))
            self._count(paid, -1)

    def _extract(self, config: RunConfig) -> None:
        """Extract the triplets that a run reads, as far as its file lacks them."""
        file = config.benchmark_options.get(OPTION, "")
        if file not in self.recipe.extract:
            return
        fields = {
            name: getattr(config, name)
            for name in (*BenchmarkConfig.model_fields, "embedding", "concurrency")
        }
        fields["benchmark_options"] = {
            key: value for key, value in config.benchmark_options.items() if key != OPTION
        }
        extraction = ExtractionConfig.model_validate(fields | self.recipe.extract[file])
        embedding = load_embedding(extraction.embedding, cache_folder("vectors"))
        with closing(self._within_budget(config).policy()) as policy:
            try:
                _, rows = extract_documents(
                    extraction, policy, embedding, Path(file), self._progress()
                )
            finally:
                self._count(policy.ledger.by_model().values())
        self.say(
            f"  triplets of {len(rows.rows):,} documents are in {file}; {rows.skipped:,} of these "
            "existed before"
        )

    def _count(self, usages: Iterable[ProviderUsage], sign: int = 1) -> None:
        for usage in usages:
            self._spent += sign * (usage.cost or 0.0)
            self._calls += sign * usage.requests

    def _within_budget(self, config: RunConfig) -> RunConfig:
        """Return the configuration with the remaining part of the budget that all runs share."""
        left: dict[str, Any] = {}
        if config.max_cost is not None:
            left["max_cost"] = max(0.0, config.max_cost - self._spent)
        if config.max_calls is not None:
            left["max_calls"] = max(0, config.max_calls - self._calls)
        return config.model_copy(update=left)

    def _shared_model(self, config: RunConfig) -> "BaseChatModel | None":
        """Return the local model shared by successive runs; None if the run loads its own."""
        if not is_local_spec(config.model) or config.workers not in SHARED_WORKERS:
            return None
        if not self.recipe.judges and any(
            getattr(config, name) is not None for name in PROVIDER_OPTIONS
        ):
            return None  # the limits then concern models that editors load
        settings = config.overrides.get(MODEL, {})
        if self._loaded != (key := repr((config.model, settings))):
            self._close()
            self._model, self._loaded = load_model(config.model, **settings), key
        return self._model

    def _close(self) -> None:
        if self._model is not None:
            self._model.close()  # type: ignore[attr-defined]
        self._model, self._loaded = None, ""

    def _judge(self, each: RecipeRun, folder: Path) -> None:
        if not self.recipe.judges or not each.judged_by:
            return
        panel = Panel(judges=self.recipe.judges)
        with closing(self._within_budget(each.config).policy()) as policy:
            models = panel.models(policy, {})
            scorer = load_equivalence().probability
            summary = score_run(
                folder,
                panel,
                each.judged_by,
                models=models,
                calling=JudgeCalling(concurrency=each.config.concurrency),
                policy=policy,
                scorer=scorer,
            )
            self._count(policy.ledger.by_model().values())
        self.say(f"  judged: {summary.judged} new judgements, {summary.before} from before")


def _usage(folder: Path) -> list[ProviderUsage]:
    """Return the usage of API models so far by the run in a folder."""
    if (folder / MANIFEST).exists():
        return [*Manifest.read(folder).spent.values()]
    return []


def title(config: RunConfig) -> str:
    """Return a one-line description of a run that distinguishes it from the others."""
    options = [f"{key} {value}" for key, value in config.benchmark_options.items()]
    settings = [
        f"{part}.{key}={value}"
        for part, values in config.overrides.items()
        for key, value in values.items()
    ]
    parts = [config.model, *options, config.mode or "", "+".join(config.settings), *settings]
    if config.retriever != RunConfig.model_fields["retriever"].default:
        parts.append(config.retriever)
    return f"{', '.join(filter(None, parts))}: {', '.join(config.editors)}"
