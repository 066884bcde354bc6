"""Tables beside a report's metrics: what a sequence of edits forgets, perplexity of held-out texts, costs."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby

from rich.console import Group, RenderableType
from rich.text import Text

from emend.evals.case import Metric
from emend.evals.metrics.estimate import Estimate
from emend.evals.metrics.scores import RIGHT_VALUES, plain_name
from emend.evals.results.aggregate.columns import MetricRow
from emend.evals.results.aggregate.costs import MIB, PER_EDIT, PER_PROBE, AbilityRow, PerplexityRow, RunCost
from emend.evals.results.aggregate.rows import ForgettingRow
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
    without_empty,
)
from emend.memory.escape import one_line

PERCENT = "{:.1f}".format
UNEDITED, BEFORE = "unedited", "pre_edit"
"""The editor that edits nothing, and the score of ReCoE that says whether it gives the original answer."""


def forgetting_tables(rows: Sequence[ForgettingRow], metrics: Sequence[Metric]) -> Iterator[tuple[str, Frame]]:
    """Title and table for each setting and metric of a sequence of edits."""
    known = {metric.name: metric for metric in metrics}
    for (name, setting), group in groupby(rows, key=lambda row: (row.metric, row.setting)):
        metric = known[name]
        summary = f": {metric.summary}" if metric.summary else ""
        table = frame("editor", "edits", "n", "at own edit", "now", "unscored")
        cell = partial(_stacked, digits=partial(number, metric=metric), reach=partial(interval, metric=metric))
        for row in group:
            table.add(row.editor, str(row.standing), str(row.n), cell(row.first), cell(row), unscored(row.unscored))
        yield one_line(f"{name} by number of applied edits, {setting}{summary}"), table


def sequence_tables(rows: Sequence[ForgettingRow], metrics: Sequence[Metric]) -> Iterator[tuple[str, Frame]]:
    """Title and table for each setting: these metrics over all cases so far, asked again at each checkpoint."""
    known = {metric.name: metric for metric in metrics if any(row.metric == metric.name for row in rows)}
    for setting in dict.fromkeys(row.setting for row in rows if row.metric in known):
        points: dict[tuple[str, int], dict[str, ForgettingRow]] = {}
        for row in rows:
            if row.setting == setting and row.metric in known:
                points.setdefault((row.editor, row.standing), {})[row.metric] = row
        heads = (f"{plain_name(metric)}\n{metric.protocol}".rstrip() for metric in known.values())
        table = frame("editor", "edits", "n", *heads, "unscored", names=2)
        for (editor, standing), cells in points.items():
            counts = sorted({row.n for row in cells.values()})
            means = [
                _stacked(cells.get(name), partial(number, metric=metric), partial(interval, metric=metric))
                for name, metric in known.items()
            ]
            n = " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
            table.add(editor, str(standing), n, *means, unscored(max(row.unscored for row in cells.values())))
        yield one_line(f"all cases so far, asked again after these numbers of edits, {setting}"), table


def perplexity_tables(rows: Sequence[PerplexityRow]) -> Iterator[tuple[str, RenderableType]]:
    """Title and table for each setting and mode."""
    for (setting, mode), group in groupby(rows, key=lambda row: (row.setting, row.mode)):
        members = list(group)
        over = "sets of edits" if any(row.over == "edits" for row in members) else "texts"
        title = f"perplexity of held-out texts, {setting}, mode {mode}, n and intervals over {over}"
        before = ", before over texts" if over != "texts" else ""
        yield one_line(title + before), _perplexities(members, mode.startswith("sequential"))


def _perplexities(rows: Sequence[PerplexityRow], sequence: bool) -> RenderableType:
    table = frame("editor", *(["edits"] if sequence else []), "n", "before", "edited", "drift", "growth", "unscored")
    for row in rows:
        standing = [str(row.standing)] if sequence else []
        figures = (_stacked(value, perplexity_text) for value in (row.before, row))
        further = ("" if value is None else f"{value:.3g}" for value in (row.drift, row.growth))
        table.add(row.editor, *standing, str(row.n), *figures, *further, unscored(row.unscored))
    return _with_reasons(without_empty(table, "drift", "growth"), rows)


def _with_reasons(table: Frame, rows: Sequence[PerplexityRow | AbilityRow]) -> RenderableType:
    """The table, with the reasons why something is unscored below it."""
    reasons = dict.fromkeys(one_line(row.reason, 160) for row in rows if row.reason)
    return Group(table, *dim(["unscored: " + "; ".join(reasons)] if reasons else []))


def ability_tables(rows: Sequence[AbilityRow]) -> Iterator[tuple[str, RenderableType]]:
    """Title and table for each setting and mode."""
    for (setting, mode), group in groupby(rows, key=lambda row: (row.setting, row.mode)):
        title = f"ability, {setting}, mode {mode}, percent, n and intervals over questions"
        yield one_line(title), _abilities(list(group), mode.startswith("sequential"))


def _abilities(rows: Sequence[AbilityRow], sequence: bool) -> RenderableType:
    edits = ["edits"] if sequence else []
    table = frame("editor", "task", "metric", *edits, "n", "before", "edited", "change", "unscored", names=3)
    for row in rows:
        change = _stacked(row.change_estimate, "{:+.1f}".format)
        figures = [_stacked(row.before, PERCENT), _stacked(row, PERCENT), change]
        labels = [row.editor, one_line(row.task), row.metric, *([str(row.standing)] if sequence else []), str(row.n)]
        table.add(*labels, *figures, unscored(row.unscored))
    return _with_reasons(table, rows)


def perplexity_text(value: float) -> str:
    """A perplexity with the digits that it is worth."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def cost_tables(rows: Sequence[MetricRow]) -> Iterator[tuple[str, Frame]]:
    """Title and table for probes and for edits, for each setting and mode."""
    for (setting, mode), group in groupby(rows, key=lambda row: (row.setting, row.mode)):
        cells = {(row.editor, row.metric): row for row in group}
        for counted, metrics in (("probe", PER_PROBE), ("edit", PER_EDIT)):
            names = [metric.name for metric in metrics if any(name == metric.name for _, name in cells)]
            if names:
                table = frame("editor", "n", *names)
                for editor in dict.fromkeys(editor for editor, _ in cells):
                    row = [cells.get((editor, name)) for name in names]
                    table.add(editor, str(row[0].n if row[0] else 0), *(_stacked(cost, cost_text) for cost in row))
                yield one_line(f"cost of one {counted}, {setting}, mode {mode}"), table


