"""From a run's records to the rows of its report, with gaps between protocols and what a sequence forgets."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from emend.evals.case import Metric
from emend.evals.log.lines import ERRORS, RECORDS
from emend.evals.log.manifest import Manifest
from emend.evals.log.record_fields import read_fields
from emend.evals.log.records import parse_fields, read_lines, read_records, require_records
from emend.evals.log.table_parts import is_large
from emend.evals.metrics.estimate import EXTREMES, Estimate, Floats, Integers, estimate
from emend.evals.metrics.paper_scores import FIELDS, GENERATION, References, consistency
from emend.evals.metrics.scores import RIGHT_VALUES
from emend.evals.results.aggregate.columns import (
    OTHER_REASONS,
    REASONS,
    Column,
    ColumnKey,
    Columns,
    GroupRow,
    MetricRow,
    RecordTable,
    columns_of,
    estimate_of,
    gather,
    metric_row,
    only,
    order_by,
)
from emend.evals.results.aggregate.costs import (
    PER_PROBE,
    AbilityRow,
    EditCheckRow,
    PerplexityRow,
    RunCost,
    abilities_of,
    broken_places,
    costs_of,
    edit_checks_of,
    perplexities_of,
    side_effect_notes,
    spent_of,
)
from emend.evals.run.merge import merge_notes
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData

if TYPE_CHECKING:
    from emend.evals.judging.store import Scoring
    from emend.evals.log.run_table import RunTable


PERCENT = 100.0  # as the paper prints it


def consistency_rows(run: Path, references: Path) -> list[MetricRow]:
    """RS by editor, over all settings and modes of the run, in percent.

    Raises:
        MissingData: a file of the references is absent.
        BadData: the run has no generated texts, or a file is not what it should be.
    """
    records = read_fields(run, FIELDS, kind=[GENERATION])
    estimates = consistency(records, References.read(references))
    if not estimates:
        raise BadData(
            f"'{run}' has no generated texts: run it with --benchmark counterfact --benchmark-option generation=100."
        )
    return [
        MetricRow(editor=editor, setting="all", mode="all", metric="RS", **value.scaled(PERCENT).model_dump())
        for editor, value in estimates.items()
    ]


class ProtocolGap(GroupRow):
    """The second metric less the first, paired by probe (by case for a metric of `any` or `all`), in their unit.

    `n` is the number of probes that both have a score for; the interval is of 95 %, by bootstrap over cases.
    """

    first: str
    second: str
    protocols: tuple[str, str]
    mean: float
    n: int
    low: float | None
    high: float | None


def gaps_of(gathered: RecordTable, metrics: Sequence[Metric], editors: Sequence[str]) -> Iterator[ProtocolGap]:
    """The gaps between neighbouring protocols of each metric, in the order of the table."""
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
    return alike and first.protocol != second.protocol and first.value in RIGHT_VALUES and second.value in RIGHT_VALUES


def _difference(columns: Columns, first: Metric, second: Metric) -> Estimate | None:
    """The mean difference; None for a metric that is no mean over probes or cases."""
    if first.per not in ("record", "case", *EXTREMES):
        return None
    left, right = (_scores(columns_of(columns, metric), metric.per) for metric in (first, second))
    both = [key for key in left if key in right]
    values, cases = [right[key][0] - left[key][0] for key in both], [left[key][1] for key in both]
    per = "case" if first.per == "case" else "record"
    return estimate(values, cases, per=per, share=False).scaled(first.scale)


def _scores(columns: Sequence[Column], per: str) -> dict[int, tuple[float, int]]:
    """Score and case of each record, or of each attempt at a case where its best or worst counts."""
    scores: dict[int, tuple[float, int]] = {}
    for column in columns:
        cases, attempts, records = (numbers.tolist() for numbers in column.scored)
        keys = attempts if per in EXTREMES else records
        for key, value, case in zip(keys, column.values.tolist(), cases, strict=True):
            known = scores.get(key)
            scores[key] = (value if known is None else EXTREMES[per](known[0], value), case)
    return scores


class ForgettingRow(MetricRow):
    """A metric of an editor after `standing` edits; `first` is the same cases' score after their own edits."""

    standing: int
    first: Estimate


