"""In-context knowledge editing (Zheng et al. 2023): solved examples, then the retrieved fact, then the probe.

The examples teach three things in the published ratio: 4 to copy a new fact, 12 to answer a paraphrase of it with the
new object, 16 to leave other facts alone. The authors' code appends the tested edit itself, with its answer, as a last
example; here nothing that tells the answer may be an example, unless that is asked for (`original`).
"""

import random
import threading
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from emend.agents.roles.answer import Solved, build_prompt
from emend.graphs.rag import RECURSION_LIMIT, RagContext, RagState, retrieve
from emend.graphs.respond import respond
from emend.memory.edit import Edit
from emend.memory.embeddings.embed import Embedding, LexicalEmbedding, Vectors
from emend.memory.errors import BadSettings
from emend.memory.probe import Probe
from emend.memory.retrieval.exact import DECIMALS, best

RATIO = {"copy": 4, "update": 12, "retain": 16}


class SolvedKind(Solved, Protocol):
    """A solved example of a kind; `editors.base.Demonstration` is one."""

    @property
    def kind(self) -> str:
        """`copy`, `update` or `retain`."""
        ...


class Example(NamedTuple):
    """A solved example; the state holds it as JSON."""

    kind: str
    fact: str
    prompt: str
    style: str
    target: str


class Pool:
    """The examples to choose from; each is embedded once, when the first probe asks for similar ones.

    Args:
        solved: the examples.
        embedding: what makes texts similar; the lexical one when None.
    """

    def __init__(self, solved: Sequence[SolvedKind], embedding: Embedding | None = None) -> None:
        self.embedding = embedding or LexicalEmbedding()
        self.examples = [Example(one.kind, one.fact, one.prompt, one.style, one.target) for one in solved]
        self._vectors: Vectors | None = None
        self._lock = threading.Lock()  # threads that begin together would each embed the whole pool

    @property
    def by_feature(self) -> Vectors:
        """Shape (features, examples)."""
        with self._lock:
            if self._vectors is None:
                texts = [f"{example.fact} {example.prompt}" for example in self.examples]
                self._vectors = np.ascontiguousarray(self.embedding.documents(texts).T)
            return self._vectors

    def by_similarity(self, text: str) -> list[Example]:
        """All examples, the most similar to the text first; equal ones in the order of the pool."""
        if not self.examples:
            return []
        asked = self.embedding.queries([text])[0]
        said = np.flatnonzero(asked)  # a lexical vector is nearly empty
        scores = np.einsum("f,fe->e", asked[said], self.by_feature[said])
        return [self.examples[place] for place in best(np.round(scores, DECIMALS), len(self.examples))]

    def telling(self, texts: Collection[str]) -> frozenset[str]:
        """The facts of examples that are, or hold, one of these texts."""
        facts = {example.fact for example in self.examples}
        return frozenset(fact for fact in facts if fact in texts or any(text and text in fact for text in texts))


class IkeState(RagState, total=False):
    """As for rag, with the chosen examples, in the order in which the prompt shows them."""

    demonstrations: list[dict[str, str]]


@dataclass(frozen=True)
class IkeContext(RagContext):
    """As for rag, with the pool, how many examples to show, the seed of their order, and texts they may not tell."""

    pool: Pool = field(default_factory=lambda: Pool(()))
    demonstrations: int = 6
    seed: int = 0
    standing: Collection[str] = frozenset()
    """The texts of the edits that stand."""
    original: Mapping[str, Edit] = field(default_factory=dict)
    """By their ids, the edits that may be shown as an example of copying although they are tested, as published."""

    @cached_property
    def barred(self) -> frozenset[str]:
        """The facts of examples that tell an edit that stands."""
        return self.pool.telling(self.standing)

    @property
    def left(self) -> int:
        """How many examples are of no edit that stands."""
        return sum(example.fact not in self.barred for example in self.pool.examples)


def demonstrate(state: IkeState, runtime: Runtime[IkeContext]) -> IkeState:
    """The examples nearest to the probe, in the published ratio and a seeded order of kinds, nearest last.

    Without a hit there is nothing to show the use of, and the probe stays as the unedited model gets it.
    """
    if not state["hits"]:
        return {"demonstrations": []}
    context, probe = runtime.context, Probe.model_validate(state["probe"])
    near = context.pool.by_similarity(probe.retrieval_query)
    ranked = [example for example in near if not _tells(example, probe, context.barred)]
    chosen = _in_ratio(ranked, context.demonstrations, f"{context.seed}:{probe.id}")
    tested = context.original.get(state["hits"][0]["edit_id"]) if context.original else None
    if tested is not None:
        asked = tested.cloze or tested.question
        if not (asked.strip() and tested.target_new.strip()):
            raise BadSettings(
                f"ike.original=true shows the tested edit as an example, and edit {tested.id} has no target or no "
                "prompt to show: leave the setting out, or give edits as triplets."
            )
        chosen.append(Example("copy", tested.text, asked, "cloze", tested.target_new))
    return {"demonstrations": [example._asdict() for example in chosen]}


def _tells(example: Example, probe: Probe, barred: Collection[str]) -> bool:
    """Whether the example is, or may be, about the tested fact."""
    if example.fact in barred or example.prompt == probe.prompt:
        return True
    return bool(probe.subject) and probe.subject in f"{example.fact} {example.prompt}"


def _in_ratio(ranked: Sequence[Example], count: int, seed: str) -> list[Example]:
    """Fills a shuffled list of kinds from the nearest on and turns it round.

    As published, each example is of another fact; where facts run out they come again, and a kind that lacks examples
    gives way.
    """
    kinds = list(shares(count).elements())
    random.Random(seed).shuffle(kinds)
    left, chosen = list(ranked), list[Example]()
    for kind in kinds:
        if not left:
            break
        shown = {example.fact for example in chosen}
        taken = min(left, key=lambda example: (example.fact in shown, example.kind != kind))
        left.remove(taken)
        chosen.append(taken)
    return chosen[::-1]


def shares(count: int) -> Counter[str]:
    """How many examples of each kind make up `count`, by largest remainder; 32 gives the published 4, 12 and 16."""
    whole = sum(RATIO.values())
    out = Counter({kind: count * share // whole for kind, share in RATIO.items()})
    by_remainder = sorted(RATIO, key=lambda kind: -(count * RATIO[kind] % whole))
    out.update(by_remainder[: count - out.total()])
    return out


def compose(state: IkeState, runtime: Runtime[IkeContext]) -> IkeState:
    """The exact prompt: examples, facts, probe."""
    facts = [hit["text"] for hit in state["hits"]]
    probe = Probe.model_validate(state["probe"])
    examples = [Example(**told) for told in state["demonstrations"]]
    return {"prompt": build_prompt(probe, facts, examples, runtime.context.wording)}


def build() -> CompiledStateGraph[IkeState, IkeContext, IkeState, IkeState]:
    """Retrieve -> demonstrate -> compose -> respond."""
    graph = StateGraph(IkeState, context_schema=IkeContext)
    graph.add_node("retrieve", retrieve)
    graph.add_node("demonstrate", demonstrate)
    graph.add_node("compose", compose)
    graph.add_node("respond", respond)
    graph.add_edge(START, "retrieve")
    graph.add_edge("retrieve", "demonstrate")
    graph.add_edge("demonstrate", "compose")
    graph.add_edge("compose", "respond")
    graph.add_edge("respond", END)
    return graph.compile(name="ike").with_config(recursion_limit=RECURSION_LIMIT)
