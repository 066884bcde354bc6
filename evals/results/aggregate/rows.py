"""Rows of a run's report, with the gaps between protocols and the forgetting in a sequence."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from emend.evals.case import Metric
from emend.evals.corrections.correction import corrected_records, read_corrections
from emend.evals.evaluate.merge import merge_notes
from emend.evals.log.lines import ERRORS, warn_once
from emend.evals.log.manifest import Manifest
from emend.evals.log.record_fields import read_fields
from emend.evals.log.records import read_lines
from emend.evals.metrics.estimate import EXTREMES, Estimate, estimate
from emend.evals.metrics.headline import CHAT, Headlines, ProbeKinds, headlines_of
from emend.evals.metrics.protocols import says_right
from emend.evals.metrics.published.counterfact import FIELDS, GENERATION, References, consistency
from emend.evals.results.aggregate.columns import (
    Columns,
    GroupRow,
    MetricRow,
    columns_of,
    estimate_of,
    metric_row,
    only,
    order_by,
    scores_of,
)
from emend.evals.results.aggregate.corrected import CorrectedRow, corrected_rows
from emend.evals.results.aggregate.costs import PER_PROBE, RunCost, costs_of, spent_of
from emend.evals.results.aggregate.marks import Rival, find_rivals
from emend.evals.results.aggregate.record_table import RecordTable, gather, gather_run
from emend.evals.results.aggregate.side_effects import (
    AbilityRow,
    EditCheckRow,
    PerplexityRow,
    abilities_of,
    broken_places,
    edit_checks_of,
    fact_check_notes,
    perplexities_of,
    side_effect_notes,
)
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData

if TYPE_CHECKING:
    from emend.evals.judging.scorings.manifest import Scoring


PERCENT = 100.0  # as the paper prints it


def consistency_rows(run: Path, references: Path) -> list[MetricRow]:
    """Return RS (consistency) by editor over all settings and modes of the run, in percent.

    Raises:
        MissingData: a file of the references is absent.
        BadData: the run has no generated texts, or a file of the references is invalid.
    """
    records = read_fields(run, FIELDS, kind=[GENERATION])
    estimates = consistency(records, References.read(references))
    if not estimates:
        raise BadData(
            f"'{run}' has no generated texts: run it with --benchmark counterfact "
            "--benchmark-option generation=100."
        )
    return [
        MetricRow(
            editor=editor,
            setting="all",
            mode="all",
            metric="RS",
            **value.scaled(PERCENT).model_dump(),
        )
        for editor, value in estimates.items()
    ]


class ProtocolGap(GroupRow):
    """Mean of the second metric minus the first, in the metrics' unit.

    The scores are paired by probe, or by attempt at a case for metrics of `any` or `all`. `n` is
    the number of pairs with both scores; the 95% interval is a bootstrap over cases.
    """

    first: str
    second: str
    protocols: tuple[str, str]
    mean: float
    n: int
    low: float | None
    high: float | None


def gaps_of(
    gathered: RecordTable, metrics: Sequence[Metric], editors: Sequence[str]
) -> Iterator[ProtocolGap]:
    """Yield the gaps between neighbouring protocols of each metric, in the table's order."""
    pairs = [pair for pair in pairwise(metrics) if _are_counterparts(*pair)]
    for group in sorted(gathered.places, key=order_by(editors)):
        for first, second in pairs:
            gap = _difference(gathered.places[group], first, second)
            if gap is not None and gap.mean is not None:
                yield ProtocolGap(
                    **group._asdict(),
                    first=first.name,
                    second=second.name,
                    protocols=(first.protocol, second.protocol),
                    **gap.model_dump(exclude={"unscored"}),
                )


def _are_counterparts(first: Metric, second: Metric) -> bool:
    alike = (first.group, first.kinds, first.per) == (second.group, second.kinds, second.per)
    return alike and first.protocol != second.protocol and says_right(first) and says_right(second)


def _difference(columns: Columns, first: Metric, second: Metric) -> Estimate | None:
    """Return the mean difference; None if the metric is not a mean over probes or cases."""
    if first.per not in ("record", "case", *EXTREMES):
        return None
    left, right = (scores_of(columns_of(columns, metric), metric.per) for metric in (first, second))
    both = [key for key in left if key in right]
    values = [right[key][0] - left[key][0] for key in both]
    cases = [left[key][1] for key in both]
    if first.per == "case":
        per = "case"
    else:
        per = "record"
    return estimate(values, cases, per=per, difference=True).scaled(first.scale)


class ForgettingRow(MetricRow):
    """A metric of an editor after `standing` edits.

    `first` is the score of the same cases right after their own edits.
    """

    standing: int
    first: Estimate