def forgetting_of(gathered: RecordTable, metrics: Sequence[Metric], editors: Sequence[str]) -> list[ForgettingRow]:
    """Row per result group, metric and checkpoint with results; editors in the order of the run."""
    rank = order_by(editors)
    rows = []
    for metric in metrics:
        for group, standing in sorted(gathered.again, key=lambda key: (rank(key[0]), key[1])):
            now = gathered.again[group, standing]
            row = group.row(metric, estimate_of(now, metric))
            if row.n or row.unscored:
                parts = [rows.cases for column in now.values() for rows in (column.scored, column.missing)]
                cases = set(np.concatenate(parts).tolist())
                first = estimate_of(only(gathered.places.get(group, {}), cases), metric)
                rows.append(ForgettingRow(**dict(row), standing=standing, first=first))
    return rows


KEY = """
setting, mode, editor, checkpoint, kind, form, is_cut_off, no_answer,
CASE WHEN excluded = '' THEN map_keys("values") ELSE [] END AS "values",
CASE WHEN excluded = '' THEN map_keys(unscored) ELSE [] END AS unscored
"""
"""Fields of a `ColumnKey`."""
ATTEMPTS = "SELECT case_id, repeat, min(line) AS first FROM record_lines GROUP BY ALL ORDER BY first"
ROWS = """
SELECT line,
    hash(setting, mode, editor, checkpoint, kind, form, is_cut_off, no_answer, excluded = '',
        map_keys("values"), map_keys(unscored)) AS key, hash(case_id, repeat) AS attempt,
    seconds, usage_retries, usage_input_tokens, usage_output_tokens, usage_calls, usage_untold, from_baseline
FROM record_lines ORDER BY line
"""
"""The numbers of each record."""
NUMBERS = """
SELECT unnest(map_values("values")) AS number
FROM (SELECT "values" FROM record_lines WHERE excluded = '' ORDER BY line)
"""
"""The scores of the records that count, one after the other."""
REASONS_GIVEN = """
SELECT reason, count(*) FROM (
    SELECT DISTINCT line, unnest(map_values(unscored)) AS reason FROM record_lines WHERE excluded = ''
) GROUP BY reason ORDER BY min(line), reason
"""
"""Reasons why records lack a score."""
EXCLUDED = "SELECT excluded, count(*) FROM record_lines WHERE excluded != '' GROUP BY excluded ORDER BY min(line)"


def gather_run(folder: Path, scoring: "Scoring | None" = None) -> RecordTable:
    """Gather the records of all complete units of a run folder; those of a large run from its table.

    Args:
        folder: the run folder.
        scoring: adds its judges' numbers; the records are then read one by one.

    Raises:
        BadData: there is no file, or a line that is not at the torn end cannot be read; names file, line and field.
    """
    require_records(folder)
    if scoring is not None:
        from emend.evals.judging.store import judged_records  # lazily: listing and the demo need no judge

        return gather(judged_records(folder, scoring))
    if not is_large(folder / RECORDS):
        return gather(read_records(folder, parse_fields))
    from emend.evals.log.run_table import RunTable  # lazily: few runs are so large that DuckDB is needed

    with RunTable(folder) as table:
        return gather_table(table)


def gather_table(table: "RunTable") -> RecordTable:
    """Gather the records of a run's table."""
    gathered = RecordTable()
    # The queries sort narrow rows, which DuckDB does on the disk in the same time.
    table.connection.execute("SET memory_limit = '64MB'")
    for case, repeat, _ in table.rows(ATTEMPTS):
        gathered.position(case, repeat)
    for key, rows in _rows(table):
        gathered.rows[key].frombytes(rows.tobytes())
        gathered.records += len(rows)
    gathered.units.update(unit for (unit,) in table.rows("SELECT DISTINCT unit FROM record_lines"))
    gathered.excluded.update(dict(table.rows(EXCLUDED)))
    for place, (reason, count) in enumerate(table.rows(REASONS_GIVEN)):
        gathered.reasons[reason if place < REASONS else OTHER_REASONS] += count
    ((gathered.cut,),) = table.rows("SELECT count(*) FROM record_lines WHERE cut_tokens > 0")
    return gathered


