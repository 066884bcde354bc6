"""Runs of a recipe one after another, each resumed where it stopped, and their estimate before anything is run."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emend.agents.llm import is_local_spec, load_model
from emend.agents.providers.usage import ProviderUsage
from emend.evals.config.run_config import MODEL, RunConfig
from emend.evals.config.task_config import BenchmarkConfig, ExtractionConfig
from emend.evals.data.benchmarks.registry import BENCHMARKS
from emend.evals.data.benchmarks.triples import OPTION
from emend.evals.judging.panel import Panel
from emend.evals.judging.score_run import score_run
from emend.evals.log.lines import COSTS
from emend.evals.log.manifest import MANIFEST, Manifest, changed_fields
from emend.evals.log.records import read_lines
from emend.evals.measure.extraction import extract_documents
from emend.evals.results.aggregate.runs import list_runs
from emend.evals.results.dry_run import COUNTS, DryRun, dry_run, parameters_of, priced
from emend.evals.results.papers.tables import gigabytes_needed
from emend.evals.results.reproduce.recipe import Recipe, RecipeRun, lacking, plan_recipe
from emend.evals.run.resources import LIMITS
from emend.evals.run.results import Progress
from emend.evals.run.run import run
from emend.memory.edit import FrozenModel
from emend.memory.embeddings.embed import load_embedding
from emend.memory.errors import BudgetReached, EmendError, MissingData
from emend.memory.paths import cache_folder
from emend.memory.redaction import hide_keys

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


SHARED_WORKERS = ("auto", "threads")
"""Workers that can use a model which is loaded already."""


class RunOutcome(FrozenModel):
    """How a run of a recipe ended; `error` says why it is not finished, or not judged."""

    folder: str
    units: int = 0
    finished: int = 0
    error: str = ""

    @property
    def is_finished(self) -> bool:
        """True if no unit is left."""
        return 0 < self.units == self.finished


def outcome_of(folder: Path, error: str = "") -> RunOutcome:
    """How far the run in a folder is; it may not have started."""
    with suppress(MissingData):  # no run yet, or a manifest that the run itself will complain of
        row = list_runs(folder)[0]
        return RunOutcome(folder=str(folder), units=row.units, finished=row.finished, error=error)
    return RunOutcome(folder=str(folder), error=error)


def with_runs_of(folder: Path, recipe: Recipe, also_begun: bool = False) -> Recipe:
    """The recipe with finished runs of a folder in the place of those that are a part of them, as after `--only`.

    Of a run in the folder its editors and their settings are taken. They are read and never run, for the folder may be
    a stranger's: how runs are carried out (`RESUMABLE_FIELDS`) is always the recipe's.

    Args:
        folder: folder of run folders.
        recipe: of a published table.
        also_begun: True for runs that are not finished, too.
    """
    there = [config for path in sorted(folder.glob(f"*/{MANIFEST}")) for config in _config_of(path.parent, also_begun)]
    runs: dict[str, RecipeRun] = {}
    for planned in recipe.runs:
        parts = (config for config in there if _is_part(planned.config, config))
        held = next((config for config in parts if not _contradicts(config, recipe)), planned.config)
        fields = {name: getattr(held, name) for name in ("editors", "settings", "overrides")}
        each = RecipeRun(config=planned.config.model_copy(update=fields), judged_by=planned.judged_by)
        before = runs.get(each.name, each)
        runs[each.name] = each.model_copy(
            update={"judged_by": tuple(dict.fromkeys((*before.judged_by, *each.judged_by)))}
        )
    return recipe.model_copy(update={"runs": tuple(runs.values())})


def _config_of(folder: Path, also_begun: bool) -> list[RunConfig]:
    """The configuration of the run in a folder that has its name; none of a damaged one, of which its run complains."""
    with suppress(EmendError):
        config = Manifest.read(folder).config
        if RecipeRun(config=config).name == folder.name and (also_begun or outcome_of(folder).is_finished):
            return [config]
    return []


def _is_part(config: RunConfig, other: RunConfig) -> bool:
    """Return whether a run asks what another one asks too: the same of some of its editors and settings."""
    if not ({*config.editors} <= {*other.editors} and {*config.settings} <= {*other.settings} and config.settings):
        return False
    overrides = {name: values for name, values in other.overrides.items() if name in (*config.editors, MODEL)}
    part = {"editors": config.editors, "settings": config.settings, "overrides": overrides}
    return RecipeRun(config=other.model_copy(update=part)).name == RecipeRun(config=config).name


def _contradicts(config: RunConfig, recipe: Recipe) -> bool:
    """Return whether a run has an editor with settings that no run of the recipe has for it, though one has the editor.

    The table would show that editor's figures in the place of those that are planned.
    """
    for editor in config.editors:
        planned = [run.config.overrides.get(editor, {}) for run in recipe.runs if editor in run.config.editors]
        if planned and config.overrides.get(editor, {}) not in planned:
            return True
    return False


class RecipeRunner:
    """Runs a recipe into a folder with one folder for each run.

    Args:
        recipe: what to run.
        out: folder of the run folders.
        progress: makes what shows the progress of a run.
        say: prints a line.
        guard: context in which each run is made, for interruptions.
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
        """Run what is not finished; what an error ends is tried again by the next call.

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
                    self.say(f"  this call's values hold: {changed}")
                if outcome_of(folder).is_finished:
                    self.say("  finished before")
                else:
                    self._run(each.config, folder)
                self._judge(each, folder)
            except BudgetReached:
                raise
            except Exception as error:  # noqa: BLE001, the other runs go on
                text = " ".join(hide_keys(f"{type(error).__name__}: {error}").split())
                self.say(f"  failed: {text}")
                self._close()  # what an error leaves of a model is no other run's
                return outcome_of(folder, text)
        return outcome_of(folder)

    def _run(self, config: RunConfig, folder: Path) -> None:
        others = [self.out / each.name for each in self.recipe.runs if each.config.model == config.model]
        others.remove(folder)
        self._extract(config)
        paid = _usage(folder)
        try:
            run(self._within_budget(config), folder, self._progress(), self._shared_model(config), baselines=others)
        finally:  # also what a run has spent that an error ended
            self._count(_usage(folder))
            self._count(paid, -1)

    def _extract(self, config: RunConfig) -> None:
        """Make the file of triplets that a run reads, or what its documents lack in it."""
        file = config.benchmark_options.get(OPTION, "")
        if file not in self.recipe.extract:
            return
        fields = {name: getattr(config, name) for name in (*BenchmarkConfig.model_fields, "embedding", "concurrency")}
        fields["benchmark_options"] = {key: value for key, value in config.benchmark_options.items() if key != OPTION}
        extraction = ExtractionConfig.model_validate(fields | self.recipe.extract[file])
        embedding = load_embedding(extraction.embedding, cache_folder("vectors"))
        with closing(self._within_budget(config).policy()) as policy:
            try:
                _, rows = extract_documents(extraction, policy, embedding, Path(file), self._progress())
            finally:
                self._count(policy.ledger.by_model().values())
        self.say(
            f"  triplets of {len(rows.rows):,} documents are in {file}; {rows.skipped:,} of these were there before"
        )

    def _count(self, usages: Iterable[ProviderUsage], sign: int = 1) -> None:
        for usage in usages:
            self._spent += sign * (usage.cost or 0.0)
            self._calls += sign * usage.requests

    def _within_budget(self, config: RunConfig) -> RunConfig:
        """The configuration with what is left of the cost and the calls that all runs together may take."""
        left: dict[str, Any] = {}
        if config.max_cost is not None:
            left["max_cost"] = max(0.0, config.max_cost - self._spent)
        if config.max_calls is not None:
            left["max_calls"] = max(0, config.max_calls - self._calls)
        return config.model_copy(update=left)

    def _shared_model(self, config: RunConfig) -> "BaseChatModel | None":
        """The local model of a run, loaded once for runs that follow each other; None where the run loads its own."""
        if not is_local_spec(config.model) or config.workers not in SHARED_WORKERS:
            return None
        if not self.recipe.judges and any(getattr(config, name) is not None for name in LIMITS):
            return None  # the limits are those of models that editors load
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
            summary = score_run(folder, panel, each.judged_by, models=models, concurrency=each.config.concurrency)
            self._count(policy.ledger.by_model().values())
        self.say(f"  judged: {summary.judged} new judgements, {summary.before} from before")


def _usage(folder: Path) -> list[ProviderUsage]:
    """Usage of models behind an API that the run in a folder has had."""
    return [*Manifest.read(folder).spent.values()] if (folder / MANIFEST).exists() else []


def title(config: RunConfig) -> str:
    """A run in one line: what tells it from the others."""
    options = [f"{key} {value}" for key, value in config.benchmark_options.items()]
    settings = [f"{part}.{key}={value}" for part, values in config.overrides.items() for key, value in values.items()]
    parts = [config.model, *options, config.mode or "", "+".join(config.settings), *settings]
    if config.retriever != RunConfig.model_fields["retriever"].default:
        parts.append(config.retriever)
    return f"{', '.join(filter(None, parts))}: {', '.join(config.editors)}"


GOLD = "gold"


class RunEstimate(FrozenModel):
    """Needs of what is `left` of a run, in units; `error` says why it cannot be run.

    `seconds` are those of the whole run, as foreseen; `took` are the seconds that its `measured` units have taken.
    """

    config: RunConfig
    units: int = 0
    left: int = 0
    need: DryRun | None = None
    seconds: float | None = None
    took: float = 0.0
    measured: int = 0
    gigabytes: float | None = None
    error: str = ""


class RecipeEstimate(FrozenModel):
    """Needs of the runs of a recipe."""

    runs: tuple[RunEstimate, ...]
    extract: dict[str, dict[str, Any]] = {}
    """The recipe's files of triplets that are made."""
    left_out: dict[str, int] = {}
    """Number of the table's figures that no run gives, by the reason."""

    @property
    def is_paid(self) -> bool:
        """True if what is left calls a provider."""
        models = [each.config.model for each in self.runs if each.left]
        models += [str(self.extract[file].get(MODEL) or "tiny") for file in self.documents]
        return not all(map(is_local_spec, models))

    @property
    def documents(self) -> dict[str, int]:
        """Number of documents, at most, by the file of triplets that runs which are left need."""
        needed: dict[str, int] = {}
        for each in self.runs:
            if each.left and _file(each.config) in self.extract:
                count = each.units // len(each.config.editors)
                needed[_file(each.config)] = max(count, needed.get(_file(each.config), 0))
        return needed

    @property
    def seconds(self) -> float | None:
        """Time of what is left, at the pace of what was run before where there is any; None where it is unknown."""
        parts = [_seconds(each, self.runs) for each in self.runs if each.left]
        known = [part for part in parts if part is not None]
        return sum(known) if len(known) == len(parts) else None


