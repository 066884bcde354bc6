"""Registries of Emend's graphs and judges, by name."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from emend.memory.registry import Registry

if TYPE_CHECKING:  # listing graphs must not import langgraph
    from emend.graphs.execution import Graph
    from emend.graphs.judges.graph import Judge

# Each entry is a function `build() -> CompiledStateGraph`.
GRAPHS: "Registry[Callable[[], Graph]]" = Registry(
    kind="graph",
    group="emend.graphs",
    beside=__file__,
)

# Each entry is a `Judge`, which has a role and a graph; plug-in packages may add judges.
JUDGES: "Registry[Judge]" = Registry(
    interfaces=(("role", "name", "judge"),),
    kind="judge",
    group="emend.judges",
    beside=__file__,
)
