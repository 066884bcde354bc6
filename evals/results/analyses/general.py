"""Analyses of any benchmark's runs: retrieval, a metric by model, and tool calls."""

import math
import re
from collections.abc import Iterator, Sequence

from emend.evals.case import Metric
from emend.evals.judging.judged_run import Run
from emend.evals.metrics.estimate import estimate, pass_hat_k
from emend.evals.results.aggregate.columns import estimate_of
from emend.evals.results.aggregate.record_table import gather_run
from emend.evals.results.analyses.base import (
    Analysis,
    AnalysisKind,
    AnalysisRequest,
    AnalysisRow,
    Bins,
    Lacking,
    PlotStyle,
    first_value,
    needs,
    panel_name,
    records_of,
    row_of,
)
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest

HIT = "hit@1"
ONE_RUN = "one run has one model: add runs of other models with --with RUN."
_SIZE = re.compile(r"(?<![A-Za-z0-9.])(\d+(?:\.\d+)?)([bBmM])(?![A-Za-z0-9])")
# Billions of parameters of the bundled `tiny` model, whose name contains no size.
EMBEDDED = 0.0024
NO_SEARCH = (
    "no editor of the run searched a memory for edits that are known to be right: add one that "
    "retrieves, for example --editor rag."
)


def retrieval(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """Return the share of probes whose first retrieved entry is the right edit (AKEW, Figure 4).

    Rows are per setting, kind of probe and editor.
    """
    bins = Bins(runs, NO_SEARCH)
    for run, record in records_of(runs):
        bins.take(run, record.kind, record.setting, record, HIT)
    return Analysis(
        title="Retrieval accuracy",
        unit="hit@1, %",
        rows=bins.rows(),
        picture=PlotStyle(x="setting", y="hit@1, %", limits=(0, 105)),
        notes=(
            "share of probes whose first retrieved entry is a relevant edit; probes out of scope "
            "have no relevant edit",
        ),
    )


def scaling(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """Return a metric of several runs by model (ReCoE, Figure 6), smallest model first.

    Models are sorted by name if their sizes are unknown.
    """
    if len(runs) < 2:
        raise Lacking(ONE_RUN)
    metric = _metric(runs, request.metric)
    rows = [row for run in runs for row in _by_model(run, metric)]
    if not any(row.n for row in rows):
        raise Lacking(f"no run has a number for '{metric.name}': name another with --metric.")
    rows = _short(rows)
    sizes = {row.label: row.x for row in rows}
    smallest_first = sorted(sizes, key=lambda name: (sizes[name] or math.inf, name))
    ranks = {name: rank for rank, name in enumerate(smallest_first)}
    rows.sort(key=lambda row: (row.panel, ranks[row.label], row.series))
    if not all(sizes.values()) or len(set(sizes.values())) < len(sizes):
        return _scaling_analysis(metric, rows, form="bars", x="model")
    unit = "billions"
    if max(size or 0.0 for size in sizes.values()) < 1:
        unit = "millions"
        rows = [row.model_copy(update={"x": 1000 * (row.x or 0.0)}) for row in rows]
    return _scaling_analysis(metric, rows, form="curve", x=f"model by parameters, {unit}")


def _scaling_analysis(
    metric: Metric, rows: Sequence[AnalysisRow], *, form: str, x: str
) -> Analysis:
    """Return the analysis of `scaling`; a curve over model sizes has a logarithmic axis."""
    unit, y, notes = metric.name, metric.name, tuple[str, ...]()
    if metric.scale == 100:
        unit, y = "%", f"{metric.name}, %"
    if metric.summary:
        notes = (metric.summary,)
    return Analysis(
        title=f"{metric.name} by model",
        unit=unit,
        rows=tuple(rows),
        picture=PlotStyle(form=form, x=x, y=y, log=form == "curve"),
        notes=notes,
    )


def _short(rows: list[AnalysisRow]) -> list[AnalysisRow]:
    """Shorten model names to their last path component if the names stay distinct."""
    names = {row.label: row.label.partition("@")[0].rstrip("/").rpartition("/")[2] for row in rows}
    if len(set(names.values())) < len(names):
        return rows
    return [row.model_copy(update={"label": names[row.label]}) for row in rows]


def _by_model(run: Run, metric: Metric) -> Iterator[AnalysisRow]:
    for group, columns in gather_run(run.folder, run.scoring).places.items():
        key = group.setting, run.model_name, group.editor
        yield row_of(key, estimate_of(columns, metric), size_of(run.model_name))


def size_of(model: str) -> float | None:
    """Return the billions of parameters in a model's name; None if it contains no size.

    `tulu-13b` gives 13, and `SmolLM2-360M` 0.36.
    """
    if model == "tiny":
        return EMBEDDED
    matches = _SIZE.findall(model)
    if matches:
        return float(matches[-1][0]) / (1000 if matches[-1][1] in "mM" else 1)
    return None


def _metric(runs: Sequence[Run], name: str) -> Metric:
    """Return the metric of that name, or by default the first that all runs report."""
    common = list(runs[0].metrics)
    for run in runs[1:]:
        measured = {_measure(metric) for metric in run.metrics}
        common = [metric for metric in common if _measure(metric) in measured]
    if not common:
        raise BadSettings(
            "the runs report no metric in common: give runs of one benchmark with the same options."
        )
    if not name:
        return common[0]
    matches = [metric for metric in common if metric.name == name]
    if not matches:
        raise BadSettings(
            f"no metric '{name}' in all of the runs: {nearest(name, [m.name for m in common])}"
        )
    return matches[0]


def _measure(metric: Metric) -> Metric:
    """Return the metric without its description, whose wording may differ between versions."""
    return metric.model_copy(update={"summary": ""})


RETRIEVAL = AnalysisKind((), needs(NO_SEARCH, [HIT]), retrieval)
SCALING = AnalysisKind((), lambda inventory: ONE_RUN, scaling)
RIGHT = ("contains", "em")
CALL_COUNTS = ("calls", "needless_calls", "repeated_calls", "invalid_calls")
# Outputs of `score_calls`.
CALL_SHARES = ("edits_found", "all_edits_found", "recovered")
NO_CALLS = (
    "no editor of the run called tools to find edits that are known to be right: add one that "
    "does, such as --editor agent with a model that calls tools."
)


def trajectory(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """Return tool calls by kind of probe: results, needless and invalid calls, and answers.

    Answers are compared with what the calls found. Shares are in percent, and calls in numbers per
    probe; with --repeats, pass^k is the chance that k repeats are all right.
    """
    bins = Bins(runs, NO_CALLS)
    for run, record in records_of(runs, fields=("repeat",)):
        if "calls" not in record.values:
            continue
        for output in (*CALL_COUNTS, *CALL_SHARES):
            if output in record.values:
                bins.add(run, record.kind, output.replace("_", " "), record, record.values[output])
        right = first_value(record, RIGHT)
        if right is not None:
            has_all = record.values["all_edits_found"]
            bins.add(run, record.kind, "right, not all edits found", record, right * (1 - has_all))
            bins.add(run, record.kind, "wrong, all edits found", record, (1 - right) * has_all)
    return Analysis(
        title="Tool calls",
        unit="%, and calls per probe",
        rows=(*bins.rows(counts=[name.replace("_", " ") for name in CALL_COUNTS]), *_passes(runs)),
        picture=PlotStyle(x="score", y="%, and calls per probe", alike=False),
        notes=(
            "a needless call returned no new relevant edit; a recovered call was invalid and then "
            "repeated correctly",
        ),
    )


def _passes(runs: Sequence[Run]) -> Iterator[AnalysisRow]:
    """Yield pass^k of probes that were asked several times."""
    repeats: dict[tuple[str, str], dict[tuple[str, str, str], list[float]]] = {}
    for run, record in records_of(runs, fields=("repeat",)):
        right = first_value(record, RIGHT)
        if "calls" in record.values and right is not None:
            probe = record.case, record.probe, record.setting
            repeats.setdefault((panel_name(run, runs, record.kind), record.editor), {}).setdefault(
                probe, []
            ).append(right)
    for (panel, editor), probes in repeats.items():
        attempts = min(len(values) for values in probes.values())
        for k in range(1, attempts + 1) if attempts > 1 else ():
            chances = [pass_hat_k(round(sum(values)), len(values), k) for values in probes.values()]
            yield row_of(
                (panel, f"pass^{k}", editor),
                estimate(chances, [case for case, *_ in probes]).scaled(100),
            )


TRAJECTORY = AnalysisKind((), needs(NO_CALLS, ["calls"]), trajectory)
