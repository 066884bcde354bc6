"""ReCoE's analyses: perplexities before and after, recall and coherence of thoughts, and each scheme (section 5)."""

from collections.abc import Sequence

from emend.evals.judging.judged_run import Run
from emend.evals.metrics.recoe import CONTAINS_OUTPUTS, EFFECTIVE, OUTPUTS
from emend.evals.results.analyses.base import (
    Analysis,
    AnalysisKind,
    AnalysisRequest,
    Bins,
    Dot,
    Lacking,
    PlotStyle,
    needs,
    panel_name,
    records_of,
)

FACTS = "_facts"
"""Ends the kind of the probe that measures a record's facts."""
DRAWN = 1500
"""Largest number of records drawn in a panel, evenly over the run; the table has all."""
GAPS = {"before": ("ppl_counter_before", "ppl_fact_before"), "after": ("ppl_counter", "ppl_fact")}
AXES = {"facts recalled": "recall_consistent", "coherent": "supported"}
NO_PERPLEXITY = (
    "no perplexities: they need a model that gives probabilities (tiny or hf:FOLDER) and a run without "
    "--benchmark-option perplexity=0."
)
NO_JUDGE = (
    "no judge has read the chains of thought: run with --benchmark-option prompting=cot, then "
    "emend judge run RUN --judge PROVIDER:MODEL."
)
NO_FLIPS = "no question was scored: run ReCoE with a model that answers in words."


def perplexity(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """PPL(CF) - PPL(F) after the edit against before, each record a dot, and the effective share (Figure 4)."""
    shares, gaps = Bins(runs), Bins(runs)
    dots: dict[str, list[Dot]] = {}
    for run, record in records_of(runs):
        if not record.kind.endswith(FACTS):
            continue
        scheme = record.kind.removesuffix(FACTS)
        shares.take(run, "effective edits, %", scheme, record, EFFECTIVE)
        if EFFECTIVE not in record.values:
            continue
        by_time = {when: record.values[counter] - record.values[fact] for when, (counter, fact) in GAPS.items()}
        for when, gap in by_time.items():
            gaps.add(run, f"PPL(CF) - PPL(F) {when}", scheme, record, gap)
        panel = panel_name(run, runs, record.editor)
        dot = Dot(panel=panel, x=by_time["before"], y=by_time["after"], marked=bool(record.values[EFFECTIVE]))
        dots.setdefault(panel, []).append(dot)
    if not dots:
        raise Lacking(NO_PERPLEXITY)
    return Analysis(
        title="Perplexity of counterfactuals less that of facts, before and after the edit",
        unit="",
        rows=(*shares.rows(), *gaps.rows(scale=1.0)),
        picture=PlotStyle(form="scatter", x="PPL(CF) - PPL(F) before", y="PPL(CF) - PPL(F) after"),
        dots=tuple(dot for by_time in dots.values() for dot in by_time[:: -(-len(by_time) // DRAWN)]),
        notes=("an edit is effective where the difference falls below 0, and below what it was before",),
    )


def recall_coherence(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """Share of recalled facts against share of coherent chains, by editor and scheme (Figure 5 and Table 5)."""
    bins = Bins(runs, NO_JUDGE)
    for run, record in records_of(runs):
        for name, output in AXES.items():
            bins.take(run, name, record.kind, record, output)
    return Analysis(
        title="Fact recall and coherence of the chains of thought",
        unit="%",
        rows=bins.scored_rows(),
        picture=PlotStyle(
            form="plane",
            x="facts in the thoughts that follow from the edit, %",
            y="chains that support their answer, %",
            axes=("facts recalled", "coherent"),
            limits=(0, 105),
        ),
        notes=(
            "recalled: of the atomic facts in a chain, the share consistent with the edit; mean over chains",
            *(f"judgements: {run.judged}" for run in runs if run.judged),
        ),
    )


def scheme(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """correct_flip by reasoning scheme, and what the unedited model knew (Tables 3 and 4)."""
    bins = Bins(runs, NO_FLIPS)
    for run, record in records_of(runs):
        for known, flip in (OUTPUTS, CONTAINS_OUTPUTS):
            if known in record.values or known in record.unscored:
                for name in (flip, known):
                    # What the unedited model got wrong is not unscored, but outside the paper's denominator.
                    if name in record.values or record.values.get(known, 1.0) == 1.0:
                        bins.take(run, name, record.kind, record, name)
    return Analysis(
        title="Answers that turned to the new one, and answers known before, by scheme",
        unit="%",
        rows=bins.rows(),
        picture=PlotStyle(x="scheme", y="%", limits=(0, 105)),
        notes=(
            "correct_flip: of the questions that the unedited model answered right; those that it did not are left out",
            "pre_edit: of all questions, the same for every editor",
            "..._contains: by answers in sentences, where the paper compares whole answers",
        ),
    )


PERPLEXITY = AnalysisKind(("recoe",), needs(NO_PERPLEXITY, [EFFECTIVE]), perplexity)
RECALL = AnalysisKind(("recoe",), needs(NO_JUDGE, AXES.values()), recall_coherence)
SCHEME = AnalysisKind(("recoe",), needs(NO_FLIPS, ["pre_edit"]), scheme)
