"""What a run cost: per probe and per edit under each editor, and in all."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from rich.text import Text

from emend.evals.aggregate.columns import (
    RETRIES,
    SECONDS,
    TOKENS_IN,
    TOKENS_OUT,
    Column,
    Columns,
    Gathered,
    Place,
    Row,
    estimate_of,
)
from emend.evals.case import Metric
from emend.evals.log.records import BASELINE, COSTS, read_lines
from emend.evals.metrics.estimate import Estimate
from emend.evals.report.escape import one_line
from emend.evals.report.figures import Frame, frame
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


class Spent(FrozenModel):
    """All tokens and calls of a run, those of the unedited model before any edit among them; time and memory.

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


def costs_of(gathered: Gathered, folder: Path, editors: Sequence[str]) -> list[Row]:
    """One row per place and cost that is known, as the metrics of `ALL_COSTS`; editors in the order of the run.

    Retries have rows only where there were some.
    """
    order = {name: number for number, name in enumerate(editors)}
    edits = _edits(folder)
    places = sorted(gathered.places, key=lambda p: (p.setting, p.mode, order.get(p.editor, len(order))))
    found = [
        (place, metric, _estimate(columns.get(place, {}), metric))
        for place in places
        for metrics, columns in ((PER_PROBE, gathered.places), (PER_EDIT, edits))
        for metric in metrics
    ]
    smooth = not any(value.mean for _, metric, value in found if metric.value == RETRIES)
    return [
        Row(editor=place.editor, setting=place.setting, mode=place.mode, metric=metric.name, **value.model_dump())
        for place, metric, value in found
        if value.n and not (smooth and metric.value == RETRIES)
    ]


def _estimate(columns: Columns, metric: Metric) -> Estimate:
    """As for scores, but a cost that is always the same is no proportion: its interval is that one number."""
    value = estimate_of(columns, metric)
    seen = {number for (name, _), column in columns.items() if name == metric.value for number in column.values}
    return value.model_copy(update={"low": value.mean, "high": value.mean}) if len(seen) == 1 and value.n > 1 else value


def _edits(folder: Path) -> dict[Place, Columns]:
    """What each time of editing cost, per edit; the times are the cases."""
    columns: dict[Place, Columns] = {}
    for number, line in enumerate(read_lines(folder, COSTS)):
        if line.get("act") != "edit" or not line["edits"]:
            continue
        place = Place(line["setting"], line["mode"], line["editor"])
        for metric in PER_EDIT:
            told = line[metric.value]
            if told is not None:
                memory = metric.value == "peak_bytes"  # of all edits at once: it is not shared out among them
                value = told / MIB if memory else told / line["edits"]
                columns.setdefault(place, {}).setdefault((metric.value, ""), Column()).put(value, number)
    return columns


def spent_of(gathered: Gathered, folder: Path) -> Spent:
    """What the whole run took, as its files tell."""
    from emend.evals.runner.baseline import BaselineAnswer  # imports the graphs' libraries

    told = {name: gathered.spent[name] for name in ("input_tokens", "output_tokens", "calls", "untold")}
    tokens = calls = 0
    for line in read_lines(folder, BASELINE):
        usage = BaselineAnswer.model_validate(line).usage
        told["input_tokens"] += usage.input_tokens
        told["output_tokens"] += usage.output_tokens
        told["calls"] += usage.calls
        told["untold"] += usage.untold
        tokens, calls = tokens + usage.input_tokens + usage.output_tokens, calls + usage.calls
    runs = [line for line in read_lines(folder, COSTS) if line.get("act") == "run"]
    return Spent(
        **told,
        baseline_tokens=tokens,
        baseline_calls=calls,
        processes=len(runs),
        seconds=round(sum(line["seconds"] for line in runs), 3),
        cpu_seconds=round(sum(line["cpu_seconds"] for line in runs), 3),
        peak_bytes=max((line["peak_bytes"] for line in runs if line["peak_bytes"]), default=None),
    )


def tables(rows: Sequence[Row]) -> Iterator[tuple[str, Frame]]:
    """A title and a table for probes, and for edits, per setting and mode."""
    for (setting, mode), found in groupby(rows, key=lambda row: (row.setting, row.mode)):
        told = {(row.editor, row.metric): row for row in found}
        for counted, metrics in (("probe", PER_PROBE), ("edit", PER_EDIT)):
            shown = [metric for metric in metrics if any(name == metric.name for _, name in told)]
            if shown:
                yield one_line(f"what one {counted} cost, {setting}, mode {mode}"), _table(told, shown)


def _table(told: dict[tuple[str, str], Row], metrics: Sequence[Metric]) -> Frame:
    table = frame("editor", "n", *(metric.name for metric in metrics))
    for editor in dict.fromkeys(editor for editor, _ in told):
        first = told.get((editor, metrics[0].name))
        cells = [_cell(told.get((editor, metric.name))) for metric in metrics]
        table.add_row(Text(one_line(editor)), Text(str(first.n if first else 0)), *cells)
    return table


def _cell(row: Row | None) -> Text:
    """A few figures, and the interval below."""
    if row is None or row.mean is None:
        return Text("-")
    shown = Text(_short(row.mean))
    if row.low is not None and row.high is not None:
        shown.append(f"\n[{_short(row.low)}, {_short(row.high)}]", style="dim")
    return shown


def _short(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 1 else f"{round(value, 4):.2g}"


def told_of(spent: Spent) -> str:
    """All of it in one line."""
    tokens = f"{spent.input_tokens:,} tokens in, {spent.output_tokens:,} out, {spent.calls:,} calls"
    tokens += f", of which {spent.untold:,} did not tell their tokens" if spent.untold else ""
    before = f" ({spent.baseline_tokens:,} tokens and {spent.baseline_calls:,} calls of them before any edit)"
    time = f"; {spent.seconds:,.1f} s, {spent.cpu_seconds:,.1f} s of processor" if spent.processes else ""
    memory = f", at most {spent.peak_bytes / MIB:,.0f} MiB" if spent.peak_bytes else ""
    return tokens + (before if spent.baseline_calls else "") + time + memory
