"""Search for an editor's settings, on facts that no run with the same seed and limit evaluates."""

import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import harmonic_mean
from typing import Any

from langchain_core.language_models import BaseChatModel

from emend.agents.llm import fingerprint, load_model
from emend.editors.hyperparameters import layers_at_depth, search_space, shipped_settings
from emend.editors.registry import EDITORS
from emend.evals.case import Benchmark, Case
from emend.evals.config.measure_config import TuneConfig
from emend.evals.config.overrides import MODEL
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.resources import load_benchmark
from emend.evals.evaluate.run import run
from emend.evals.log.lines import BROKEN_RATIO
from emend.evals.metrics.estimate import Estimate
from emend.evals.results.aggregate.rows import Report, report
from emend.memory.edit import FrozenModel, content_id
from emend.memory.errors import BadData, BadSettings, EmendError
from emend.memory.escape import one_line
from emend.memory.files import read_file, replace_file
from emend.memory.registry import name_object

# Name in a search space for the relative depth in the model of the last edited layer.
DEPTH = "depth"
# Kinds of probes that the score is computed from.
KINDS = ("efficacy", "paraphrase", "neighborhood")
# All settings are tried on 1 / FIRST_SHARE of the facts; the best 1 / KEPT_SHARE of them on all.
FIRST_SHARE, KEPT_SHARE = 3, 3
# Minimum number of facts that settings are tried on.
FEWEST = 4

Notify = Callable[["Trial", int, int], None]


class MetricName(FrozenModel):
    """Name of the metric of an estimate."""

    metric: str


class Metrics(Estimate, MetricName):
    """The mean of a metric with its 95% interval, in the metric's unit."""


class Trial(FrozenModel):
    """An editor's settings with their results on some facts."""

    key: str
    settings: dict[str, Any]
    """Changes to the shipped settings; empty for the defaults."""
    facts: int
    score: float | None = None
    """Score in percent; None if the settings cannot be used."""
    metrics: tuple[Metrics, ...] = ()
    perplexity: float | None = None
    """Perplexity divided by that of the unedited model."""
    problem: str = ""


class TuneReport(FrozenModel):
    """Result of a search: the best settings, all trials, and the comparison with the defaults.

    `default` and `tuned` are measured on facts that the search did not use.
    """

    editor: str
    settings: dict[str, Any]
    trials: tuple[Trial, ...]
    default: Trial
    tuned: Trial


class ChosenCases:
    """A benchmark reduced to some of its cases, with only the probes that the score needs."""

    def __init__(self, benchmark: Benchmark, cases: Sequence[Case]) -> None:
        self._benchmark = benchmark
        self._cases: list[Case] = []
        for case in cases:
            probes = tuple(probe for probe in case.probes if probe.kind in KINDS)
            self._cases.append(case.model_copy(update={"probes": probes}))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._benchmark, name)

    def cases(self, setting: str, limit: int | None = None, seed: int = 0) -> Iterator[Case]:
        """Yield the chosen cases."""
        yield from self._cases


