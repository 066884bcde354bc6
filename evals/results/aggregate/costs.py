"""Costs of a run per probe, per edit and per turn, and its total cost."""

import tomllib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from emend.evals.case import Metric
from emend.evals.log.baseline import baseline_usage
from emend.evals.log.lines import COSTS, TURNS
from emend.evals.log.records import read_lines
from emend.evals.metrics.estimate import Estimate
from emend.evals.results.aggregate.columns import (
    Column,
    Columns,
    MetricRow,
    ResultGroup,
    estimate_of,
    order_by,
)
from emend.evals.results.aggregate.record_table import RecordTable
from emend.memory.edit import FrozenModel

MIB = 2**20


def _cost_tables() -> Iterator[tuple[str, tuple[Metric, ...]]]:
    tables = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    for unit, rows in tables.items():
        yield (
            unit,
            tuple(
                Metric(name=name, value=value, kinds=(), summary=summary)
                for name, (value, summary) in rows.items()
            ),
        )


# Cost metrics by the unit that they are divided by.
COST_TABLES = dict(_cost_tables())
PER_PROBE, PER_EDIT, PER_TURN = (COST_TABLES[unit] for unit in ("probe", "edit", "turn"))


class RunCost(FrozenModel):
    """Total tokens, calls, time and memory of a run, with the unedited model's baseline.

    Time covers only processes that ended by themselves; a killed process leaves no time.
    """

    input_tokens: int
    output_tokens: int
    calls: int
    baseline_tokens: int
    baseline_calls: int
    processes: int
    seconds: float
    cpu_seconds: float
    peak_bytes: int | None = None
    untold: int = 0
    """Calls for which the provider reported no token counts."""


def costs_of(gathered: RecordTable, folder: Path, editors: Sequence[str]) -> list[MetricRow]:
    """Return a row per result group and measured cost, editors in the run's order.

    Retries get rows only if there were any.
    """
    edits = costs_of_one(folder, "edit", "edits", PER_EDIT)
    turns = costs_of_one(folder, TURNS, TURNS, PER_TURN)
    tables = ((PER_PROBE, gathered.places), (PER_EDIT, edits), (PER_TURN, turns))
    rows = [
        group.row(metric, _estimate(columns.get(group, {}), metric))
        for group in sorted(gathered.places, key=order_by(editors))
        for metrics, columns in tables
        for metric in metrics
    ]
    retried = any(row.mean for row in rows if row.metric == PER_PROBE[-1].name)
    return [row for row in rows if row.n and (retried or row.metric != PER_PROBE[-1].name)]


def _estimate(columns: Columns, metric: Metric) -> Estimate:
    """Return the estimate of a cost; the interval of a constant cost is that constant itself."""
    value = estimate_of(columns, metric)
    numbers = [column.values for (name, _), column in columns.items() if name == metric.value]
    constant = value.n > 1 and np.ptp(np.concatenate(numbers)) == 0
    if constant:
        return value.model_copy(update={"low": value.mean, "high": value.mean})
    return value


def costs_of_one(
    folder: Path, act: str, counted: str, metrics: Sequence[Metric]
) -> dict[ResultGroup, Columns]:
    """Return the cost per edit of each application of edits, or per turn of each observation.

    Each application or observation counts as one case. Workers, shares and resumed runs apply the
    same edits again; only the first application counts, so that n does not depend on how the work
    was split.

    Args:
        folder: a run folder.
        act: the `act` of the lines of `costs.jsonl` to read.
        counted: field of these lines with the number of edits or turns.
        metrics: cost metrics; the value of each is a field of these lines.
    """
    by_group: dict[ResultGroup, dict[str, dict[int, float]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    known = set()
    for number, line in enumerate(read_lines(folder, COSTS)):
        if line.get("act") != act or not line[counted]:
            continue
        place = ResultGroup(line["setting"], line["mode"], line["editor"])
        application = (*place, line.get("repeat"), line[counted], *line.get("of", ()))
        if line.get("of") and application in known:
            continue
        known.add(application)
        for metric in metrics:
            totals = line[metric.value]
            if totals is not None:
                # Peak memory is that of all edits together, so it is not divided by their number.
                memory = metric.value == "peak_bytes"
                if memory:
                    value = totals / MIB
                else:
                    value = totals / line[counted]
                by_group[place][metric.value][number] = value
    columns: dict[ResultGroup, Columns] = {}
    for group, costs in by_group.items():
        columns[group] = {
            (name, ""): Column.of(values.values(), values) for name, values in costs.items()
        }
    return columns


def spent_of(gathered: RecordTable, folder: Path) -> RunCost:
    """Return the total cost of a run, read from its files."""
    before = baseline_usage(folder)
    runs = [line for line in read_lines(folder, COSTS) if line.get("act") == "run"]
    return RunCost(
        **{
            name: gathered.spent[name] + before[name]
            for name in ("input_tokens", "output_tokens", "calls", "untold")
        },
        baseline_tokens=before["input_tokens"] + before["output_tokens"],
        baseline_calls=before["calls"],
        processes=len(runs),
        seconds=round(sum(line["seconds"] for line in runs), 3),
        cpu_seconds=round(sum(line["cpu_seconds"] for line in runs), 3),
        peak_bytes=max((line["peak_bytes"] for line in runs if line["peak_bytes"]), default=None),
    )
