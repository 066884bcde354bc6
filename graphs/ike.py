"""In-context knowledge editing (IKE, Zheng et al. 2023): a prompt of demonstrations, the retrieved
fact and the probe.

The demonstrations are of three kinds in the published ratio: 4 copy a new fact, 12 answer a
paraphrase of it with the new object, 16 retain other facts. The authors' code appends the tested
edit itself, with its answer, as the last demonstration; here no demonstration may reveal the
answer, unless `original` is set.
"""

import random
import threading
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol, cast

import numpy as np
from langgraph.runtime import Runtime

from emend.agents.roles.answer import Solved, probe_prompt
from emend.graphs.execution import Graph, linear_graph
from emend.graphs.rag import RagContext, RagState, retrieve
from emend.graphs.respond import prompt_state, respond
from emend.memory.edit import Edit
from emend.memory.embeddings.embed import Embedding, LexicalEmbedding, Vectors
from emend.memory.errors import BadSettings
from emend.memory.probe import Probe
from emend.memory.retrieval.exact import DECIMALS, best

RATIO = {"copy": 4, "update": 12, "retain": 16}


class SolvedKind(Solved, Protocol):
    """Solved example with its kind, such as `editors.base.Demonstration`."""

    @property
    def kind(self) -> str:
        """Purpose of the example: `copy`, `update` or `retain`."""
        ...


class Example(NamedTuple):
    """Solved example; the state has it as JSON."""

    kind: str
    fact: str
    prompt: str
    style: str
    target: str


class Pool:
    """Pool of examples to choose from, which are embedded once, for the first probe.

    Args:
        solved: the examples.
        embedding: embedding that measures similarity; `LexicalEmbedding` if None.
    """

    def __init__(self, solved: Sequence[SolvedKind], embedding: Embedding | None = None) -> None:
        self.embedding = embedding or LexicalEmbedding()
        self.examples = [Example(s.kind, s.fact, s.prompt, s.style, s.target) for s in solved]
        self._vectors: Vectors | None = None
        # otherwise threads that start together would each embed the whole pool
        self._lock = threading.Lock()

    @property
    def by_feature(self) -> Vectors:
        """Embeddings of the examples, of shape (features, examples)."""
        with self._lock:
            if self._vectors is None:
                texts = [f"{example.fact} {example.prompt}" for example in self.examples]
                self._vectors = np.ascontiguousarray(self.embedding.documents(texts).T)
            return self._vectors

    def by_similarity(self, text: str) -> list[Example]:
        """Return all examples in descending similarity to the text, ties in pool order."""
        if not self.examples:
            return []
        query = self.embedding.queries([text])[0]
        features = np.flatnonzero(query)  # a lexical vector is sparse
        scores = np.einsum("f,fe->e", query[features], self.by_feature[features])
        return [
            self.examples[place] for place in best(np.round(scores, DECIMALS), len(self.examples))
        ]

    def containing(self, texts: Collection[str]) -> frozenset[str]:
        """Return the facts of the examples that equal or contain one of these texts."""
        facts = {example.fact for example in self.examples}
        return frozenset(
            fact for fact in facts if fact in texts or any(text and text in fact for text in texts)
        )


class IkeState(RagState, total=False):
    """State of `rag`, with the chosen examples in the order of the prompt."""

    demonstrations: list[dict[str, str]]


@dataclass(frozen=True)
class IkeContext(RagContext):
    """Context of `rag`, with the pool, the number of demonstrations and the seed of their order."""

    pool: Pool = field(default_factory=lambda: Pool(()))
    demonstrations: int = 6
    seed: int = 0
    applied: Collection[str] = frozenset()
    """Texts of the applied edits, which no demonstration may reveal."""
    original: Mapping[str, Edit] = field(default_factory=dict)
    """Tested edits by id that, as published, are shown as a demonstration of kind `copy`."""

    nearest_to: Mapping[str, Edit] = field(default_factory=dict)
    """Edits by id; for these, as published, the demonstrations are chosen by their similarity to
    the edit instead of the probe."""

    @cached_property
    def barred(self) -> frozenset[str]:
        """Facts of the examples that reveal an applied edit."""
        return self.pool.containing(self.applied)

    @property
    def available(self) -> int:
        """Number of examples that reveal no applied edit."""
        return sum(example.fact not in self.barred for example in self.pool.examples)