def forgetting_of(
    gathered: RecordTable, metrics: Sequence[Metric], editors: Sequence[str]
) -> list[ForgettingRow]:
    """Return a row per result group, metric and checkpoint with results, in the run's order."""
    rank = order_by(editors)
    rows = []
    for metric in metrics:
        for group, standing in sorted(gathered.again, key=lambda key: (rank(key[0]), key[1])):
            now = gathered.again[group, standing]
            row = group.row(metric, estimate_of(now, metric))
            if row.n or row.unscored:
                parts = [
                    rows.cases
                    for column in now.values()
                    for rows in (column.scored, column.missing)
                ]
                cases = set(np.concatenate(parts).tolist())
                first = estimate_of(only(gathered.places.get(group, {}), cases), metric)
                rows.append(ForgettingRow(**dict(row), standing=standing, first=first))
    return rows


class Report(FrozenModel):
    """The rows of a run, and the facts needed to interpret them."""

    benchmark: str
    model: str
    rows: tuple[MetricRow, ...]
    metrics: tuple[Metric, ...]
    records: int
    cases: int
    sample_seed: int | None = None
    """Seed of the random sample of cases; None if the run takes all cases or the first ones."""
    cut: int
    """Number of records whose prompt did not fit the model's context window."""
    failed: int
    """Number of units that failed and were not finished later."""
    missing: int
    """Number of units that were neither finished nor failed."""
    reasons: dict[str, int]
    """Number of records by the reason why a score is missing."""
    excluded: dict[str, int] = {}
    """Number of records by the reason for excluding them from all figures."""
    headlines: dict[str, str] = {}
    """Headline metric by name, with and without protocol."""
    hidden: tuple[str, ...] = ()
    """Metrics left out of default tables in favour of their headlines."""
    rivals: tuple[Rival, ...] = ()
    """Pairs of editors whose paired difference in a metric excludes 0."""
    gaps: tuple[ProtocolGap, ...] = ()
    """Differences between the protocols of one metric."""
    choices: tuple[str, ...] = ()
    """Scoring choices where the benchmark's paper and code differ or leave it open."""
    forgetting: tuple[ForgettingRow, ...] = ()
    """Metrics at the checkpoints of a sequence."""
    costs: tuple[MetricRow, ...] = ()
    """Cost of a probe, an edit and a turn under each editor; see `costs.COST_TABLES`."""
    perplexity: tuple[PerplexityRow, ...] = ()
    """Perplexity of held-out texts under weight edits."""
    ability: tuple[AbilityRow, ...] = ()
    """Scores of other tasks under weight edits."""
    checks: tuple[EditCheckRow, ...] = ()
    """Counts of weight edits that took effect, and of neighbouring prompts that changed."""
    broken: tuple[tuple[str, str, str], ...] = ()
    """Setting, mode and editor where edits broke the model, so that none of its values is best."""
    spent: RunCost | None = None
    corrected: tuple[CorrectedRow, ...] = ()
    """Metrics with manual corrections; no other rows include the corrections."""
    notes: tuple[str, ...] = ()
    """Problems of weight edits, shortfalls of the benchmark, and notes on merged shares."""

    def resolve(self, name: str) -> str:
        """Return the full metric name; a name without protocol gives its headline."""
        return self.headlines.get(name, name)


def _comparable(costs: Sequence[MetricRow], concurrency: int) -> list[MetricRow]:
    """Return the costs without the seconds of a probe if probes ran concurrently.

    Concurrent probes wait for each other, and so for those of other editors.
    """
    return [row for row in costs if concurrency == 1 or row.metric != PER_PROBE[0].name]


def rows_of(
    gathered: RecordTable, metrics: Sequence[Metric], editors: Sequence[str]
) -> list[MetricRow]:
    """Return a row per result group and metric with any probes, in the run's order."""
    rows = (
        metric_row(group, gathered.places[group], metric)
        for group in sorted(gathered.places, key=order_by(editors))
        for metric in metrics
    )
    return [row for row in rows if row.n or row.unscored]


