"""Secondary tables of a report.

They show forgetting over a sequence of edits, perplexity of held-out texts, abilities, and costs.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby

from rich.console import Group, RenderableType
from rich.text import Text

from emend.evals.case import Metric
from emend.evals.metrics.estimate import Estimate
from emend.evals.metrics.protocols import plain_name, says_right
from emend.evals.results.aggregate.columns import MetricRow
from emend.evals.results.aggregate.costs import COST_TABLES, MIB, RunCost
from emend.evals.results.aggregate.rows import ForgettingRow
from emend.evals.results.aggregate.side_effects import AbilityRow, PerplexityRow
from emend.evals.show.report.layout import (
    Frame,
    bounds,
    decimal,
    dim,
    frame,
    interval,
    number,
    titled,
    unscored,
    with_interval,
    without_empty,
)
from emend.memory.escape import one_line

PERCENT = "{:.1f}".format
# The baseline editor without edits, and ReCoE's score of whether the model gives the original
# answer.
UNEDITED, BEFORE = "unedited", "pre_edit"


def forgetting_tables(
    rows: Sequence[ForgettingRow], metrics: Sequence[Metric]
) -> Iterator[tuple[str, Frame]]:
    """Yield a title and a table for each setting and metric of a sequence of edits."""
    by_name = {metric.name: metric for metric in metrics}
    for (name, setting), group in groupby(rows, key=lambda row: (row.metric, row.setting)):
        metric = by_name[name]
        summary = ""
        if metric.summary:
            summary = f": {metric.summary}"
        table = frame("editor", "edits", "n", "at own edit", "now", "unscored")
        cell = partial(
            _stacked, digits=partial(number, metric=metric), reach=partial(interval, metric=metric)
        )
        for row in group:
            table.add(
                row.editor,
                str(row.standing),
                str(row.n),
                cell(row.first),
                cell(row),
                unscored(row.unscored),
            )
        yield one_line(f"{name} by number of applied edits, {setting}{summary}"), table


def sequence_tables(
    rows: Sequence[ForgettingRow], metrics: Sequence[Metric]
) -> Iterator[tuple[str, Frame]]:
    """Yield a title and a table for each setting.

    A table shows the given metrics over all cases so far, which are asked again at each checkpoint.
    """
    measured = {row.metric for row in rows}
    by_name = {metric.name: metric for metric in metrics if metric.name in measured}
    for setting in dict.fromkeys(row.setting for row in rows if row.metric in by_name):
        points: dict[tuple[str, int], dict[str, ForgettingRow]] = {}
        for row in rows:
            if row.setting == setting and row.metric in by_name:
                points.setdefault((row.editor, row.standing), {})[row.metric] = row
        heads = (f"{plain_name(metric)}\n{metric.protocol}".rstrip() for metric in by_name.values())
        table = frame("editor", "edits", "n", *heads, "unscored", names=2)
        for (editor, standing), cells in points.items():
            counts = sorted({row.n for row in cells.values()})
            means = [
                _stacked(
                    cells.get(name),
                    partial(number, metric=metric),
                    partial(interval, metric=metric),
                )
                for name, metric in by_name.items()
            ]
            n = " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
            table.add(
                editor,
                str(standing),
                n,
                *means,
                unscored(max(row.unscored for row in cells.values())),
            )
        yield (
            one_line(f"all cases so far, evaluated again after these numbers of edits, {setting}"),
            table,
        )


def perplexity_tables(rows: Sequence[PerplexityRow]) -> Iterator[tuple[str, RenderableType]]:
    """Yield a title and a table of perplexities for each setting and mode."""
    for (setting, mode), group in groupby(rows, key=lambda row: (row.setting, row.mode)):
        members = list(group)
        over = "texts"
        if any(row.over == "edits" for row in members):
            over = "sets of edits"
        title = f"perplexity of held-out texts, {setting}, mode {mode}, n and intervals over {over}"
        before = ""
        if over != "texts":
            before = ", before over texts"
        yield one_line(title + before), _perplexities(members, mode.startswith("sequential"))


def _perplexities(rows: Sequence[PerplexityRow], sequence: bool) -> RenderableType:
    columns = ["n", "before", "edited", "drift", "growth", "unscored"]
    if sequence:
        columns = ["edits", *columns]
    table = frame("editor", *columns)
    for row in rows:
        standing = []
        if sequence:
            standing = [str(row.standing)]
        figures = (_stacked(value, perplexity_text) for value in (row.before, row))
        further = ("" if value is None else f"{value:.3g}" for value in (row.drift, row.growth))
        table.add(row.editor, *standing, str(row.n), *figures, *further, unscored(row.unscored))
    return _with_reasons(without_empty(table, "drift", "growth"), rows)


def _with_reasons(table: Frame, rows: Sequence[PerplexityRow | AbilityRow]) -> RenderableType:
    """Append the reasons why something is unscored to a table."""
    reasons = dict.fromkeys(one_line(row.reason, 160) for row in rows if row.reason)
    if not reasons:
        return Group(table)
    return Group(table, *dim(["unscored: " + "; ".join(reasons)]))


def ability_tables(rows: Sequence[AbilityRow]) -> Iterator[tuple[str, RenderableType]]:
    """Yield a title and a table of abilities for each setting and mode."""
    for (setting, mode), group in groupby(rows, key=lambda row: (row.setting, row.mode)):
        title = f"ability, {setting}, mode {mode}, percent, n and intervals over questions"
        yield one_line(title), _abilities(list(group), mode.startswith("sequential"))


def _abilities(rows: Sequence[AbilityRow], sequence: bool) -> RenderableType:
    edits = []
    if sequence:
        edits = ["edits"]
    table = frame(
        "editor", "task", "metric", *edits, "n", "before", "edited", "change", "unscored", names=3
    )
    for row in rows:
        change = _stacked(row.change_estimate, "{:+.1f}".format)
        figures = [_stacked(row.before, PERCENT), _stacked(row, PERCENT), change]
        labels = [
            row.editor,
            one_line(row.task),
            row.metric,
            *([str(row.standing)] if sequence else []),
            str(row.n),
        ]
        table.add(*labels, *figures, unscored(row.unscored))
    return _with_reasons(table, rows)


def perplexity_text(value: float) -> str:
    """Format a perplexity: two decimals below 100, else none."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}"


