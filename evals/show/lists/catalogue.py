"""Registries of what can be named on the command line."""

from importlib import import_module
from typing import Any

from emend.memory.registry import Registry

KINDS = {
    "editors": ("emend.editors.registry:EDITORS", "Methods that edit a model's knowledge (--editor)."),
    "benchmarks": ("emend.evals.data.benchmarks.registry:BENCHMARKS", "Data sets with edits and probes (--benchmark)."),
    "systems": ("emend.evals.stream.system:SYSTEMS", "Memory systems that streams are asked of (--system)."),
    "retrievers": ("emend.memory.retrieval.registry:RETRIEVERS", "Strategies that search a memory (--retriever)."),
    "judges": ("emend.graphs.registry:JUDGES", "Criteria by which chat models judge answers (--kind)."),
    "models": ("emend.agents.llm:MODELS", "Where models come from (--model)."),
    "constructions": ("emend.graphs.registry:CONSTRUCTIONS", "Kinds of benchmarks that emend build makes."),
    "graphs": ("emend.graphs.registry:GRAPHS", "Graphs that emend graph draws."),
}
"""Place and summary of each registry; a registry is imported when it is listed."""


def registry_of(kind: str) -> Registry[Any]:
    """The registry of that kind, one of `KINDS`."""
    module, _, name = KINDS[kind][0].partition(":")
    return getattr(import_module(module), name)  # type: ignore[no-any-return]
