"""Cost of a run: per probe and per edit under each editor, and in total."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from emend.evals.case import Metric
from emend.evals.log.baseline import baseline_usage
from emend.evals.log.lines import COSTS
from emend.evals.log.records import read_lines
from emend.evals.metrics.estimate import Estimate
from emend.evals.results.aggregate.columns import (
    RETRIES,
    SECONDS,
    TOKENS_IN,
    TOKENS_OUT,
    Column,
    Columns,
    MetricRow,
    RecordTable,
    ResultGroup,
    estimate_of,
    order_by,
)
from emend.memory.edit import FrozenModel

MIB = 2**20
PER_PROBE = (
    Metric(name="s/probe", value=SECONDS, kinds=(), summary="seconds that a probe took, waiting included"),
    Metric(name="in/probe", value=TOKENS_IN, kinds=(), summary="tokens into the model per probe"),
    Metric(name="out/probe", value=TOKENS_OUT, kinds=(), summary="tokens out of the model per probe"),
    Metric(name="retries/probe", value=RETRIES, kinds=(), summary="times a provider was asked again, per probe"),
)
PER_EDIT = (
    Metric(name="s/edit", value="seconds", kinds=(), summary="seconds of editing per edit"),
    Metric(name="CPU s/edit", value="cpu_seconds", kinds=(), summary="processor seconds of editing per edit"),
    Metric(name="tok/edit", value="tokens", kinds=(), summary="tokens through the model per edit, forward passes"),
    Metric(name="peak MiB", value="peak_bytes", kinds=(), summary="memory that editing took above what was held"),
)
ALL_COSTS = (*PER_PROBE, *PER_EDIT)


class RunCost(FrozenModel):
    """Total tokens and calls of a run, with those of the unedited model before any edit; time and memory.

    Time is of the processes that came to their own end; a killed one leaves none.
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
    """Calls whose tokens nobody told."""


def costs_of(gathered: RecordTable, folder: Path, editors: Sequence[str]) -> list[MetricRow]:
    """Row per result group and known cost, as the metrics of `ALL_COSTS`; editors in the order of the run.

    Retries have rows only where there were some.
    """
    edits = _edits(folder)
    rows = [
        group.row(metric, _estimate(columns.get(group, {}), metric))
        for group in sorted(gathered.places, key=order_by(editors))
        for metrics, columns in ((PER_PROBE, gathered.places), (PER_EDIT, edits))
        for metric in metrics
    ]
    retried = any(row.mean for row in rows if row.metric == PER_PROBE[-1].name)
    return [row for row in rows if row.n and (retried or row.metric != PER_PROBE[-1].name)]


def _estimate(columns: Columns, metric: Metric) -> Estimate:
    """Estimate of a cost. A constant cost is no proportion, so its interval is that number."""
    value = estimate_of(columns, metric)
    numbers = [column.values for (name, _), column in columns.items() if name == metric.value]
    constant = value.n > 1 and np.ptp(np.concatenate(numbers)) == 0
    return value.model_copy(update={"low": value.mean, "high": value.mean}) if constant else value


def _edits(folder: Path) -> dict[ResultGroup, Columns]:
    """Cost of each application of edits, per edit; the applications are the cases.

    Workers, shares and a resumed run apply the same edits once more: the first time counts, so that the number of
    applications does not depend on how a run was run.
    """
    by_group: dict[ResultGroup, dict[str, dict[int, float]]] = {}
    known = set()
    for number, line in enumerate(read_lines(folder, COSTS)):
        if line.get("act") != "edit" or not line["edits"]:
            continue
        application = (
            *(line.get(name) for name in ("setting", "mode", "editor", "repeat", "edits")),
            tuple(line.get("of", ())),
        )
        if line.get("of") and application in known:
            continue
        known.add(application)
        place = ResultGroup(line["setting"], line["mode"], line["editor"])
        for metric in PER_EDIT:
            totals = line[metric.value]
            if totals is not None:
                memory = metric.value == "peak_bytes"  # of all edits at once: it is not shared out among them
                value = totals / MIB if memory else totals / line["edits"]
                by_group.setdefault(place, {}).setdefault(metric.value, {})[number] = value
    return {
        place: {(name, ""): Column.of(values.values(), values) for name, values in costs.items()}
        for place, costs in by_group.items()
    }


def spent_of(gathered: RecordTable, folder: Path) -> RunCost:
    """Total cost of a run, from its files."""
    before = baseline_usage(folder)
    runs = [line for line in read_lines(folder, COSTS) if line.get("act") == "run"]
    return RunCost(
        **{name: gathered.spent[name] + before[name] for name in ("input_tokens", "output_tokens", "calls", "untold")},
        baseline_tokens=before["input_tokens"] + before["output_tokens"],
        baseline_calls=before["calls"],
        processes=len(runs),
        seconds=round(sum(line["seconds"] for line in runs), 3),
        cpu_seconds=round(sum(line["cpu_seconds"] for line in runs), 3),
        peak_bytes=max((line["peak_bytes"] for line in runs if line["peak_bytes"]), default=None),
    )