def estimate(recipe: Recipe, outcomes: Sequence[RunOutcome]) -> RecipeEstimate:
    """Estimate what is left of a recipe; runs that differ in the model alone are estimated once."""
    needs: dict[str, DryRun | str] = {}
    is_done = all(outcome.is_finished for outcome in outcomes)
    runs = []
    for config, outcome in zip((each.config for each in recipe.runs), outcomes, strict=True):
        key = repr((config.model_copy(update={MODEL: ""}), config.model.partition(":")[0]))
        if key not in needs and not is_done:
            needs[key] = _need(_before_extraction(config) if _file(config) in recipe.extract else config)
        runs.append(_run_estimate(config, outcome, needs.get(key, "")))
    planned = plan_recipe(recipe)[1] if recipe.table else ()
    reasons = Counter(reason for each in planned if not each.parts and (reason := lacking(each, recipe)))
    return RecipeEstimate(runs=tuple(runs), extract=recipe.extract, left_out=dict(reasons.most_common()))


def _file(config: RunConfig) -> str:
    """Return the file of triplets that a run reads; empty for none."""
    return config.benchmark_options.get(OPTION, "")


def _before_extraction(config: RunConfig) -> RunConfig:
    """A run of as many cases, with the gold triplets where there are any, in the place of one with extracted ones."""
    options = {key: value for key, value in config.benchmark_options.items() if key != OPTION}
    benchmark: Any = BENCHMARKS.load(config.benchmark)
    setting = GOLD if GOLD in benchmark.settings else benchmark.settings[0]
    return config.model_copy(update={"settings": (setting,), "benchmark_options": options})


