"""Analyses that any benchmark's run can have: retrieval, one metric over several runs, streams and tool calls."""

import math
import re
from bisect import bisect
from collections.abc import Iterator, Sequence

from emend.evals.case import Metric
from emend.evals.judging.judged_run import Run
from emend.evals.metrics.agents import ABSTAINS, pass_hat_k
from emend.evals.metrics.estimate import estimate
from emend.evals.results.aggregate.columns import estimate_of
from emend.evals.results.aggregate.rows import gather_run
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
EMBEDDED = 0.0024
"""Billions of parameters of the embedded model, whose name tells none."""
NO_SEARCH = (
    "no editor of the run searched a memory for edits that are known to be right: add one that retrieves, for example "
    "--editor rag."
)


def retrieval(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """Share of probes whose first retrieved entry is the right edit, per setting, kind and editor (AKEW, Figure 4)."""
    bins = Bins(runs, NO_SEARCH)
    for run, record in records_of(runs):
        bins.take(run, record.kind, record.setting, record, HIT)
    return Analysis(
        title="Retrieval accuracy",
        unit="hit@1, %",
        rows=bins.rows(),
        picture=PlotStyle(x="setting", y="hit@1, %", limits=(0, 105)),
        notes=("the first entry found is of an edit that bears on the probe; probes out of scope have none",),
    )


def scaling(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """A metric of several runs by model, smallest first if the sizes are known (ReCoE, Figure 6)."""
    if len(runs) < 2:
        raise Lacking(ONE_RUN)
    metric = _metric(runs, request.metric)
    rows = [row for run in runs for row in _by_model(run, metric)]
    if not any(row.n for row in rows):
        raise Lacking(f"no run has a number for '{metric.name}': name another with --metric.")
    rows = _short(rows)
    sizes = {row.label: row.x for row in rows}
    places = {name: at for at, name in enumerate(sorted(sizes, key=lambda name: (sizes[name] or math.inf, name)))}
    known = all(sizes.values()) and len(set(sizes.values())) == len(sizes)
    small = known and max(size or 0.0 for size in sizes.values()) < 1
    if small:
        rows = [row.model_copy(update={"x": 1000 * (row.x or 0.0)}) for row in rows]
    rows.sort(key=lambda row: (row.panel, places[row.label], row.series))
    return Analysis(
        title=f"{metric.name} by model",
        unit="%" if metric.scale == 100 else metric.name,
        rows=tuple(rows),
        picture=PlotStyle(
            form="curve" if known else "bars",
            x=f"model by parameters, {'millions' if small else 'billions'}" if known else "model",
            y=f"{metric.name}, %" if metric.scale == 100 else metric.name,
            log=known,
        ),
        notes=(metric.summary,) if metric.summary else (),
    )


def _short(rows: list[AnalysisRow]) -> list[AnalysisRow]:
    """Models by the last part of their names, where that tells them apart."""
    names = {row.label: row.label.partition("@")[0].rstrip("/").rpartition("/")[2] for row in rows}
    if len(set(names.values())) < len(names):
        return rows
    return [row.model_copy(update={"label": names[row.label]}) for row in rows]


def _by_model(run: Run, metric: Metric) -> Iterator[AnalysisRow]:
    for group, columns in gather_run(run.folder, run.scoring).places.items():
        key = group.setting, run.model_name, group.editor
        yield row_of(key, estimate_of(columns, metric), size_of(run.model_name))


def size_of(model: str) -> float | None:
    """The parameters that a model's name tells, in billions: 13 of `tulu-13b`, 0.36 of `SmolLM2-360M`; else None."""
    if model == "tiny":
        return EMBEDDED
    matches = _SIZE.findall(model)
    return float(matches[-1][0]) / (1000 if matches[-1][1] in "mM" else 1) if matches else None


def _metric(runs: Sequence[Run], name: str) -> Metric:
    """The metric of that name, or the first that all runs report."""
    common = [metric for metric in runs[0].metrics if all(metric in run.metrics for run in runs)]
    if not common:
        raise BadSettings("the runs report no metric in common: give runs of one benchmark with the same options.")
    if not name:
        return common[0]
    matches = [metric for metric in common if metric.name == name]
    if not matches:
        raise BadSettings(f"no metric '{name}' in all of the runs: {nearest(name, [m.name for m in common])}")
    return matches[0]


RETRIEVAL = AnalysisKind((), needs(NO_SEARCH, [HIT]), retrieval)
SCALING = AnalysisKind((), lambda inventory: ONE_RUN, scaling)
NO_STREAM = "the run is over no stream: make one with emend stream new, and run emend stream run."
HOPS, AGE = "facts behind the answer", "turns since the last of them"
AGES = (10, 100, 1_000)
"""Numbers of turns below which facts are of one age."""
AGE_LABELS = (*(f"fewer than {age:,}" for age in AGES), f"{AGES[-1]:,} or more")


def memory(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """Right answers to questions that have one, by hops and by the age of the fact."""
    bins = Bins(runs, NO_STREAM)
    for run, record in records_of(runs, fields=("tags",)):
        if not record.tags.get(ABSTAINS):
            bins.take(run, HOPS, str(record.tags.get("hops", 1)), record, "correct")
            bins.take(run, AGE, AGE_LABELS[bisect(AGES, int(record.tags.get("age", 0)))], record, "correct")
    return Analysis(
        title="Right answers over a stream",
        unit="%",
        rows=bins.rows([*map(str, range(1, 10)), *AGE_LABELS]),
        picture=PlotStyle(x="", y="right, %", limits=(0, 105)),
        series="memory system",
        notes=("questions whose right answer is that it is not known are left out",),
    )


MEMORY = AnalysisKind((), needs(NO_STREAM, ["false_acceptance"]), memory)
RIGHT = ("contains", "em")
CALL_COUNTS = ("calls", "needless_calls", "repeated_calls", "invalid_calls")
CALL_SHARES = ("edits_found", "all_edits_found", "recovered")
"""Outputs of `score_calls`."""
NO_CALLS = (
    "no editor of the run called tools to find edits that are known to be right: add one that does, such as "
    "--editor agent with a model that calls tools."
)


def trajectory(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """Tool calls by kind of probe: what they found, needless and invalid ones, and answers against what was found.

    Shares are in percent, and calls in numbers a probe; with --repeats, pass^k says how often k repeats are all right.
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
            bins.add(run, record.kind, "right though not all found", record, right * (1 - has_all))
            bins.add(run, record.kind, "wrong though all found", record, (1 - right) * has_all)
    return Analysis(
        title="Tool calls",
        unit="% and calls a probe",
        rows=(*bins.rows(counts=[name.replace("_", " ") for name in CALL_COUNTS]), *_passes(runs)),
        picture=PlotStyle(x="score", y="% and calls a probe", alike=False),
        notes=("a needless call returned no relevant edit that is new; a recovered one was made again rightly",),
    )


def _passes(runs: Sequence[Run]) -> Iterator[AnalysisRow]:
    """pass^k of probes that were asked several times."""
    repeats: dict[tuple[str, str], dict[tuple[str, str, str], list[float]]] = {}
    for run, record in records_of(runs, fields=("repeat",)):
        right = first_value(record, RIGHT)
        if "calls" in record.values and right is not None:
            probe = record.case, record.probe, record.setting
            repeats.setdefault((panel_name(run, runs, record.kind), record.editor), {}).setdefault(probe, []).append(
                right
            )
    for (panel, editor), probes in repeats.items():
        attempts = min(len(values) for values in probes.values())
        for k in range(1, attempts + 1) if attempts > 1 else ():
            chances = [pass_hat_k(round(sum(values)), len(values), k) for values in probes.values()]
            yield row_of((panel, f"pass^{k}", editor), estimate(chances, [case for case, *_ in probes]).scaled(100))


TRAJECTORY = AnalysisKind((), needs(NO_CALLS, ["calls"]), trajectory)
