"""ReCoE's analyses (section 5): perplexities, recall and coherence of thoughts, and schemes."""

from collections.abc import Sequence

from emend.evals.judging.judged_run import Run
from emend.evals.metrics.published.recoe import CONTAINS_OUTPUTS, EFFECTIVE, OUTPUTS
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

# Suffix of the kind of the probes that measure a record's facts.
FACTS = "_facts"
# Maximum number of dots drawn per panel, evenly sampled; the table covers all records.
DRAWN = 1500
GAPS = {"before": ("ppl_counter_before", "ppl_fact_before"), "after": ("ppl_counter", "ppl_fact")}
AXES = {"facts recalled": "recall_consistent", "coherent": "supported"}
NO_PERPLEXITY = (
    "the run has no perplexities: they need a model that gives probabilities (tiny or hf:FOLDER) "
    "and a run without --benchmark-option perplexity=0."
)
NO_JUDGE = (
    "no judge has read the chains of thought: run with --benchmark-option prompting=cot, then "
    "emend judge run RUN --judge PROVIDER:MODEL."
)
NO_FLIPS = "no question was scored: run ReCoE with a model that answers in words."


def perplexity(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """Compare PPL(CF) - PPL(F) before and after the edit (Figure 4).

    Each record is a dot; the rows include the share of effective edits.
    """
    shares, gaps = Bins(runs), Bins(runs)
    dots: dict[str, list[Dot]] = {}
    for run, record in records_of(runs):
        if not record.kind.endswith(FACTS):
            continue
        scheme = record.kind.removesuffix(FACTS)
        shares.take(run, "effective edits, %", scheme, record, EFFECTIVE)
        if EFFECTIVE not in record.values:
            continue
        by_time = {
            when: record.values[counter] - record.values[fact]
            for when, (counter, fact) in GAPS.items()
        }
        for when, gap in by_time.items():
            gaps.add(run, f"PPL(CF) - PPL(F) {when}", scheme, record, gap)
        panel = panel_name(run, runs, record.editor)
        dot = Dot(
            panel=panel,
            x=by_time["before"],
            y=by_time["after"],
            marked=bool(record.values[EFFECTIVE]),
        )
        dots.setdefault(panel, []).append(dot)
    if not dots:
        raise Lacking(NO_PERPLEXITY)
    return Analysis(
        title="Perplexity of counterfactuals minus perplexity of facts, before and after the edit",
        unit="",
        rows=(*shares.rows(), *gaps.rows(scale=1.0)),
        picture=PlotStyle(form="scatter", x="PPL(CF) - PPL(F) before", y="PPL(CF) - PPL(F) after"),
        dots=tuple(
            dot for by_time in dots.values() for dot in by_time[:: -(-len(by_time) // DRAWN)]
        ),
        notes=(
            "an edit is effective if the difference is below 0 and below its value before the edit",
        ),
    )


def recall_coherence(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """Compare the shares of recalled facts and of coherent chains (Figure 5 and Table 5).

    Rows are per editor and scheme.
    """
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
            x="facts of the chain of thought consistent with the edit, %",
            y="chains of thought that support their answer, %",
            axes=("facts recalled", "coherent"),
            limits=(0, 105),
        ),
        notes=(
            "recalled: share of a chain's atomic facts that are consistent with the edit, mean "
            "over chains",
            *(f"judgements: {run.judged}" for run in runs if run.judged),
        ),
    )


def scheme(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """Return correct_flip and prior knowledge by reasoning scheme (Tables 3 and 4)."""
    bins = Bins(runs, NO_FLIPS)
    for run, record in records_of(runs):
        for known, flip in (OUTPUTS, CONTAINS_OUTPUTS):
            if known in record.values or known in record.unscored:
                for name in (flip, known):
                    # Questions that the unedited model got wrong are not unscored, but outside the
                    # paper's denominator.
                    if name in record.values or record.values.get(known, 1.0) == 1.0:
                        bins.take(run, name, record.kind, record, name)
    return Analysis(
        title="Flips to the new answer, and accuracy before the edit, by scheme",
        unit="%",
        rows=bins.rows(),
        picture=PlotStyle(x="scheme", y="%", limits=(0, 105)),
        notes=(
            "correct_flip: share of the questions that the unedited model answered correctly; "
            "other questions are excluded",
            "pre_edit: share of all questions, the same for all editors",
            "..._contains: searches the answer in the reply; the paper compares whole answers",
        ),
    )


PERPLEXITY = AnalysisKind(("recoe",), needs(NO_PERPLEXITY, [EFFECTIVE]), perplexity)
RECALL = AnalysisKind(("recoe",), needs(NO_JUDGE, AXES.values()), recall_coherence)
SCHEME = AnalysisKind(("recoe",), needs(NO_FLIPS, ["pre_edit"]), scheme)
