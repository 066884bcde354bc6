"""The analysis of tool calls: what they found, needless and invalid ones, and how often repeats are all right."""

from collections.abc import Iterator, Sequence

from emend.evals.judging.judged_run import Run
from emend.evals.metrics.estimate import estimate
from emend.evals.metrics.trajectory import pass_hat_k
from emend.evals.results.analyses.base import (
    Analysis,
    AnalysisKind,
    AnalysisRequest,
    AnalysisRow,
    Bins,
    PlotStyle,
    needs,
    panel_name,
    records_of,
    row_of,
)

CALL_SCORES = {
    "calls": 1.0,
    "edits_found": 100.0,
    "all_edits_found": 100.0,
    "needless_calls": 1.0,
    "repeated_calls": 1.0,
    "invalid_calls": 1.0,
    "recovered": 100.0,
}
"""Outputs of `score_calls`, with the scale of each."""
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
        for output, scale in CALL_SCORES.items():
            if output in record.values:
                bins.add(run, record.kind, output.replace("_", " "), record, record.values[output] * scale)
        right = next((record.values[name] for name in ("contains", "em") if name in record.values), None)
        if right is not None:
            has_all = record.values["all_edits_found"]
            bins.add(run, record.kind, "right though not all found", record, 100.0 * right * (1 - has_all))
            bins.add(run, record.kind, "wrong though all found", record, 100.0 * (1 - right) * has_all)
    return Analysis(
        kind="trajectory",
        title="Tool calls",
        unit="% and calls a probe",
        rows=(*bins.rows(scale=1.0), *_passes(runs)),
        picture=PlotStyle(x="score", y="% and calls a probe", alike=False),
        notes=("a needless call returned no relevant edit that is new; a recovered one was made again rightly",),
    )


def _passes(runs: Sequence[Run]) -> Iterator[AnalysisRow]:
    """pass^k of probes that were asked several times."""
    repeats: dict[tuple[str, str], dict[tuple[str, str, str], list[float]]] = {}
    for run, record in records_of(runs, fields=("repeat",)):
        right = next((record.values[name] for name in ("contains", "em") if name in record.values), None)
        if "calls" in record.values and right is not None:
            probe = record.case, record.probe, record.setting
            repeats.setdefault((panel_name(run, runs, record.kind), record.editor), {}).setdefault(probe, []).append(
                right
            )
    for (panel, editor), probes in repeats.items():
        attempts = min(len(values) for values in probes.values())
        for k in range(1, attempts + 1) if attempts > 1 else ():
            chances = [100.0 * pass_hat_k(round(sum(values)), len(values), k) for values in probes.values()]
            yield row_of((panel, f"pass^{k}", editor), estimate(chances, [case for case, *_ in probes]))


TRAJECTORY = AnalysisKind((), needs(NO_CALLS, ["calls"]), trajectory)