def report(folder: Path, scoring: str | None = None) -> Report:
    """Return the report of a run folder, finished or not, with the judges' scores if it was scored.

    Args:
        folder: the run folder.
        scoring: id of the scoring to show; by default the newest, and `none` for no judge.

    Raises:
        BadData: the folder has no run, or a line is damaged.
        BadSettings: there is no such scoring.
    """
    # Imported here because listing and the demo import this module and need no judge.
    from emend.evals.judging.scorings.search import find_scoring
    from emend.evals.results.aggregate.judged import applicable_choices, judged_notes, with_judged

    manifest = Manifest.read(folder)
    editors, judged = manifest.config.editors, find_scoring(folder, scoring)
    gathered = gather_run(folder, judged)
    there = {pair for columns in gathered.places.values() for pair in columns}
    metrics = manifest.metrics if judged is None else with_judged(judged, there, manifest.metrics)
    by = {metric.name: metric.group for metric in metrics if metric not in manifest.metrics}
    rows = rows_of(gathered, metrics, editors)
    headlines = run_headlines(manifest, metrics, rows)
    failed, missing = _open_units(folder, manifest, gathered)
    choices = applicable_choices(manifest.benchmark.get("choices", ()), rows, metrics)
    notes = judged_notes(folder, judged) if judged else ()
    return Report(
        benchmark=manifest.config.benchmark,
        model=manifest.config.model,
        rows=_labelled(rows, by, headlines),
        metrics=tuple(metrics),
        records=gathered.records,
        cases=len(gathered.cases),
        sample_seed=manifest.sample_seed,
        cut=gathered.cut,
        failed=failed,
        missing=missing,
        reasons=dict(gathered.reasons.most_common()),
        excluded=dict(gathered.excluded),
        headlines=dict(headlines.metrics),
        hidden=tuple(sorted(headlines.hidden)),
        rivals=tuple(find_rivals(gathered.places, rows, metrics)),
        gaps=tuple(gaps_of(gathered, metrics, editors)),
        choices=(*choices, *notes),
        forgetting=tuple(forgetting_of(gathered, metrics, editors)),
        costs=tuple(_comparable(costs_of(gathered, folder, editors), manifest.config.concurrency)),
        spent=spent_of(gathered, folder),
        corrected=tuple(_corrected(folder, judged, rows, metrics)),
        **_side_effects(folder, manifest, gathered, is_finished=not missing),
    )


def _open_units(folder: Path, manifest: Manifest, gathered: RecordTable) -> tuple[int, int]:
    """Return the numbers of units that failed for good, and of units that are not done yet."""
    failed = {str(line.get("unit")) for line in read_lines(folder, ERRORS)} - gathered.units
    missing = manifest.units - len(gathered.units) - len(failed)
    if missing < 0:
        warn_once(
            f"'{folder}' has {len(gathered.units):,} units with records, and its run has "
            f"{manifest.units:,}: it holds records of another run, which are counted too."
        )
    return len(failed), max(0, missing)


def _corrected(
    folder: Path, scoring: "Scoring | None", rows: Sequence[MetricRow], metrics: Sequence[Metric]
) -> Iterator[CorrectedRow]:
    """Yield the metrics with manual corrections; without corrections no record is read."""
    corrections = read_corrections(folder).values()
    if not corrections:
        return
    from emend.evals.judging.scorings.verdicts import judged_records

    gathered = gather(corrected_records(judged_records(folder, scoring), corrections))
    yield from corrected_rows(rows, rows_of(gathered, metrics, ()), metrics, corrections)


def _labelled(
    rows: Sequence[MetricRow], judges: Mapping[str, str], headlines: Headlines
) -> tuple[MetricRow, ...]:
    """Return the rows with the judge of each metric, and whether the metric is a headline."""
    return tuple(
        row.model_copy(
            update={"judge": judges.get(row.metric, ""), "headline": row.metric in headlines.main}
        )
        for row in rows
    )


def run_headlines(
    manifest: Manifest, metrics: Sequence[Metric], rows: Sequence[MetricRow]
) -> Headlines:
    """Return the headlines of a run's metrics, given the forms in which its probes were asked."""
    kinds_of = {metric.name: metric.kinds for metric in metrics}
    chat = {kind for row in rows if CHAT in row.form for kind in kinds_of[row.metric]}
    return headlines_of(metrics, ProbeKinds(chat, manifest.text_kinds), manifest.config.protocols)


def _side_effects(
    folder: Path, manifest: Manifest, gathered: RecordTable, is_finished: bool
) -> dict[str, Any]:
    """Return report fields on side effects: perplexity, ability, checks, broken models, notes."""
    editors = manifest.config.editors
    perplexity = tuple(perplexities_of(folder, editors, manifest.config.plan.checkpoints))
    checks = tuple(edit_checks_of(folder, editors))
    return {
        "perplexity": perplexity,
        "ability": tuple(abilities_of(folder, editors)),
        "checks": checks,
        "broken": broken_places(perplexity, checks),
        "notes": (
            *side_effect_notes(perplexity, checks),
            *fact_check_notes(gathered.places),
            *manifest.notes,
            *manifest.benchmark.get("shortfalls", ()),
            *merge_notes(manifest, is_finished=is_finished),
        ),
    }
