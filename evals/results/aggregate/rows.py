"""From a run's records to the rows of its report, holding only the scored numbers in memory."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from emend.evals.case import Metric
from emend.evals.log.lines import ERRORS
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import read_lines
from emend.evals.results.aggregate.ability import AbilityRow, abilities_of
from emend.evals.results.aggregate.columns import MetricRow as MetricRow
from emend.evals.results.aggregate.columns import RecordTable, metric_row, order_by
from emend.evals.results.aggregate.costs import PER_PROBE, RunCost, costs_of, spent_of
from emend.evals.results.aggregate.edit_checks import EditCheckRow, broken_places, edit_checks_of, side_effect_notes
from emend.evals.results.aggregate.gaps import ProtocolGap, gaps_of
from emend.evals.results.aggregate.gather import gather_run
from emend.evals.results.aggregate.perplexity import PerplexityRow, perplexities_of
from emend.evals.results.aggregate.retention import ForgettingRow, forgetting_of
from emend.evals.run.shares.merge import merge_notes
from emend.memory.edit import FrozenModel


class Report(FrozenModel):
    """The rows of a run, and what a reader must know beside them."""

    benchmark: str
    model: str
    rows: tuple[MetricRow, ...]
    metrics: tuple[Metric, ...]
    records: int
    cases: int
    cut: int
    """Records whose prompt did not fit the model's window."""
    failed: int
    """Units that failed and were not finished since."""
    missing: int
    """Units that were neither finished nor failed."""
    reasons: dict[str, int]
    """Why something is unscored, and in how many records."""
    excluded: dict[str, int] = {}
    """Why records are left out of all figures, and how many."""
    gaps: tuple[ProtocolGap, ...] = ()
    """Differences between the protocols of one metric."""
    choices: tuple[str, ...] = ()
    """Scoring choices where the benchmark's paper and code differ or leave it open."""
    forgetting: tuple[ForgettingRow, ...] = ()
    """Metrics at the checkpoints of a sequence."""
    costs: tuple[MetricRow, ...] = ()
    """Cost of a probe and of an edit under each editor; the metrics are `costs.ALL_COSTS`."""
    perplexity: tuple[PerplexityRow, ...] = ()
    """Perplexity of held-out texts under weight edits."""
    ability: tuple[AbilityRow, ...] = ()
    """Scores of other tasks under weight edits."""
    checks: tuple[EditCheckRow, ...] = ()
    """Weight edits that took, and neighbouring prompts that turned."""
    broken: tuple[tuple[str, str, str], ...] = ()
    """Setting, mode and editor where edits broke the model, so that no value is the best."""
    spent: RunCost | None = None
    notes: tuple[str, ...] = ()
    """What went wrong with weight edits, what the benchmark lacks, and how the run was merged from shares."""


def _comparable(costs: Sequence[MetricRow], concurrency: int) -> list[MetricRow]:
    """Costs without the seconds of a probe where probes waited for each other, and so for other editors' too."""
    return [row for row in costs if concurrency == 1 or row.metric != PER_PROBE[0].name]


def rows_of(gathered: RecordTable, metrics: Sequence[Metric], editors: Sequence[str]) -> list[MetricRow]:
    """One row per place and metric that has something to show; editors in the order of the run."""
    rows = (
        metric_row(group, gathered.places[group], metric)
        for group in sorted(gathered.places, key=order_by(editors))
        for metric in metrics
    )
    return [row for row in rows if row.n or row.unscored]


def report(folder: Path, scoring: str | None = None) -> Report:
    """The report of a run folder, finished or not, with what judges say where it was scored.

    Args:
        folder: the run folder.
        scoring: whose judgements are shown, by id; the newest where none is named, `none` for no judge's.

    Raises:
        BadData: no run there, or a damaged line.
        BadSettings: no such scoring.
    """
    # Listing and the demo import this module, and need no judge.
    from emend.evals.judging.store import find_scoring
    from emend.evals.results.aggregate.judged import applicable_choices, judged_notes, with_judged

    manifest = Manifest.read(folder)
    judged = find_scoring(folder, scoring)
    gathered = gather_run(folder, judged)
    there = {pair for columns in gathered.places.values() for pair in columns}
    metrics = manifest.metrics if judged is None else with_judged(judged, there, manifest.metrics)
    by = {metric.name: metric.group for metric in metrics if metric not in manifest.metrics}
    rows = rows_of(gathered, metrics, manifest.config.editors)
    side_effects = _side_effects(folder, manifest)
    failed = {str(line.get("unit")) for line in read_lines(folder, ERRORS)} - gathered.units
    return Report(
        benchmark=manifest.config.benchmark,
        model=manifest.config.model,
        rows=tuple(row.model_copy(update={"judge": by.get(row.metric, "")}) for row in rows),
        metrics=tuple(metrics),
        records=gathered.records,
        cases=len(gathered.cases),
        cut=gathered.cut,
        failed=len(failed),
        missing=max(0, manifest.units - len(gathered.units) - len(failed)),
        reasons=dict(gathered.reasons.most_common()),
        excluded=dict(gathered.excluded),
        gaps=tuple(gaps_of(gathered, metrics, manifest.config.editors)),
        choices=(
            *applicable_choices(manifest.benchmark.get("choices", ()), rows, metrics),
            *(judged_notes(folder, judged) if judged else ()),
        ),
        forgetting=tuple(forgetting_of(gathered, metrics, manifest.config.editors)),
        costs=tuple(_comparable(costs_of(gathered, folder, manifest.config.editors), manifest.config.concurrency)),
        spent=spent_of(gathered, folder),
        notes=(*side_effects.pop("notes"), *manifest.benchmark.get("shortfalls", ()), *merge_notes(manifest)),
        **side_effects,
    )


def _side_effects(folder: Path, manifest: Manifest) -> dict[str, Any]:
    """Fields of a report on what weight edits did besides: perplexity, ability, checks, broken models, and notes."""
    perplexity = perplexities_of(folder, manifest.config.editors, manifest.config.parsed().checkpoints)
    checks = edit_checks_of(folder, manifest.config.editors)
    return {
        "perplexity": tuple(perplexity),
        "ability": tuple(abilities_of(folder, manifest.config.editors)),
        "checks": tuple(checks),
        "broken": broken_places(perplexity, checks),
        "notes": side_effect_notes(perplexity, checks),
    }
