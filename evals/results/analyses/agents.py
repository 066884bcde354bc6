"""Analyses of runs over streams, and of tool calls: what they found, needless and invalid ones."""

from collections.abc import Iterator, Sequence

from emend.evals.judging.judged_run import Run
from emend.evals.metrics.estimate import estimate
from emend.evals.metrics.stream_answers import ABSTAINS
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

NO_STREAM = "the run is over no stream: make one with emend stream new, and run emend stream run."
HOPS, AGE = "facts behind the answer", "turns since the last of them"
AGES = (10, 100, 1_000)
"""Numbers of turns below which facts are of one age."""
OLDEST = f"{AGES[-1]:,} or more"
AGE_LABELS = (*(f"fewer than {age:,}" for age in AGES), OLDEST)


def memory(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """Right answers to questions that have one, by hops and by the age of the fact."""
    bins = Bins(runs, NO_STREAM)
    for run, record in records_of(runs, fields=("tags",)):
        if not record.tags.get(ABSTAINS):
            bins.take(run, HOPS, str(record.tags.get("hops", 1)), record, "correct")
            bins.take(run, AGE, _age_label(int(record.tags.get("age", 0))), record, "correct")
    return Analysis(
        kind="memory",
        title="Right answers over a stream",
        unit="%",
        rows=bins.rows([*map(str, range(1, 10)), *AGE_LABELS]),
        picture=PlotStyle(x="", y="right, %", limits=(0, 105)),
        series="memory system",
        notes=("questions whose right answer is that it is not known are left out",),
    )


def _age_label(age: int) -> str:
    return next((label for limit, label in zip(AGES, AGE_LABELS, strict=False) if age < limit), OLDEST)


MEMORY = AnalysisKind((), needs(NO_STREAM, ["false_acceptance"]), memory)


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
