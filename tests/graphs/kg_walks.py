"""Walks over edited facts with a scripted model, for tests."""

from typing import Any

from emend.graphs.execution import run_graph
from emend.graphs.kg_walk import KgWalkContext, build
from emend.memory.edit import Edit, Triplet
from emend.memory.probe import Probe
from emend.memory.retrieval.base import Entry, Hit
from tests.fakes import ScriptedScoringModel

APP = build()


QUESTION = "Who is the mayor of the birthplace of Ana Rojo?"


def fact(subject: str, relation: str, target: str, prompt: str = "", **fields: Any) -> Edit:
    triplet = Triplet(subject=subject, relation=relation, object=target)
    return Edit.from_triplet(triplet, prompt or f"The {relation} of {{}} is", **fields)


class Everything:
    """Finds all edits in their order, those whose subject the query begins with first."""

    def __init__(self, edits: tuple[Edit, ...]) -> None:
        self.edits, self.queries = edits, list[str]()

    def search(self, query: str, k: int) -> list[Hit]:
        self.queries.append(query)
        edits = sorted(self.edits, key=lambda edit: not query.startswith(f"{edit.subject} "))[:k]
        return [Hit(entry=Entry(id=edit.id, edit_id=edit.id, text=edit.text), score=1.0) for edit in edits]


BORN = fact("Ana Rojo", "birthplace", "Kesselby")


MAYOR = fact("Kesselby", "mayor", "Paul Roy")


def walk(*replies: str, edits: tuple[Edit, ...] = (BORN, MAYOR), targets: list[str] | None = None, **fields: Any):
    script = iter(replies)
    model = ScriptedScoringModel(reply=lambda prompt: next(script), log_prob=lambda prompt, target: -1.0)
    memory = Everything(edits)
    form = {name: fields.pop(name) for name in ("form", "falls_back", "similarity") if name in fields}
    probe = Probe(**{"kind": "multihop", "prompt": QUESTION, "gold": ("Paul Roy",)} | fields)
    context = KgWalkContext(model, memory, edits={edit.id: edit for edit in edits}, **form)
    state: dict[str, Any] = {"probe": probe} | ({} if targets is None else {"targets": targets})
    final, steps = run_graph(APP, state, context)
    return final, [step.node for step in steps], model, memory


OWN = "the model's own answer"


ANA = " Ana Rojo\nRelations: "
