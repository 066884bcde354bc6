"""The analyses by name, which ones a run can have, and their computation."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from emend.evals.judging.judged_run import Run
from emend.evals.results.analyses.base import Analysis, AnalysisRequest, inventory
from emend.memory.errors import BadSettings
from emend.memory.registry import Registry

if TYPE_CHECKING:
    from emend.evals.results.analyses.base import AnalysisKind


ANALYSES: "Registry[AnalysisKind]" = Registry(
    kind="analysis",
    group="emend.analyses",
    builtin={
        "drop": ("emend.evals.results.analyses.akew:DROP", "AKEW: accuracy lost from struct to unstruct and extract."),
        "errors": ("emend.evals.results.analyses.akew:ERROR_TYPES", "AKEW: failed edits by type of error."),
        "triples": (
            "emend.evals.results.analyses.docter:TRIPLES",
            "DocTER: quality of triplets, and without a step.",
        ),
        "frequency": (
            "emend.evals.results.analyses.docter:FREQUENCY",
            "DocTER: success by how often the fact is stated.",
        ),
        "position": (
            "emend.evals.results.analyses.docter:POSITION",
            "DocTER: success by where the object is named first.",
        ),
        "crosslingual": (
            "emend.evals.results.analyses.docter:CROSSLINGUAL",
            "DocTER: transfer by direction of languages.",
        ),
        "reasoning": (
            "emend.evals.results.analyses.docter:REASONING",
            "DocTER: accuracy by label, and constant answers.",
        ),
        "known": ("emend.evals.results.analyses.elken:KNOWN_UNKNOWN", "ELKEN: new answers that are known, or unknown."),
        "background": (
            "emend.evals.results.analyses.elken:BACKGROUND",
            "ELKEN: with and without background knowledge.",
        ),
        "event-type": ("emend.evals.results.analyses.elken:EVENT_TYPE", "ELKEN: reliability by type of event."),
        "tendency": ("emend.evals.results.analyses.elken:TENDENCY", "ELKEN: full marks of free answers by scale."),
        "perplexity": (
            "emend.evals.results.analyses.recoe:PERPLEXITY",
            "ReCoE: facts and counterfactuals before and after.",
        ),
        "recall-coherence": (
            "emend.evals.results.analyses.recoe:RECALL",
            "ReCoE: fact recall against coherence of thoughts.",
        ),
        "scheme": ("emend.evals.results.analyses.recoe:SCHEME", "ReCoE: correct_flip by reasoning scheme."),
        "retrieval": (
            "emend.evals.results.analyses.general:RETRIEVAL",
            "Any: how often the right edit was found first.",
        ),
        "trajectory": (
            "emend.evals.results.analyses.general:TRAJECTORY",
            "Any: tool calls, what they found, and needless ones.",
        ),
        "memory": (
            "emend.evals.results.analyses.general:MEMORY",
            "Streams: right answers by hops, and by the age of the fact.",
        ),
        "scaling": ("emend.evals.results.analyses.general:SCALING", "Any: a metric of several runs by model."),
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
    return kind.compute(runs, request or AnalysisRequest())


def possible(run: Run) -> list[tuple[str, str, str]]:
    """Name, summary, and what the run lacks ("" if nothing) of each analysis that is meant for its benchmark."""
    contents = inventory(run)
    rows = [(row["name"], row["summary"]) for row in ANALYSES.rows()]
    kinds = [(name, summary, ANALYSES.load(name)) for name, summary in rows]
    return [
        (name, summary, kind.lacks(contents))
        for name, summary, kind in kinds
        if not kind.benchmarks or run.benchmark in kind.benchmarks
    ]
