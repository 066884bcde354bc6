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
    builtin={
        "direct": ("emend.graphs.direct:build", "Sends only the probe to the model."),
        "in_context": (
            "emend.graphs.in_context:build",
            "Puts the relevant fact before the probe.",
        ),
        "rag": (
            "emend.graphs.rag:build",
            "Retrieves new facts, puts them before the prompt, and responds.",
        ),
        "extract": (
            "emend.graphs.extraction.graph:build",
            "Extracts triplets from a document: segment, resolve coreference, extract, normalise, "
            "validate, deduplicate.",
        ),
        "ike": (
            "emend.graphs.ike:build",
            "Like rag, with demonstrations of copying, updating and retaining facts.",
        ),
        "serac": (
            "emend.graphs.serac:build",
            "Uses the base model unless a classifier finds an edit in scope.",
        ),
        "crag": (
            "emend.graphs.crag:build",
            "Evaluates the retrieved passages, and refines them, searches another source, or both.",
        ),
        "cot": ("emend.graphs.cot:build", "Like rag, with chain of thought before the answer."),
        "agent": (
            "emend.graphs.agent:build",
            "Gives the model tools to search the memory, and lets it decide when to use them.",
        ),
        "mello": (
            "emend.graphs.mello:build",
            "Decomposes a question, and checks each step against the memory.",
        ),
        "kg_walk": (
            "emend.graphs.kg_walk:build",
            "Plans the relations of a question, and follows the edits hop by hop.",
        ),
    },
)

# Each entry is a `Judge`, which has a role and a graph; plug-in packages may add judges.
JUDGES: "Registry[Judge]" = Registry(
    interfaces=(("role", "name", "judge"),),
    kind="judge",
    group="emend.judges",
    builtin={
        "tendency": (
            "emend.graphs.judges.builtin:TENDENCY",
            "ELKEN: grade of a free-form answer about the likely effects of an event.",
        ),
        "agreement": (
            "emend.graphs.judges.builtin:AGREEMENT",
            "ELKEN: agreement of the answers before and after an edit, from 1 to 5.",
        ),
        "recall": (
            "emend.graphs.judges.recall:JUDGE",
            "ReCoE: which edited facts a chain of thought recalls.",
        ),
        "coherence": (
            "emend.graphs.judges.builtin:COHERENCE",
            "ReCoE: whether a chain of thought supports the answer.",
        ),
        "equivalence": (
            "emend.graphs.judges.builtin:EQUIVALENCE",
            "Whether a free-form answer is equivalent to the gold answer or an alias.",
        ),
        "supports": (
            "emend.graphs.judges.builtin:SUPPORTS",
            "AKEW: whether a paragraph conveys a sentence.",
        ),
        "nuggets": (
            "emend.graphs.judges.builtin:NUGGETS",
            "BEAM: how far a reply satisfies each statement of a rubric.",
        ),
        "order": (
            "emend.graphs.judges.builtin:ORDER",
            "BEAM: which events a reply lists, for Kendall's tau-b of their order.",
        ),
        "remembered": (
            "emend.graphs.judges.builtin:REMEMBERED",
            "LongMemEval: whether a reply is correct, with a prompt per type of question.",
        ),
    },
)