def tune(
    config: TuneConfig, editor: str, journal: Path, notify: Notify = lambda *_: None
) -> TuneReport:
    """Search settings among the defaults and random draws, by two rounds of successive halving.

    Finished trials are appended to the journal; after an interruption the same call continues from
    it.

    Raises:
        BadSettings: the editor has no settings to search, or the benchmark has too few cases.
        EmendError: the defaults cannot be used; says what is missing.
    """
    if not search_space(editor):
        searched = [name for name in EDITORS.names() if search_space(name)]
        raise BadSettings(
            f"editor '{editor}' has no settings to search: name one of {', '.join(searched)}."
        )
    benchmark, (setting, *_) = load_benchmark(
        config.benchmark, config.data, config.benchmark_options
    )
    training, test = divide_cases(benchmark, setting, config)
    model = load_model(config.model, **config.overrides.get(MODEL, {}))
    search = _Search(config, editor, benchmark, model, journal, notify)
    architecture = model.lm.model.config  # type: ignore[attr-defined]
    drawn = draw_settings(editor, architecture, config.trials, config.seed)
    first = training[: max(FEWEST, len(training) // FIRST_SHARE)]
    if (start := search.trial({}, first, 0, len(drawn))).problem:
        raise BadSettings(
            f"editor '{editor}' cannot be tried with its defaults: {one_line(start.problem)}"
        )
    quick = [start, *search.trials(drawn[1:], first)]
    best = sorted(quick, key=_rank, reverse=True)[: max(2, len(quick) // KEPT_SHARE)]
    full = list(
        search.trials([{}, *(trial.settings for trial in best if trial.settings)], training)
    )
    chosen = max(full or quick, key=_rank).settings
    default = search.trial({}, test)
    if chosen:
        tuned = search.trial(chosen, test)
    else:
        tuned = default
    return TuneReport(
        editor=editor, settings=chosen, trials=(*quick, *full), default=default, tuned=tuned
    )


def divide_cases(
    benchmark: Benchmark, setting: str, config: TuneConfig
) -> tuple[list[Case], list[Case]]:
    """Divide cases into those to search on and those of the test.

    The test has the cases that a run with the same limit and seed evaluates. The others are drawn
    from the remaining cases in the order of a hash of seed and id.

    Raises:
        BadSettings: there are too few cases to search on.
    """
    test = [case for case in benchmark.cases(setting, config.limit, config.seed) if case.probes]
    tested = {edit.subject or edit.id for case in test for edit in case.edits}
    others = [case for case in benchmark.cases(setting, None, config.seed) if case.probes]
    free = []
    for case in others:
        edited = {edit.subject or edit.id for edit in case.edits}
        if tested.isdisjoint(edited):
            free.append(case)
    if len(free) < FEWEST:
        raise BadSettings(
            f"benchmark '{config.benchmark}' has {len(free)} cases besides the {len(test)} of the "
            f"test, but the search needs at least {FEWEST}: give a smaller --limit, or more data."
        )
    order = sorted(free, key=lambda case: content_id("tune", config.seed, case.id))
    return order[: config.train], test


def draw_settings(editor: str, architecture: Any, number: int, seed: int) -> list[dict[str, Any]]:
    """Return `number` different settings, the defaults first.

    `depth` in the search space is converted to layers of this model.
    """
    space, shipped = search_space(editor), shipped_settings(editor, architecture)
    layers = architecture.get_text_config().num_hidden_layers
    if DEPTH in space:
        count = max(1, len(shipped["layers"]))
        space["layers"] = [layers_at_depth(share, count, layers) for share in space.pop(DEPTH)]
    grid = [dict(zip(space, values, strict=True)) for values in product(*space.values())]
    random.Random(content_id("settings", seed, editor)).shuffle(grid)
    return [{}, *grid[: number - 1]]


def score_of(measured: Report, editor: str) -> float | None:
    """Return the score in percent, the harmonic mean of four shares.

    The first three are the shares of right probes of each kind: ES, PS and NS on CounterFact, whose
    harmonic mean is the S of Meng et al. (2022). The fourth is EM, the margin in probability of the
    new object, since S does not fall for edits that the model hardly believes. Settings that break
    the model score 0, see `BROKEN_RATIO`.
    """
    means = [row.mean / scale for row, scale in _parts(measured, editor) if row.mean is not None]
    ratio = _perplexity_ratio(measured, editor)
    if not means:
        return None
    if (ratio is not None and ratio > BROKEN_RATIO) or min(means) <= 0:
        return 0.0
    return 100 * float(harmonic_mean(means))


def _parts(measured: Report, editor: str) -> Iterator[tuple[Any, float]]:
    """Yield the rows of the score, each with the divisor that makes its mean a share."""
    rows = {row.metric: row for row in measured.rows if row.editor == editor}
    for kind, share in (*((kind, True) for kind in KINDS), (KINDS[0], False)):
        fitting = (
            each for each in measured.metrics if each.kinds == (kind,) and each.share == share
        )
        metric = next(
            (each for each in fitting if each.name in rows and each.higher_is_better), None
        )
        if metric is not None:
            yield rows[metric.name], metric.scale


def _perplexity_ratio(measured: Report, editor: str) -> float | None:
    """Return perplexity under edits divided by that before; None if unmeasured.

    The ratio is infinite if the perplexity is not finite.
    """
    return next((row.ratio for row in measured.perplexity if row.editor == editor), None)


def _rank(trial: Trial) -> float:
    if trial.score is None:
        return -1.0
    return trial.score


class _Search:
    """Measurement of settings by runs, each of them once; results are kept in a journal."""

    def __init__(
        self,
        config: TuneConfig,
        editor: str,
        benchmark: Benchmark,
        model: BaseChatModel,
        journal: Path,
        notify: Notify,
    ) -> None:
        self.config, self.editor, self.benchmark, self.model = config, editor, benchmark, model
        self.journal, self.notify = journal, notify
        self.ends = None if config.budget is None else time.monotonic() + 60 * config.budget
        self.finished = {trial.key: trial for trial in read_journal(journal)}
        whole = "".join(f"{trial.model_dump_json()}\n" for trial in self.finished.values())
        # Drop a torn last line, so that the next trial is not appended to it.
        replace_file(journal, whole.encode())
        self._of_model = fingerprint(model, config.model)

    def trials(self, several: Sequence[dict[str, Any]], cases: Sequence[Case]) -> Iterator[Trial]:
        """Yield the trials of several settings until the time budget is spent."""
        for number, settings in enumerate(several, 1):
            if self.ends is not None and time.monotonic() > self.ends:
                return
            yield self.trial(settings, cases, number, len(several))

    def trial(
        self, settings: dict[str, Any], cases: Sequence[Case], number: int = 0, of: int = 0
    ) -> Trial:
        """Measure settings on cases, or return the trial in the journal."""
        fixed = self.config.overrides
        key = content_id(
            "trial", self._of_model, self.editor, fixed, settings, [case.id for case in cases]
        )
        trial = self.finished.get(key)
        if trial is None:
            trial = self.finished[key] = self._measure(key, settings, cases)
            with self.journal.open("a", encoding="utf-8") as file:
                file.write(trial.model_dump_json() + "\n")
        self.notify(trial, number, of)
        return trial

    def _measure(self, key: str, settings: dict[str, Any], cases: Sequence[Case]) -> Trial:
        part = ChosenCases(self.benchmark, cases)
        overrides = {self.editor: self.config.overrides.get(self.editor, {}) | settings}
        config = RunConfig(
            benchmark=name_object("tuning", lambda *_, **__: part),
            editors=(self.editor,),
            model=self.config.model,
            overrides=overrides,
            seed=self.config.seed,
            concurrency=1,
            workers="threads",
        )
        trial = Trial(key=key, settings=settings, facts=len(cases))
        with tempfile.TemporaryDirectory(prefix="emend-tune-") as folder:
            try:
                run(config, Path(folder) / "run", model=self.model)
            except EmendError as error:
                return trial.model_copy(update={"problem": str(error)})
            measured = report(Path(folder) / "run")
        rows = [
            row.model_dump(include=set(Metrics.model_fields))
            for row, _ in _parts(measured, self.editor)
        ]
        return trial.model_copy(
            update={
                "score": score_of(measured, self.editor),
                "metrics": tuple(map(Metrics.model_validate, rows)),
                "perplexity": _perplexity_ratio(measured, self.editor),
            }
        )


def read_journal(file: Path) -> list[Trial]:
    """Return the finished trials of a journal, without a torn last line.

    Raises:
        BadData: another line is not a trial, or the journal is a FIFO, a device or a folder.
    """
    if not file.exists():
        return []
    try:
        lines = read_file(file, links=True).decode().split("\n")
        return [Trial.model_validate_json(line) for line in lines[:-1] if line]
    except ValueError as error:
        raise BadData(
            f"'{file}' is not a journal of `emend prepare tune`: remove it, or give another --out."
        ) from error


def settings_file(config: TuneConfig, tuned: TuneReport) -> str:
    """Return the text of a settings file for `--set EDITOR=@FILE`, with its origin in comments."""
    origin = (
        f"# Settings of {tuned.editor}, searched with `emend prepare tune` on {config.benchmark}, "
        f"seed {config.seed}, for\n# {config.model}. Score on {tuned.tuned.facts} other facts: "
        f"{_percent(tuned.tuned)}, with the defaults {_percent(tuned.default)}.\n"
    )
    values: Mapping[str, Any] = config.overrides.get(tuned.editor, {}) | tuned.settings
    return origin + "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())


def _percent(trial: Trial) -> str:
    if trial.score is None:
        return "none"
    return f"{trial.score:.1f}"
