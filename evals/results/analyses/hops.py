"""Hop-wise accuracy: whether every step to the answer of a multi-hop question was right, beside the
final answer.
"""

from collections.abc import Iterator, Sequence

from emend.evals.case import Record
from emend.evals.judging.judged_run import Run
from emend.evals.log.former_tags import has_hop_golds
from emend.evals.metrics.hops import HOP_SHARE, HOPS_RIGHT, MULTIHOP
from emend.evals.results.analyses.base import (
    Analysis,
    AnalysisKind,
    AnalysisRequest,
    Bins,
    Inventory,
    PlotStyle,
    first_value,
    records_of,
)

# Outputs that say whether the final answer is right.
RIGHT = ("em", "contains")
ALL_RIGHT, SHARE, FINAL = "all hops right", "hops right, share", "final answer right"
LUCKY, LOST = "right, though a hop is not", "wrong, though all hops are right"
LABELS = (ALL_RIGHT, SHARE, FINAL, LUCKY, LOST)
NO_CHAINS = "the run asks no multi-hop question: see emend list benchmarks for those that do."
NO_GOLDS = (
    "unscored: {run} stores no answers of the hops: it is older, or its benchmark has none; run "
    "it again with mquake, akew (mquake_cf) or own facts with 'hops'"
)
NO_HOPS = "unscored: {editor} does not answer in hops; mello and kg_walk do"


def hops(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """Return the share of multi-hop questions of which every hop was answered rightly, beside that
    of right final answers, and by the number of hops.

    Rows are per kind of probe and editor; the interval takes the wordings of a case together.
    """
    bins, reasons = Bins(runs, NO_CHAINS), dict[str, None]()
    for run, record in records_of(runs, fields=("tags", "hop_golds")):
        if not record.kind.startswith(MULTIHOP):
            continue
        for label, value in _numbers(record):
            bins.add(run, record.kind, label, record, value)
        if HOPS_RIGHT not in record.values:
            reasons[_reason(run, record)] = None
    return Analysis(
        title="Hops of multi-hop questions",
        unit="%",
        rows=bins.rows(LABELS),
        picture=PlotStyle(x="score", y="%", limits=(0, 105)),
        notes=(
            "protocol exact: as many hops as the question has, each with its right answer or an "
            "alias, normalised; the final answer by exact, else by contains",
            *reasons,
        ),
    )


def _numbers(record: Record) -> Iterator[tuple[str, float | None]]:
    """Yield each score of a record; None where it has none."""
    every, right = record.values.get(HOPS_RIGHT), first_value(record, RIGHT)
    yield ALL_RIGHT, every
    yield SHARE, record.values.get(HOP_SHARE)
    yield FINAL, right
    both = every is not None and right is not None
    yield LUCKY, float(every == 0 and right == 1) if both else None
    yield LOST, float(every == 1 and right == 0) if both else None
    if "hops" in record.tags:
        yield f"all hops right, {record.tags['hops']} hops", every


def _reason(run: Run, record: Record) -> str:
    """Return why a record has no score of its hops."""
    if HOPS_RIGHT in record.unscored:
        return f"unscored: {record.editor}: {record.unscored[HOPS_RIGHT]}"
    if not has_hop_golds(record, run.case(record).tags):
        return NO_GOLDS.format(run=run.name)
    return NO_HOPS.format(editor=record.editor)


def _lacks(inventory: Inventory) -> str:
    if any(kind.startswith(MULTIHOP) for kind, _ in inventory.outputs):
        return ""
    return NO_CHAINS


HOPS = AnalysisKind((), _lacks, hops)