def cost_text(value: float) -> str:
    """A cost, or the end of an axis, with the digits that it is worth."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 1 else f"{round(value, 4):.2g}"


def spent_line(spent: RunCost) -> str:
    """Tokens, calls, time and memory of a run in one line."""
    tokens = f"{spent.input_tokens:,} tokens in, {spent.output_tokens:,} out, {spent.calls:,} calls"
    tokens += f", of which {spent.untold:,} did not report their tokens" if spent.untold else ""
    before = f" ({spent.baseline_tokens:,} tokens and {spent.baseline_calls:,} calls of them before any edit)"
    over = f" (summed over {spent.processes} processes)" if spent.processes > 1 else ""
    time = f"; {spent.seconds:,.1f} s, {spent.cpu_seconds:,.1f} s of CPU{over}" if spent.processes else ""
    memory = f", at most {spent.peak_bytes / MIB:,.0f} MiB" if spent.peak_bytes else ""
    return tokens + (before if spent.baseline_calls else "") + time + memory


def known_lines(rows: Sequence[MetricRow], metrics: Sequence[Metric]) -> Iterator[str]:
    """The share of edited facts that the unedited model knew, a line for each setting; none without its rows."""
    chosen = {metric.name: metric for metric in known_metrics(metrics)}
    unedited = [row for row in rows if row.editor == UNEDITED and row.metric in chosen and row.mean is not None]
    for setting, group in groupby(unedited, key=lambda row: row.setting):
        shares = dict.fromkeys(_known_share(row, chosen[row.metric]) for row in group)
        yield f"known to the unedited model, {one_line(setting)}: {'; '.join(shares)}"


def known_metrics(metrics: Sequence[Metric]) -> list[Metric]:
    """The metrics that say whether a model knows the facts: the first of right answers, under each protocol of the run.

    Of ReCoE those of the original answer, before any edit.
    """
    if before := [metric for metric in metrics if metric.value == BEFORE]:
        return before
    means = [metric for metric in metrics if metric.value in RIGHT_VALUES and metric.per in ("record", "case")]
    first = next(((metric.kinds, metric.per, metric.group) for metric in means), None)
    return [metric for metric in means if (metric.kinds, metric.per, metric.group) == first]


def _known_share(row: MetricRow, metric: Metric) -> str:
    reach = "" if row.low is None or row.high is None else f" {interval(row.low, row.high, metric)}"
    protocol = f", {row.protocol}" if row.protocol else ""
    return f"{one_line(plain_name(metric))} {number(row.mean or 0.0, metric)}{reach} of {row.n}{protocol}"


def consistency_table(rows: Sequence[MetricRow]) -> RenderableType:
    """Table with a row per editor: CounterFact's RS with its interval, n and unscored."""
    table = frame("editor", "RS", "95 % interval", "n", "unscored")
    for row in rows:
        figures = decimal(row.mean, 1), bounds(row.low, row.high, 1)
        table.add(row.editor, *figures, str(row.n), str(row.unscored))
    return titled("RS: generated texts against reference texts, cosine of tf-idf (percent)", table)


def _stacked(
    value: Estimate | None,
    digits: Callable[[float], str],
    reach: Callable[[float, float], str] | None = None,
) -> Text:
    """A mean, and its interval below."""
    if value is None or value.mean is None:
        return Text("-")
    text = Text(digits(value.mean))
    if value.low is not None and value.high is not None:
        ends = reach(value.low, value.high) if reach else f"[{digits(value.low)}, {digits(value.high)}]"
        text.append(f"\n{ends}", style="dim")
    return text
