"""Registry of construction kinds and the graphs that make their items."""

from typing import TYPE_CHECKING, Any

from emend.memory.registry import Registry

if TYPE_CHECKING:  # listing constructions must not import langgraph
    from emend.graphs.construction.pipeline import Pipeline

# Built-in entries are `Pipeline` objects; an entry of another package is a `BuildKind` with a
# pipeline.
CONSTRUCTIONS: Registry[Any] = Registry(
    kind="construction",
    group="emend.constructions",
    interfaces=(("read", "write", "text", "pipeline"),),
    beside=__file__,
)


def load_pipeline(name: str) -> "Pipeline":
    """Return the pipeline of a kind, built-in or from another package.

    Raises:
        BadSettings: the name is unknown, or the plug-in cannot be imported.
    """
    component = CONSTRUCTIONS.load(name)
    pipeline: Pipeline = getattr(component, "pipeline", component)
    return pipeline
