"""Walks of MeLLo's graph with a scripted model, over texts that are retrieved one after another."""

from typing import Any

from emend.graphs.decomposition.state import MelloContext
from emend.graphs.execution import run_graph
from emend.graphs.mello import build
from emend.memory.probe import Probe
from emend.memory.retrieval.base import Entry, Hit

APP = build()


QUESTION = "Who is the head of state of the country of Ann?"


class TextsInTurn:
    """A retriever that finds one text after another, and keeps what it was asked."""

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)
        self.asked: list[str] = []

    def search(self, query: str, k: int) -> list[Hit]:
        self.asked.append(query)
        text = self.texts[len(self.asked) - 1] if len(self.asked) <= len(self.texts) else ""
        return [Hit(entry=Entry(id=text, edit_id=text, text=text), score=1.0)] if text else []


def walk(
    model: Any, retriever: Any, targets=None, question=QUESTION, style="question", tags=None, choices=(), **more: Any
):
    probe = Probe(kind="multihop", prompt=question, style=style, gold=("x",), choices=choices, tags=tags or {})
    state: dict[str, Any] = {"probe": probe}
    if targets is not None:
        state["targets"] = targets
    context = MelloContext(model=model, retriever=retriever, **{"demonstrations": ""} | more)
    return run_graph(APP, state, context)
