"""The graphs of Emend by name, for listing and drawing."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from emend.memory.registry import Registry

if TYPE_CHECKING:  # listing graphs must not import langgraph
    from emend.graphs.running import Graph

GRAPHS: "Registry[Callable[[], Graph]]" = Registry(
    kind="graph",
    group="emend.graphs",
    builtin={
        "rag": ("emend.graphs.rag:build", "Retrieves new facts, puts them before the prompt, responds."),
        "ike": ("emend.graphs.ike:build", "As rag, with solved examples of copying, updating and retaining."),
    },
)
"""Each is a function `build() -> CompiledStateGraph`."""

JUDGES: Registry[Callable[..., Any]] = Registry(kind="judge", group="emend.judges")
"""LLM judges by name; each will be a graph and a role. Packages may bring some."""