def demonstrate(state: IkeState, runtime: Runtime[IkeContext]) -> IkeState:
    """Choose the demonstrations nearest to the probe or the edit, in the published ratio of kinds.

    The order of the kinds is seeded, and the nearest examples come last. Without hits there are no
    examples, and the prompt is the probe alone.

    Raises:
        BadSettings: `original` has the retrieved edit, but the edit lacks a prompt or a target.
    """
    if not state["hits"]:
        return {"demonstrations": []}
    context, probe = runtime.context, state["probe"]
    edit = context.nearest_to.get(state["hits"][0].get("edit_id", ""))
    if edit is None:
        near, key = context.pool.by_similarity(probe.retrieval_query), probe.id
    else:
        near, key = (
            context.pool.by_similarity(f"{edit.text} {edit.cloze or edit.question}"),
            edit.id,
        )
    ranked = [example for example in near if not _reveals(example, probe, context.barred)]
    chosen = _in_ratio(ranked, context.demonstrations, f"{context.seed}:{key}")
    tested = context.original.get(state["hits"][0]["edit_id"]) if context.original else None
    if tested is not None:
        prompt = tested.cloze or tested.question
        if not (prompt.strip() and tested.target_new.strip()):
            raise BadSettings(
                f"ike.original=true shows the tested edit as an example, and edit {tested.id} has "
                "no target or no prompt to show: leave the setting out, or use edits in the form "
                "triplet."
            )
        chosen.append(Example("copy", tested.text, prompt, "cloze", tested.target_new))
    return {"demonstrations": [example._asdict() for example in chosen]}


def _reveals(example: Example, probe: Probe, barred: Collection[str]) -> bool:
    """Return whether the example reveals an applied edit, or may be about the tested fact."""
    if example.fact in barred or example.prompt == probe.prompt:
        return True
    return bool(probe.subject) and probe.subject in f"{example.fact} {example.prompt}"


def _in_ratio(ranked: Sequence[Example], count: int, seed: str) -> list[Example]:
    """Fill a shuffled list of kinds with the nearest examples, and return it in reverse.

    As published, each example has a different fact. A fact is repeated only if no new one is left,
    and a kind without examples is replaced by another kind.
    """
    kinds = list(shares(count).elements())
    random.Random(seed).shuffle(kinds)
    left, chosen = list(ranked), list[Example]()
    for kind in kinds:
        if not left:
            break
        facts = {example.fact for example in chosen}
        nearest = min(left, key=lambda example: (example.fact in facts, example.kind != kind))
        left.remove(nearest)
        chosen.append(nearest)
    return chosen[::-1]


def shares(count: int) -> Counter[str]:
    """Return the number of examples of each kind for `count` examples, by largest remainder.

    A count of 32 gives the published 4, 12 and 16.
    """
    whole = sum(RATIO.values())
    out = Counter({kind: count * share // whole for kind, share in RATIO.items()})
    by_remainder = sorted(RATIO, key=lambda kind: -(count * RATIO[kind] % whole))
    out.update(by_remainder[: count - out.total()])
    return out


def compose(state: IkeState, runtime: Runtime[IkeContext]) -> IkeState:
    """Build the prompt from the demonstrations, the facts and the probe."""
    facts = [hit["text"] for hit in state["hits"]]
    examples = [Example(**example) for example in state["demonstrations"]]
    context = runtime.context
    return cast(
        IkeState,
        prompt_state(context.model, probe_prompt(state["probe"], facts, examples, context.wording)),
    )


def build() -> Graph:
    """Retrieve -> demonstrate -> compose -> respond."""
    return linear_graph("ike", IkeState, IkeContext, retrieve, demonstrate, compose, respond)
