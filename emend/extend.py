"""The stable names for packages that extend Emend; modules that they come from may move.

    from emend.extend import Output, Scorer

Each is imported when it is first used. The conformance suites (`...Contract`) need pytest.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emend.agents.judging.base import Item, JudgeInput, Role, VerdictSchema, YesNo, YesNoRole
    from emend.agents.roles.author import AuthorPrompt, write_text
    from emend.editors.base import Answerer, Demonstration, EditCost, Editor, EditorContext
    from emend.editors.conformance import EditorContract
    from emend.editors.memory_based.rag import MemoryEditor
    from emend.editors.memory_based.unedited import Unedited
    from emend.evals.case import Benchmark, Case, Metric
    from emend.evals.construction.kinds import BuildKind
    from emend.evals.construction.sources.stored_items import (
        KeptItem,
        SourceItem,
        SourceNotes,
        write_lines,
    )
    from emend.evals.data.benchmarks.conformance import BenchmarkContract
    from emend.evals.data.benchmarks.registry import BenchmarkFiles
    from emend.evals.judging.study import AnnotationItem, LabelSource, Study, annotation_item
    from emend.evals.log.records import read_records
    from emend.evals.metrics.scores import ProbeScores
    from emend.evals.metrics.scoring.base import Output, Scorer
    from emend.evals.metrics.scoring.conformance import ScorerContract
    from emend.evals.results.analyses.base import (
        Analysis,
        AnalysisKind,
        AnalysisRequest,
        AnalysisRow,
        PlotStyle,
    )
    from emend.evals.show.view.pages.common import PageRequest
    from emend.evals.show.view.pages.registry import RunPage
    from emend.evals.show.view.views import ViewData
    from emend.evals.streams.conformance import SystemContract
    from emend.evals.streams.system import (
        AnsweringSystem,
        ContextItem,
        RecallSystem,
        SystemContext,
        item_of,
    )
    from emend.evals.streams.systems.baselines import TurnList
    from emend.evals.streams.turn import StreamQuestion, Turn
    from emend.graphs.construction.pipeline import (
        ConstructionContext,
        ConstructionState,
        FilterInfo,
        Pipeline,
        accept,
        checking_graph,
        reject,
    )
    from emend.graphs.execution import Graph, linear_graph, run_graph
    from emend.graphs.judges.conformance import JudgeContract
    from emend.graphs.judges.graph import Judge
    from emend.graphs.rag import RagContext, RagState, compose, retrieve
    from emend.graphs.respond import respond
    from emend.memory.edit import Edit, Triplet
    from emend.memory.errors import BadData, BadSettings, EmendError, MissingData
    from emend.memory.probe import Answer, Probe, Step
    from emend.memory.registry import trust_names
    from emend.memory.retrieval.base import Corpus, Entry, Hit, Retriever
    from emend.memory.retrieval.conformance import RetrieverContract

_MODULES = {
    "agents.judging.base": ("Item", "JudgeInput", "Role", "VerdictSchema", "YesNo", "YesNoRole"),
    "agents.roles.author": ("AuthorPrompt", "write_text"),
    "editors.base": ("Answerer", "Demonstration", "EditCost", "Editor", "EditorContext"),
    "editors.conformance": ("EditorContract",),
    "editors.memory_based.rag": ("MemoryEditor",),
    "editors.memory_based.unedited": ("Unedited",),
    "evals.case": ("Benchmark", "Case", "Metric"),
    "evals.construction.kinds": ("BuildKind",),
    "evals.construction.sources.stored_items": (
        "KeptItem",
        "SourceItem",
        "SourceNotes",
        "write_lines",
    ),
    "evals.data.benchmarks.conformance": ("BenchmarkContract",),
    "evals.data.benchmarks.registry": ("BenchmarkFiles",),
    "evals.judging.study": ("AnnotationItem", "LabelSource", "Study", "annotation_item"),
    "evals.log.records": ("read_records",),
    "evals.metrics.scores": ("ProbeScores",),
    "evals.metrics.scoring.base": ("Output", "Scorer"),
    "evals.metrics.scoring.conformance": ("ScorerContract",),
    "evals.results.analyses.base": (
        "Analysis",
        "AnalysisKind",
        "AnalysisRequest",
        "AnalysisRow",
        "PlotStyle",
    ),
    "evals.show.view.pages.common": ("PageRequest",),
    "evals.show.view.pages.registry": ("RunPage",),
    "evals.show.view.views": ("ViewData",),
    "evals.streams.conformance": ("SystemContract",),
    "evals.streams.system": (
        "AnsweringSystem",
        "ContextItem",
        "RecallSystem",
        "SystemContext",
        "item_of",
    ),
    "evals.streams.systems.baselines": ("TurnList",),
    "evals.streams.turn": ("StreamQuestion", "Turn"),
    "graphs.construction.pipeline": (
        "ConstructionContext",
        "ConstructionState",
        "FilterInfo",
        "Pipeline",
        "accept",
        "checking_graph",
        "reject",
    ),
    "graphs.execution": ("Graph", "linear_graph", "run_graph"),
    "graphs.judges.conformance": ("JudgeContract",),
    "graphs.judges.graph": ("Judge",),
    "graphs.rag": ("RagContext", "RagState", "compose", "retrieve"),
    "graphs.respond": ("respond",),
    "memory.edit": ("Edit", "Triplet"),
    "memory.errors": ("BadData", "BadSettings", "EmendError", "MissingData"),
    "memory.probe": ("Answer", "Probe", "Step"),
    "memory.registry": ("trust_names",),
    "memory.retrieval.base": ("Corpus", "Entry", "Hit", "Retriever"),
    "memory.retrieval.conformance": ("RetrieverContract",),
}
__all__ = [
    "Analysis",
    "AnalysisKind",
    "AnalysisRequest",
    "AnalysisRow",
    "AnnotationItem",
    "Answer",
    "Answerer",
    "AnsweringSystem",
    "AuthorPrompt",
    "BadData",
    "BadSettings",
    "Benchmark",
    "BenchmarkContract",
    "BenchmarkFiles",
    "BuildKind",
    "Case",
    "ConstructionContext",
    "ConstructionState",
    "ContextItem",
    "Corpus",
    "Demonstration",
    "Edit",
    "EditCost",
    "Editor",
    "EditorContext",
    "EditorContract",
    "EmendError",
    "Entry",
    "FilterInfo",
    "Graph",
    "Hit",
    "Item",
    "Judge",
    "JudgeContract",
    "JudgeInput",
    "KeptItem",
    "LabelSource",
    "MemoryEditor",
    "Metric",
    "MissingData",
    "Output",
    "PageRequest",
    "Pipeline",
    "PlotStyle",
    "Probe",
    "ProbeScores",
    "RagContext",
    "RagState",
    "RecallSystem",
    "Retriever",
    "RetrieverContract",
    "Role",
    "RunPage",
    "Scorer",
    "ScorerContract",
    "SourceItem",
    "SourceNotes",
    "Step",
    "StreamQuestion",
    "Study",
    "SystemContext",
    "SystemContract",
    "Triplet",
    "Turn",
    "TurnList",
    "Unedited",
    "VerdictSchema",
    "ViewData",
    "YesNo",
    "YesNoRole",
    "accept",
    "annotation_item",
    "checking_graph",
    "compose",
    "item_of",
    "linear_graph",
    "read_records",
    "reject",
    "respond",
    "retrieve",
    "run_graph",
    "trust_names",
    "write_lines",
    "write_text",
]


def __getattr__(name: str) -> Any:
    """Import a name of `__all__` when it is first used."""
    for module, names in _MODULES.items():
        if name in names:
            value = getattr(import_module(f"emend.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'emend.extend' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