def _need(config: RunConfig) -> DryRun | str:
    try:
        return dry_run(config)
    except EmendError as error:
        return " ".join(str(error).split())


def _run_estimate(config: RunConfig, outcome: RunOutcome, need: DryRun | str) -> RunEstimate:
    parameters = parameters_of(config.model) if is_local_spec(config.model) else None
    units = outcome.units or (0 if isinstance(need, str) else need.total("units"))
    left = units - outcome.finished
    known = RunEstimate(config=config, units=units, left=left, gigabytes=_gigabytes(config, parameters))
    if isinstance(need, str):
        return known.model_copy(update={"error": "" if outcome.is_finished else need})
    lines = read_lines(Path(outcome.folder), COSTS) if outcome.units else []
    ended = [line for line in lines if line.get("act") == "run"]
    seconds = priced(config, need.rows).seconds
    update = {"took": sum(line["seconds"] for line in ended), "measured": sum(line["finished"] for line in ended)}
    return known.model_copy(update=update | {"seconds": seconds, "need": _part(config, need, left / max(1, units))})


def _part(config: RunConfig, need: DryRun, part: float) -> DryRun:
    """Needs of a part of a run."""
    counts = ({name: round(getattr(row, name) * part) for name in COUNTS} for row in need.rows)
    return priced(config, tuple(row.model_copy(update=each) for row, each in zip(need.rows, counts, strict=True)))


def _gigabytes(config: RunConfig, parameters: float | None) -> float | None:
    """Memory of the GPU that a run takes; None where unknown."""
    if not parameters or not config.model.startswith("hf:"):
        return None
    settings = {editor: config.overrides.get(editor, {}) for editor in config.editors}
    return max(gigabytes_needed(parameters / 1e9, *each) for each in settings.items())


def _seconds(run: RunEstimate, runs: Sequence[RunEstimate]) -> float | None:
    """Time of what is left of a run: as foreseen, times what the runs most like it took of what was foreseen."""
    if run.seconds is None or not run.units:
        return None
    same_model = [each for each in runs if each.config.model == run.config.model]
    same_editors = [each for each in same_model if each.config.editors == run.config.editors]
    for like in ([run], same_editors, same_model):
        foreseen = sum((each.seconds or 0.0) * each.measured / each.units for each in like if each.measured)
        if foreseen:
            return run.left / run.units * run.seconds * sum(each.took for each in like) / foreseen
    return run.left / run.units * run.seconds
