"""The analyses by name."""

from typing import TYPE_CHECKING

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
            "emend.evals.results.analyses.extraction:TRIPLES",
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
            "emend.evals.results.analyses.trajectory:TRAJECTORY",
            "Any: tool calls, what they found, and needless ones.",
        ),
        "memory": (
            "emend.evals.results.analyses.stream:MEMORY",
            "Streams: right answers by hops, and by the age of the fact.",
        ),
        "scaling": ("emend.evals.results.analyses.general:SCALING", "Any: a metric of several runs by model."),
    },
)
"""Analyses by name; each is an `AnalysisKind`."""
