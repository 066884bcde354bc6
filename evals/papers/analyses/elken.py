"""ELKEN's analyses: unknown answers, background knowledge, event types, and judged free answers."""

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
# Groups of factual questions in the paper's Tables 3 and 4.
PARTS: dict[str, dict[str, tuple[str, ...]]] = {
    "known": {"known": KNOWN, "unknown": UNKNOWN},
    "background": {"not needed": ("fact_direct", "fact_unknown"), "needed": ("fact_background",)},
}
# Kind of the questions that ask for background knowledge itself, without an event.
RECALLED = "background_knowledge"
OPEN = "tendency_open"
SCALES = ("correctness", "coherence", "comprehensiveness", "overall")
NO_FACTS = "no factual question was scored: run with --benchmark-option blocks=fact,tendency_m."
NO_TYPES = (
    "the run does not keep the types of its events: it was made by an older Emend; run it again."
)
NO_JUDGE = (
    "no judge has read the free answers: run with --benchmark-option blocks=tendency_g, then "
    "emend judge run RUN --judge PROVIDER:MODEL."
)
NO_RECALL = (
    "the run does not measure the unedited model's background knowledge: add a run with --with "
    "that asks for it, emend run --benchmark elken --benchmark-option blocks=knowledge --editor "
    "unedited."
)


def known(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """Compare factual reliability for named new answers and for `unknown` (Table 3)."""
    return Analysis(
        title="Factual questions by whether the new answer is known or unknown",
        unit="right, %",
        rows=_parted(runs, "known"),
        picture=PlotStyle(x="answer after the event", y="right, %", limits=(0, 105)),
        notes=(
            "by the code's rule: a known answer must equal the name or an alias, otherwise the "
            "reply must say unknown",
        ),
    )


def background(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """Compare reliability by need of background knowledge, and return its recall (Table 4)."""
    rows = _parted(runs, "background", {"recalled without event": (RECALLED,)})
    recalled = any(row.label == "recalled without event" for row in rows)
    return Analysis(
        title="Factual questions by need of background knowledge, and recall of that knowledge",
        unit="right, %",
        rows=rows,
        picture=PlotStyle(x="background knowledge", y="right, %", limits=(0, 105)),
        notes=(
            "not needed: type 0, needed: type 1 with a name as the answer, as in the released code",
            *(() if recalled else (NO_RECALL,)),
        ),
    )


def _parted(
    runs: Sequence[Run], name: str, further: Mapping[str, tuple[str, ...]] | None = None
) -> tuple[AnalysisRow, ...]:
    """Return rows for each group of factual questions, and for optional further kinds."""
    bins, parts = Bins(runs, NO_FACTS), {**PARTS[name], **(further or {})}
    for run, record in records_of(runs):
        for label, kinds in parts.items():
            if record.kind in kinds:
                if record.kind == RECALLED:
                    case = record.probe
                else:
                    case = record.case
                bins.take(run, run.settings[0], label, record, "right", case)
    rows = bins.rows(tuple(parts))
    if not any(row.label in PARTS[name] for row in rows):
        raise Lacking(NO_FACTS)
    return rows


def by_event(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """Return reliability by event type, for factual questions and multiple-choice tendencies."""
    bins = Bins(runs, NO_FACTS)
    for run, record in records_of(runs):
        kind = run.case(record).tags.get("event_type")
        for task, kinds, output in (
            ("facts", FACTS, "right"),
            ("tendencies", ("tendency_m",), "option"),
        ):
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
        notes=(
            "lower-case types belong to factual questions, capitalised ones are topics of "
            "tendency questions",
        ),
    )


def tendency(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """Return the rates of full marks for free answers by judge scale (Tables 2, 5 and 15)."""
    bins = Bins(runs, NO_JUDGE)
    for run, record in records_of(runs, [OPEN]):
        for scale in SCALES:
            bins.take(run, run.settings[0], scale, record, f"{scale}_full")
    return Analysis(
        title="Free-form answers with full marks, by scale",
        unit="5 of 5, %",
        rows=bins.scored_rows(SCALES),
        picture=PlotStyle(x="scale", y="answers with full marks, %", limits=(0, 105)),
        notes=tuple(f"judgements: {run.judged}" for run in runs if run.judged),
    )


def _types_lack(inventory: Inventory) -> str:
    if not inventory.has(["right", "option"]):
        return NO_FACTS
    if any("event_type" in case.tags for case in inventory.run.cases.values()):
        return ""
    return NO_TYPES


KNOWN_UNKNOWN = AnalysisKind(("elken",), needs(NO_FACTS, ["right"], FACTS), known)
BACKGROUND = AnalysisKind(("elken",), needs(NO_FACTS, ["right"], FACTS), background)
EVENT_TYPE = AnalysisKind(("elken",), _types_lack, by_event)
TENDENCY = AnalysisKind(
    ("elken",), needs(NO_JUDGE, [f"{scale}_full" for scale in SCALES], [OPEN]), tendency
)
