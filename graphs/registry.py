"""The graphs of Emend by name, for listing and drawing."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from emend.memory.registry import Registry

if TYPE_CHECKING:  # listing graphs must not import langgraph
    from emend.graphs.construction.pipeline import Pipeline
    from emend.graphs.execution import Graph
    from emend.graphs.judges.graph import Judge

GRAPHS: "Registry[Callable[[], Graph]]" = Registry(
    kind="graph",
    group="emend.graphs",
    builtin={
        "direct": ("emend.graphs.direct:build", "The probe alone, put to the model as it stands."),
        "in_context": ("emend.graphs.in_context:build", "The fact that bears on the probe is put before it."),
        "rag": ("emend.graphs.rag:build", "Retrieves new facts, puts them before the prompt, responds."),
        "extract": (
            "emend.graphs.extraction.graph:build",
            "Document to triplets: segment, resolve coreference, extract, normalise, validate, deduplicate.",
        ),
        "debate": (
            "emend.graphs.construction.debate:build",
            "Several agents answer, see each other's reasons, revise, and vote.",
        ),
        "ike": ("emend.graphs.ike:build", "As rag, with solved examples of copying, updating and retaining."),
        "serac": ("emend.graphs.serac:build", "Leaves the model alone unless a classifier finds an edit in scope."),
        "crag": ("emend.graphs.crag:build", "Judges what is retrieved; refines it, searches elsewhere, or both."),
        "cot": ("emend.graphs.cot:build", "As rag, and the model thinks before it answers."),
        "agent": ("emend.graphs.agent:build", "The model is given tools over the memory, and decides itself."),
        "mello": ("emend.graphs.mello:build", "A question in steps, each checked against the memory."),
        "kg_walk": (
            "emend.graphs.kg_walk:build",
            "Plans the relations of a question, and follows the edits hop by hop.",
        ),
    },
)
"""Each is a function `build() -> CompiledStateGraph`."""

JUDGES: "Registry[Judge]" = Registry(
    interfaces=(("role", "name", "judge"),),
    kind="judge",
    group="emend.judges",
    builtin={
        "tendency": (
            "emend.graphs.judges.builtin:TENDENCY",
            "ELKEN: marks for a free answer about what an event makes likely.",
        ),
        "agreement": (
            "emend.graphs.judges.builtin:AGREEMENT",
            "ELKEN: how far answers before and after an edit agree, 1 to 5.",
        ),
        "recall": ("emend.graphs.judges.recall:JUDGE", "ReCoE: which edited facts a chain of thought recalls."),
        "coherence": ("emend.graphs.judges.builtin:COHERENCE", "ReCoE: whether the thoughts support the answer."),
        "equivalence": (
            "emend.graphs.judges.builtin:EQUIVALENCE",
            "Whether a free-form answer is the gold answer or an alias.",
        ),
        "supports": ("emend.graphs.judges.builtin:SUPPORTS", "AKEW: whether a paragraph conveys a sentence."),
    },
)
"""Each is a `Judge`, a graph and its role; packages may bring some."""

CONSTRUCTIONS: "Registry[Pipeline]" = Registry(
    kind="construction",
    group="emend.constructions",
    interfaces=(("build", "filters", "sample"),),
    builtin={
        "akew": ("emend.graphs.construction.akew:PIPELINE", "Facts as sentence, paragraph and triplets (AKEW)."),
        "chains": (
            "emend.graphs.construction.chains:PIPELINE",
            "Questions along chains of facts whose answer edits change (MQuAKE).",
        ),
        "docter": (
            "emend.graphs.construction.docter:PIPELINE",
            "Press documents about counterfactual facts, and questions that follow (DocTER).",
        ),
        "elken": (
            "emend.graphs.construction.elken:PIPELINE",
            "Events of which facts follow, worded as a journalist would (ELKEN).",
        ),
        "facts": (
            "emend.graphs.construction.fact_lines:PIPELINE",
            "A table of the facts that your own documents state.",
        ),
        "questions": (
            "emend.graphs.construction.questions:PIPELINE",
            "Questions about your own documents, each with the sentence that proves its answer.",
        ),
        "recoe": (
            "emend.graphs.construction.recoe:PIPELINE",
            "Questions that follow from several facts, filtered by a debate (ReCoE).",
        ),
        "tendencies": (
            "emend.graphs.construction.tendencies:PIPELINE",
            "Events of a topic, and what each of them makes more likely (ELKEN).",
        ),
        "wikiupdate": (
            "emend.graphs.construction.wikiupdate:PIPELINE",
            "Facts that changed in Wikidata, with the leads of their pages (AKEW).",
        ),
    },
)
"""Each is a `Pipeline`: how `emend build` makes the items of a benchmark."""
