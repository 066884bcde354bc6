"""The steps of `rag` as a bare graph of LangGraph with LangChain's client: what Emend's `rag` can cost at least."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from langgraph.graph import START, StateGraph
from pydantic import SecretStr
from typing_extensions import TypedDict

from scripts.benchmarks.chat_server import Alone, peak_mb

FACT = "Stop 1 of trail 7 is Hut 7."


class BareState(TypedDict, total=False):
    """What goes from step to step."""

    question: str
    hits: list[str]
    prompt: str
    text: str


def retrieve(state: BareState) -> BareState:
    """Return a constant: searching is no work of the graph's."""
    return {"hits": [FACT]}


def compose(state: BareState) -> BareState:
    """Put the fact before the question."""
    return {"prompt": f"New fact: {state['hits'][0]}\n{state['question']}"}


def bare_rag(model: Any) -> Any:
    """Retrieve -> compose -> respond, nothing recorded."""

    def respond(state: BareState) -> BareState:
        return {"text": str(model.invoke(state["prompt"]).content)}

    graph = StateGraph(BareState)
    graph.add_sequence([("retrieve", retrieve), ("compose", compose), ("respond", respond)])
    graph.add_edge(START, "retrieve")
    return graph.compile()


def ask_bare_graph(url: str, chains: Sequence[int], at_once: int) -> Alone:
    """Put as many questions as the chains have calls to the graph, in so many threads."""
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model="walker", base_url=url, api_key=SecretStr("none"), temperature=0, max_retries=0)
    app = bare_rag(model)
    cpu = time.process_time()
    with ThreadPoolExecutor(at_once) as pool:
        questions = ({"question": f"What is the end of trail {number} after 2 stops?"} for number in range(sum(chains)))
        for answered in pool.map(app.invoke, questions):
            assert answered["text"]
    return Alone(time.monotonic(), time.process_time() - cpu, peak_mb())