def cost_tables(rows: Sequence[MetricRow]) -> Iterator[tuple[str, Frame]]:
    """Yield titles and tables of costs per probe and per edit, for each setting and mode."""
    for (setting, mode), group in groupby(rows, key=lambda row: (row.setting, row.mode)):
        cells = {(row.editor, row.metric): row for row in group}
        for counted, metrics in COST_TABLES.items():
            measured = {name for _, name in cells}
            names = [metric.name for metric in metrics if metric.name in measured]
            if names:
                table = frame("editor", "n", *names)
                for editor in dict.fromkeys(editor for editor, _ in cells):
                    row = [cells.get((editor, name)) for name in names]
                    count = 0
                    if row[0]:
                        count = row[0].n
                    table.add(editor, str(count), *(_stacked(cost, cost_text) for cost in row))
                yield one_line(f"cost of one {counted}, {setting}, mode {mode}"), table


def cost_text(value: float) -> str:
    """Format a cost or axis end: integer from 100, 3 significant digits from 1, else 2."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 1:
        return f"{value:.3g}"
    return f"{round(value, 4):.2g}"


def spent_line(spent: RunCost) -> str:
    """Format tokens, calls, time and memory of a run as one line."""
    tokens = f"{spent.input_tokens:,} tokens in, {spent.output_tokens:,} out, {spent.calls:,} calls"
    if spent.untold:
        tokens += f", of which {spent.untold:,} did not report their tokens"
    before = (
        f" ({spent.baseline_tokens:,} tokens and {spent.baseline_calls:,} calls of these before "
        "editing)"
    )
    over = ""
    if spent.processes > 1:
        over = f" (summed over {spent.processes} processes)"
    time = ""
    if spent.processes:
        time = f"; {spent.seconds:,.1f} s, {spent.cpu_seconds:,.1f} s of CPU{over}"
    memory = ""
    if spent.peak_bytes:
        memory = f", at most {spent.peak_bytes / MIB:,.0f} MiB"
    if spent.baseline_calls:
        tokens += before
    return tokens + time + memory


def known_lines(rows: Sequence[MetricRow], metrics: Sequence[Metric]) -> Iterator[str]:
    """Yield one line per setting with the share of edited facts that the unedited model knew.

    Nothing is yielded without rows of the unedited model.
    """
    chosen = {metric.name: metric for metric in known_metrics(metrics)}
    unedited = [
        row
        for row in rows
        if row.editor == UNEDITED and row.metric in chosen and row.mean is not None
    ]
    for setting, group in groupby(unedited, key=lambda row: row.setting):
        shares = dict.fromkeys(_known_share(row, chosen[row.metric]) for row in group)
        yield f"known by the unedited model, {one_line(setting)}: {'; '.join(shares)}"


def known_metrics(metrics: Sequence[Metric]) -> list[Metric]:
    """Return the metrics that measure whether a model knows the facts.

    They are the first metric of right answers, under each protocol of the run. For ReCoE, they are
    the metrics of the original answer before any edit.
    """
    if before := [metric for metric in metrics if metric.value == BEFORE]:
        return before
    means = [
        metric for metric in metrics if says_right(metric) and metric.per in ("record", "case")
    ]
    first = next(((metric.kinds, metric.per, metric.group) for metric in means), None)
    return [metric for metric in means if (metric.kinds, metric.per, metric.group) == first]


def _known_share(row: MetricRow, metric: Metric) -> str:
    protocol = ""
    if row.protocol:
        protocol = f", {row.protocol}"
    value = with_interval(row.mean, row.low, row.high, metric)
    return f"{one_line(plain_name(metric))} {value} of {row.n}{protocol}"


def consistency_table(rows: Sequence[MetricRow]) -> RenderableType:
    """Render CounterFact's RS (reference score): a row per editor with interval, n and unscored."""
    table = frame("editor", "RS", "95 % interval", "n", "unscored")
    for row in rows:
        figures = decimal(row.mean, 1), bounds(row.low, row.high, 1)
        table.add(row.editor, *figures, str(row.n), str(row.unscored))
    return titled(
        "RS: cosine similarity of generated and reference texts by tf-idf, in percent", table
    )


def _stacked(
    value: Estimate | None,
    digits: Callable[[float], str],
    reach: Callable[[float, float], str] | None = None,
) -> Text:
    """Format a mean with its interval in the line below."""
    if value is None or value.mean is None:
        return Text("-")
    text = Text(digits(value.mean))
    if value.low is not None and value.high is not None:
        if reach:
            ends = reach(value.low, value.high)
        else:
            ends = f"[{digits(value.low)}, {digits(value.high)}]"
        text.append(f"\n{ends}", style="dim")
    return text
