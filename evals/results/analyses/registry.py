"""The analyses by name, which ones a run can have, and their computation."""

from collections.abc import Sequence

from emend.evals.judging.judged_run import Run
from emend.evals.results.analyses.base import Analysis, AnalysisKind, AnalysisRequest, inventory
from emend.memory.errors import BadSettings
from emend.memory.registry import Registry

HERE = "emend.evals.results.analyses"
ANALYSES: Registry[AnalysisKind] = Registry(
    kind="analysis",
    group="emend.analyses",
    builtin={
        "drop": (f"{HERE}.akew:DROP", "AKEW: accuracy lost from struct to unstruct and extract."),
        "errors": (f"{HERE}.akew:ERROR_TYPES", "AKEW: failed edits by type of error."),
        "triples": (f"{HERE}.docter:TRIPLES", "DocTER: quality of triplets, and without a step."),
        "frequency": (f"{HERE}.docter:FREQUENCY", "DocTER: success by how often the fact is stated."),
        "position": (f"{HERE}.docter:POSITION", "DocTER: success by where the object is named first."),
        "crosslingual": (f"{HERE}.docter:CROSSLINGUAL", "DocTER: transfer by direction of languages."),
        "reasoning": (f"{HERE}.docter:REASONING", "DocTER: accuracy by label, and constant answers."),
        "known": (f"{HERE}.elken:KNOWN_UNKNOWN", "ELKEN: new answers that are known, or unknown."),
        "background": (f"{HERE}.elken:BACKGROUND", "ELKEN: with and without background knowledge."),
        "event-type": (f"{HERE}.elken:EVENT_TYPE", "ELKEN: reliability by type of event."),
        "tendency": (f"{HERE}.elken:TENDENCY", "ELKEN: full marks of free answers by scale."),
        "perplexity": (f"{HERE}.recoe:PERPLEXITY", "ReCoE: facts and counterfactuals before and after."),
        "recall-coherence": (f"{HERE}.recoe:RECALL", "ReCoE: fact recall against coherence of thoughts."),
        "scheme": (f"{HERE}.recoe:SCHEME", "ReCoE: correct_flip by reasoning scheme."),
        "retrieval": (f"{HERE}.general:RETRIEVAL", "Any: how often the right edit was found first."),
        "trajectory": (f"{HERE}.general:TRAJECTORY", "Any: tool calls, what they found, and needless ones."),
        "memory": (f"{HERE}.general:MEMORY", "Streams: right answers by hops, and by the age of the fact."),
        "scaling": (f"{HERE}.general:SCALING", "Any: a metric of several runs by model."),
    },
)
"""Analyses by name; each is an `AnalysisKind`."""


def analyse_runs(name: str, runs: Sequence[Run], request: AnalysisRequest | None = None) -> Analysis:
    """The analysis of one run, or of several beside each other.

    Raises:
        BadSettings: no such analysis, one of another benchmark, or two runs of the same name.
        Lacking: the run has not what it needs; says what gives it.
    """
    kind = ANALYSES.load(name)
    if lacking := [part for part in ("benchmarks", "compute", "lacks") if not hasattr(kind, part)]:
        raise BadSettings(
            f"analysis '{name}' has no {', no '.join(lacking)}: see docs/how-to/extend.md for what one is."
        )
    for run in runs:
        if kind.benchmarks and run.benchmark not in kind.benchmarks:
            raise BadSettings(
                f"'{name}' is an analysis of {' and '.join(kind.benchmarks)}, and '{run.name}' is a run of "
                f"{run.benchmark}. See what it can have: emend analyse {run.name}"
            )
    if len({run.name for run in runs}) < len(runs):
        raise BadSettings("two of the runs have the same folder name, so their rows could not be told apart.")
    analysis = kind.compute(runs, request or AnalysisRequest())
    return analysis.model_copy(update={"kind": analysis.kind or name})


def possible(run: Run) -> list[tuple[str, str, str]]:
    """Name, summary, and what the run lacks ("" if nothing) of each analysis that is meant for its benchmark."""
    contents = inventory(run)
    return [
        (row["name"], row["summary"], kind.lacks(contents))
        for row in ANALYSES.rows()
        if not (kind := ANALYSES.load(row["name"])).benchmarks or run.benchmark in kind.benchmarks
    ]
