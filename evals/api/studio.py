"""The graphs for LangGraph Studio and its server: each takes a context of plain values and runs by itself.

`langgraph.json` names the functions at the end. An editor's or a judge's own graph runs inside one node, which loads
what the context names; Studio draws the inner nodes and shows their steps.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import lru_cache, partial
from typing import Any

from langchain_core.language_models import BaseChatModel
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from emend.agents.judging.base import Item
from emend.agents.llm import load_model
from emend.evals.api.session import Session, edit_of
from emend.evals.config.task_config import SessionConfig
from emend.graphs.construction.debate import debate_question
from emend.graphs.execution import Graph
from emend.graphs.extraction.graph import ExtractContext, extract_document
from emend.graphs.extraction.load import load_extractor
from emend.graphs.registry import GRAPHS, JUDGES
from emend.memory.embeddings.embed import load_embedding
from emend.memory.registry import trust_typed

LOADED = 4
"""Number of models, with their edits, that stay loaded."""
EDITOR_OF = {"direct": "unedited"}
"""Editors whose graph has another name."""


@dataclass(frozen=True)
class EditorGraphOptions:
    """Model, edits and retriever of an editor; values as those of `emend ask`.

    Attributes:
        model: tiny, hf:FOLDER, openai:NAME[@URL] or anthropic:NAME.
        facts: new facts, each a sentence or a document.
        memory: folder or address of a memory, whose edits are used where no facts are given.
        retriever: name or `module:attribute` of a retriever.
        embedding: auto, lexical, minilm, a sentence-transformers folder, or `module:attribute`.
        k: number of entries to retrieve; 0 for the editor's own.
        settings: further settings of the editor.
    """

    model: str = "tiny"
    facts: list[str] = field(default_factory=list)
    memory: str = ""
    retriever: str = "default"
    embedding: str = "auto"
    k: int = 0
    settings: dict[str, Any] = field(default_factory=dict)


class QuestionState(TypedDict, total=False):
    """`question` goes in; the answer, the whole reply, the exact prompt and the texts retrieved come out."""

    question: str
    answer: str
    reply: str
    prompt: str
    retrieved: list[str]


@dataclass(frozen=True)
class JudgeGraphOptions:
    """The chat model that judges, and how often an unreadable reply is asked for again."""

    model: str = "tiny"
    retries: int = 1


class VerdictState(TypedDict, total=False):
    """`items` go in, each with its texts by name; one verdict for each comes out."""

    items: list[dict[str, str | list[str]]]
    swapped: bool
    verdicts: list[dict[str, Any]]


@dataclass(frozen=True)
class ExtractGraphOptions:
    """Extraction method (rules, spacy or llm), its model, and the embedding that finds repetitions."""

    method: str = "rules"
    model: str = ""
    embedding: str = "lexical"


class DocumentState(TypedDict, total=False):
    """`document` goes in; triplets, or the reason why there are none, come out."""

    document: str
    language: str
    triplets: list[dict[str, Any]]
    reason: str


@dataclass(frozen=True)
class DebateGraphOptions:
    """The chat models that debate, one for each agent, and the maximum number of rounds."""

    models: list[str] = field(default_factory=lambda: ["tiny", "tiny", "tiny"])
    rounds: int = 2


class DebatedQuestion(TypedDict, total=False):
    """`question` and `facts` go in; the verdict, and each agent's answer and reason, come out."""

    question: str
    facts: list[str]
    verdict: str
    positions: list[dict[str, str]]


def editor_graph(name: str) -> Graph:
    """The graph of an editor for Studio: question in, answer out."""
    inner = GRAPHS.load(name)()

    def answer(state: QuestionState, runtime: Runtime[EditorGraphOptions]) -> QuestionState:
        """Apply the edits and ask; the nodes of the editor's graph run in here."""
        session = _session(
            EDITOR_OF.get(inner.name, inner.name), json.dumps(asdict(runtime.context or EditorGraphOptions()))
        )
        result = session.ask(state["question"])
        hits = [hit["text"] for step in result.steps for hit in step.update.get("hits", ())]
        return {
            "answer": result.text or "",
            "reply": result.reply or result.text or "",
            "prompt": result.prompt,
            "retrieved": list(dict.fromkeys(hits)),
        }

    return _around(name, QuestionState, EditorGraphOptions, answer)


