"""Registries whose components can be named on the command line."""

from typing import Any

from emend.memory.registry import Registry

# Registries whose components can be named on the command line; imported when they are listed.
LISTS: Registry[Registry[Any]] = Registry(
    kind="list",
    group="emend.lists",
    builtin={
        "editors": (
            "emend.editors.registry:EDITORS",
            "Methods that edit a model's knowledge (--editor).",
        ),
        "benchmarks": (
            "emend.evals.data.benchmarks.registry:BENCHMARKS",
            "Data sets with edits and probes (--benchmark).",
        ),
        "retrievers": (
            "emend.memory.retrieval.registry:RETRIEVERS",
            "Strategies for searching a memory (--retriever).",
        ),
        "scorers": (
            "emend.evals.metrics.scoring.registry:SCORERS",
            "Rules that score answers, with their required inputs (--protocol).",
        ),
        "judges": (
            "emend.graphs.registry:JUDGES",
            "Criteria by which chat models judge answers (--kind).",
        ),
        "models": ("emend.agents.llm:MODELS", "Sources of models (--model)."),
        "graphs": ("emend.graphs.registry:GRAPHS", "Graphs for emend graph."),
    },
)
# Registries whose components have graphs.
DRAWN = ("judges", "graphs", "editors", "constructions")


def registry_of(kind: str) -> Registry[Any]:
    """Return the registry of that kind from `LISTS`."""
    return LISTS.load(kind)
