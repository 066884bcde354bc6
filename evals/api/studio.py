"""Graphs of the editors for LangGraph Studio and its server; each takes a context of plain values
and runs by itself.

`langgraph.json` names the functions at the end of this module. An editor's own graph runs inside
one node, which loads the components named in the context; Studio draws the inner nodes and shows
their steps.
"""

import json
from dataclasses import asdict, dataclass, field
from functools import lru_cache, partial
from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from emend.evals.api.session import Session, edit_of
from emend.evals.config.session_config import SessionConfig
from emend.graphs.execution import Graph
from emend.graphs.registry import GRAPHS

# Number of models that stay loaded with their edits.
LOADED = 4
# Editors whose graph has a different name.
EDITOR_OF = {"direct": "unedited"}


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
    """`question` goes in; the answer, the whole reply, the exact prompt and the texts retrieved
    come out.
    """

    question: str
    answer: str
    reply: str
    prompt: str
    retrieved: list[str]


def editor_graph(name: str) -> Graph:
    """Return the graph of an editor for Studio, from question to answer."""
    inner = GRAPHS.load(name)()

    def answer(state: QuestionState, runtime: Runtime[EditorGraphOptions]) -> QuestionState:
        """Apply the edits and ask; the nodes of the editor's graph run in here."""
        session = _session(
            EDITOR_OF.get(inner.name, inner.name),
            json.dumps(asdict(runtime.context or EditorGraphOptions())),
        )
        result = session.ask(state["question"])
        hits = [hit["text"] for step in result.steps for hit in step.update.get("hits", ())]
        return {
            "answer": result.text or "",
            "reply": result.reply or result.text or "",
            "prompt": result.prompt,
            "retrieved": list(dict.fromkeys(hits)),
        }

    graph: StateGraph[Any, Any, Any, Any] = StateGraph(
        QuestionState, context_schema=EditorGraphOptions
    )
    graph.add_node(answer.__name__, answer)
    graph.add_edge(START, answer.__name__)
    graph.add_edge(answer.__name__, END)
    return graph.compile(name=name)


@lru_cache(maxsize=LOADED)
def _session(editor: str, options: str) -> Session:
    """Return a session that stays open; its temporary memory is deleted when the process ends."""
    context = EditorGraphOptions(**json.loads(options))
    settings = context.settings | ({"k": context.k} if context.k else {})
    fields = {
        name: getattr(context, name) for name in ("model", "retriever", "embedding", "memory")
    }
    fields = {name: value for name, value in fields.items() if value}
    config = SessionConfig.model_validate(
        fields | {"editor": editor, "overrides": {editor: settings} if settings else {}}
    )
    if context.memory and not context.facts:
        edits = None
    else:
        edits = [edit_of(fact) for fact in context.facts]
    return Session(config, edits).__enter__()


direct, in_context, rag, ike, cot, serac, crag, mello, kg_walk, agent = (
    partial(editor_graph, name)
    for name in (
        "direct",
        "in_context",
        "rag",
        "ike",
        "cot",
        "serac",
        "crag",
        "mello",
        "kg_walk",
        "agent",
    )
)