@lru_cache(maxsize=LOADED)
def _session(editor: str, options: str) -> Session:
    """A session that stays open; its temporary memory ends with the process."""
    context = EditorGraphOptions(**json.loads(options))
    settings = context.settings | ({"k": context.k} if context.k else {})
    fields = {name: getattr(context, name) for name in ("model", "retriever", "embedding", "memory")}
    fields = {name: value for name, value in fields.items() if value}
    config = SessionConfig.model_validate(
        fields | {"editor": editor, "overrides": {editor: settings} if settings else {}}
    )
    edits = None if context.memory and not context.facts else [edit_of(fact) for fact in context.facts]
    return Session(config, edits).__enter__()


def judge_graph(name: str) -> Graph:
    """The graph of a judge for Studio: items in, verdicts out."""
    judge = JUDGES.load(name)
    inner = judge.graph  # found in the closure, and drawn

    def decide(state: VerdictState, runtime: Runtime[JudgeGraphOptions]) -> VerdictState:
        """Judge the items; the nodes of the judge's graph run in here."""
        assert inner is judge.graph
        options = runtime.context or JudgeGraphOptions()
        items = [Item.of(name, **_texts(item)) for item in state["items"]]
        model = _model(options.model)
        verdicts = judge.judge(items, model, swapped=state.get("swapped", False), retries=options.retries)
        return {"verdicts": [verdict.model_dump(mode="json", exclude={"steps"}) for verdict in verdicts]}

    return _around(name, VerdictState, JudgeGraphOptions, decide)


def _texts(item: dict[str, Any]) -> dict[str, Any]:
    return {part: tuple(texts) if isinstance(texts, list) else texts for part, texts in item.items()}


@lru_cache(maxsize=LOADED)
def _model(spec: str) -> BaseChatModel:
    trust_typed(spec)
    return load_model(spec)


def extraction_graph() -> Graph:
    """The extraction graph for Studio: document in, triplets out."""
    inner = GRAPHS.load("extract")()

    def read(state: DocumentState, runtime: Runtime[ExtractGraphOptions]) -> DocumentState:
        """Extract the triplets; the nodes of the extraction graph run in here."""
        context = _extraction(**asdict(runtime.context or ExtractGraphOptions()))
        result = extract_document(state["document"], context, state.get("language", "en"), inner)
        return {"triplets": [triplet.model_dump() for triplet in result.triplets], "reason": result.reason}

    return _around("extract", DocumentState, ExtractGraphOptions, read)


def debate_graph() -> Graph:
    """The debate for Studio: question and facts in, verdict out."""
    inner = GRAPHS.load("debate")()

    def discuss(state: DebatedQuestion, runtime: Runtime[DebateGraphOptions]) -> DebatedQuestion:
        """Let the models debate; the nodes of the debate run in here."""
        options = runtime.context or DebateGraphOptions()
        models = [_model(spec) for spec in options.models]
        outcome = debate_question(models, state["question"], state.get("facts", []), options.rounds, inner)
        return {"verdict": outcome.verdict, "positions": [each._asdict() for each in outcome.positions]}

    return _around("debate", DebatedQuestion, DebateGraphOptions, discuss)


@lru_cache(maxsize=LOADED)
def _extraction(method: str, model: str, embedding: str) -> ExtractContext:
    trust_typed(embedding)
    chat = _model(model) if method == "llm" and model else model or None
    return ExtractContext(load_extractor(method, chat), load_embedding(embedding))


def _around(name: str, state: type, context: type, node: Callable[..., Any]) -> Graph:
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(state, context_schema=context)
    graph.add_node(node.__name__, node)
    graph.add_edge(START, node.__name__)
    graph.add_edge(node.__name__, END)
    return graph.compile(name=name)


direct, in_context, rag, ike, cot, serac, crag, mello, kg_walk, agent = (
    partial(editor_graph, name)
    for name in ("direct", "in_context", "rag", "ike", "cot", "serac", "crag", "mello", "kg_walk", "agent")
)
extract, debate = extraction_graph, debate_graph
tendency, agreement, recall, coherence, equivalence, supports = (
    partial(judge_graph, name) for name in ("tendency", "agreement", "recall", "coherence", "equivalence", "supports")
)