def _rows(table: "RunTable") -> Iterator[tuple[ColumnKey, Floats]]:
    """The rows of numbers of records that are alike, in the order in which their keys first come."""
    columns = table.arrays(ROWS)
    lines = columns.pop("line")
    keys, attempts = (_in_order(columns.pop(name)) for name in ("key", "attempt"))
    costs = np.column_stack([np.arange(len(lines)), attempts, *columns.values()]).astype(np.float64, copy=False)
    columns.clear()
    numbers = np.asarray(table.arrays(NUMBERS)["number"], np.float64)
    first_lines = lines[np.unique(keys, return_index=True)[1]].tolist()
    query = f"SELECT {KEY} FROM record_lines WHERE line IN ({', '.join(map(str, first_lines))}) ORDER BY line"
    firsts = [ColumnKey(*map(_plain, key)) for key in table.rows(query)] if first_lines else []
    widths = np.array([len(key.values) for key in firsts], np.int64)[keys]
    starts = np.cumsum(widths) - widths
    for place, key in enumerate(firsts):
        chosen = np.flatnonzero(keys == place)
        scores = numbers[starts[chosen, None] + np.arange(len(key.values))]
        yield key, np.hstack([costs[chosen], scores])


def _in_order(hashes: NDArray[np.uint64]) -> Integers:
    """A number for each distinct hash, in the order in which they first come."""
    _, firsts, numbers = np.unique(hashes, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(firsts))[numbers]


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


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
    editors, judged = manifest.config.editors, find_scoring(folder, scoring)
    gathered = gather_run(folder, judged)
    there = {pair for columns in gathered.places.values() for pair in columns}
    metrics = manifest.metrics if judged is None else with_judged(judged, there, manifest.metrics)
    by = {metric.name: metric.group for metric in metrics if metric not in manifest.metrics}
    rows = rows_of(gathered, metrics, editors)
    failed = {str(line.get("unit")) for line in read_lines(folder, ERRORS)} - gathered.units
    missing = max(0, manifest.units - len(gathered.units) - len(failed))
    return Report(
        benchmark=manifest.config.benchmark,
        model=manifest.config.model,
        rows=tuple(row.model_copy(update={"judge": by.get(row.metric, "")}) for row in rows),
        metrics=tuple(metrics),
        records=gathered.records,
        cases=len(gathered.cases),
        cut=gathered.cut,
        failed=len(failed),
        missing=missing,
        reasons=dict(gathered.reasons.most_common()),
        excluded=dict(gathered.excluded),
        gaps=tuple(gaps_of(gathered, metrics, editors)),
        choices=(
            *applicable_choices(manifest.benchmark.get("choices", ()), rows, metrics),
            *(judged_notes(folder, judged) if judged else ()),
        ),
        forgetting=tuple(forgetting_of(gathered, metrics, editors)),
        costs=tuple(_comparable(costs_of(gathered, folder, editors), manifest.config.concurrency)),
        spent=spent_of(gathered, folder),
        **_side_effects(folder, manifest, is_finished=not missing),
    )


def _side_effects(folder: Path, manifest: Manifest, is_finished: bool) -> dict[str, Any]:
    """Fields of a report on what weight edits did besides: perplexity, ability, checks, broken models; and notes."""
    editors = manifest.config.editors
    perplexity = tuple(perplexities_of(folder, editors, manifest.config.parsed().checkpoints))
    checks = tuple(edit_checks_of(folder, editors))
    return {
        "perplexity": perplexity,
        "ability": tuple(abilities_of(folder, editors)),
        "checks": checks,
        "broken": broken_places(perplexity, checks),
        "notes": (
            *side_effect_notes(perplexity, checks),
            *manifest.benchmark.get("shortfalls", ()),
            *merge_notes(manifest, is_finished=is_finished),
        ),
    }
