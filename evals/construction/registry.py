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
    builtin={
        "akew": (
            "emend.graphs.construction.akew:PIPELINE",
            "Facts as a sentence, a paragraph and triplets (AKEW).",
        ),
        "chains": (
            "emend.graphs.construction.chains:PIPELINE",
            "Multi-hop questions about chains of facts, with edits that change the answer "
            "(MQuAKE).",
        ),
        "docter": (
            "emend.graphs.construction.docter:PIPELINE",
            "Press documents about counterfactual facts, with reasoning questions (DocTER).",
        ),
        "elken": (
            "emend.graphs.construction.elken:PIPELINE",
            "News-style events that change facts (ELKEN).",
        ),
        "facts": (
            "emend.graphs.construction.fact_lines:PIPELINE",
            "A table of the facts stated in your own documents.",
        ),
        "questions": (
            "emend.graphs.construction.questions:PIPELINE",
            "Questions about your own documents, each with the sentence that states the answer.",
        ),
        "recoe": (
            "emend.graphs.construction.recoe:PIPELINE",
            "Questions that need reasoning over several facts, filtered by a debate of models "
            "(ReCoE).",
        ),
        "tendencies": (
            "emend.graphs.construction.tendencies:PIPELINE",
            "Events about a topic, with questions about their likely effects (ELKEN).",
        ),
        "wikiupdate": (
            "emend.graphs.construction.wikiupdate:PIPELINE",
            "Facts that changed in Wikidata, with the lead sections of their Wikipedia pages "
            "(AKEW).",
        ),
    },
)


def load_pipeline(name: str) -> "Pipeline":
    """Return the pipeline of a kind, built-in or from another package.

    Raises:
        BadSettings: the name is unknown, or the plug-in cannot be imported.
    """
    component = CONSTRUCTIONS.load(name)
    pipeline: Pipeline = getattr(component, "pipeline", component)
    return pipeline
