"""ELKEN's analyses: unknown answers, background knowledge, types of event, and what judges say of free answers."""

from collections.abc import Mapping, Sequence

from emend.evals.judging.judged_run import Run
from emend.evals.results.analyses.base import (
    Analysis,
    AnalysisKind,
    AnalysisRequest,
    AnalysisRow,
    Bins,
    Inventory,
    Lacking,
    PlotStyle,
    needs,
    ordered,
    records_of,
)

KNOWN, UNKNOWN = ("fact_direct", "fact_background"), ("fact_unknown", "fact_unknown_background")
FACTS = (*KNOWN, *UNKNOWN)
PARTS: dict[str, dict[str, tuple[str, ...]]] = {
    "known": {"known": KNOWN, "unknown": UNKNOWN},
    "background": {"not needed": ("fact_direct", "fact_unknown"), "needed": ("fact_background",)},
}
"""Groups of the factual questions in the paper's Tables 3 and 4."""
RECALLED = "background_knowledge"
"""AnalysisKind of the questions that ask for the background knowledge itself, without an event."""
OPEN = "tendency_open"
SCALES = ("correctness", "coherence", "comprehensiveness", "overall")
NO_FACTS = "no factual question was scored: run with --benchmark-option blocks=fact,tendency_m."
NO_TYPES = "the run does not keep the types of its events: it was made by an older Emend; run it again."
NO_JUDGE = (
    "no judge has read the free answers: run with --benchmark-option blocks=tendency_g, then "
    "emend judge run RUN --judge PROVIDER:MODEL."
)
NO_RECALL = (
    "how much of the background knowledge the unedited model recalls is not there: add a run with --with that asks for "
    "it, emend run --benchmark elken --benchmark-option blocks=knowledge --editor unedited."
)


def known(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """Factual reliability where the new answer is a name, and where it is `unknown` (Table 3)."""
    return Analysis(
        title="Factual questions whose new answer is known, or unknown",
        unit="right, %",
        rows=_parted(runs, "known"),
        picture=PlotStyle(x="the answer after the event", y="right, %", limits=(0, 105)),
        notes=("by the code's rule: a known answer is to be equal to the name or an alias, unknown to be said",),
    )


def background(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """Factual reliability with and without need of background knowledge, and how much of it is recalled (Table 4)."""
    rows = _parted(runs, "background", {"recalled without event": (RECALLED,)})
    recalled = any(row.label == "recalled without event" for row in rows)
    return Analysis(
        title="Factual questions by need of background knowledge, and its recall",
        unit="right, %",
        rows=rows,
        picture=PlotStyle(x="background knowledge", y="right, %", limits=(0, 105)),
        notes=(
            "not needed: type 0, needed: type 1 with a name as its answer, as the released code divides them",
            *(() if recalled else (NO_RECALL,)),
        ),
    )


def _parted(
    runs: Sequence[Run], name: str, further: Mapping[str, tuple[str, ...]] | None = None
) -> tuple[AnalysisRow, ...]:
    """Rows of each part of the factual questions, and of further kinds, which need not be there."""
    bins, parts = Bins(runs, NO_FACTS), {**PARTS[name], **(further or {})}
    for run, record in records_of(runs):
        for label, kinds in parts.items():
            if record.kind in kinds:
                case = record.probe if record.kind == RECALLED else record.case
                bins.take(run, run.settings[0], label, record, "right", case)
    rows = bins.rows(tuple(parts))
    if not any(row.label in PARTS[name] for row in rows):
        raise Lacking(NO_FACTS)
    return rows


def by_event(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """Reliability by type of event: factual questions, and tendencies as multiple choice."""
    bins = Bins(runs, NO_FACTS)
    for run, record in records_of(runs):
        kind = run.case(record).tags.get("event_type")
        for task, kinds, output in (("facts", FACTS, "right"), ("tendencies", ("tendency_m",), "option")):
            if record.kind in kinds and kind is None:
                bins.remedy = NO_TYPES
            elif record.kind in kinds:
                bins.take(run, task, str(kind), record, output)
    rows = bins.rows()
    return Analysis(
        title="Reliability by type of event",
        unit="right, %",
        rows=ordered(rows, sorted({row.label for row in rows}, key=str.casefold)),
        picture=PlotStyle(x="right, %", y="type of event", limits=(0, 105), form="across"),
        notes=("types in small letters are from the factual part, those with a capital are topics of tendencies",),
    )


def tendency(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """Full-mark rates of the free answers on each of the judge's scales (Tables 2, 5 and 15)."""
    bins = Bins(runs, NO_JUDGE)
    for run, record in records_of(runs, [OPEN]):
        for scale in SCALES:
            bins.take(run, run.settings[0], scale, record, f"{scale}_full")
    return Analysis(
        title="Free answers with full marks, by scale",
        unit="5 of 5, %",
        rows=bins.scored_rows(SCALES),
        picture=PlotStyle(x="scale", y="answers with full marks, %", limits=(0, 105)),
        notes=tuple(f"judgements: {run.judged}" for run in runs if run.judged),
    )


def _types_lack(inventory: Inventory) -> str:
    if not inventory.has(["right", "option"]):
        return NO_FACTS
    return "" if any("event_type" in case.tags for case in inventory.run.cases.values()) else NO_TYPES


KNOWN_UNKNOWN = AnalysisKind(("elken",), needs(NO_FACTS, ["right"], FACTS), known)
BACKGROUND = AnalysisKind(("elken",), needs(NO_FACTS, ["right"], FACTS), background)
EVENT_TYPE = AnalysisKind(("elken",), _types_lack, by_event)
TENDENCY = AnalysisKind(("elken",), needs(NO_JUDGE, [f"{scale}_full" for scale in SCALES], [OPEN]), tendency)
