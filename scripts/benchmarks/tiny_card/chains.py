"""Two-hop chains in MeLLo's wording, as the embedded model was trained to walk them, over a memory of edits."""

import random
from typing import NamedTuple

from emend.agents.local.causal_lm import CausalLM
from emend.agents.roles.decompose import NOTHING
from emend.agents.tiny.world import World, WorldChain, WorldFact, relations, two_hop_question
from emend.memory.edit import Edit, Triplet
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.retrieval.base import Retriever
from emend.memory.retrieval.registry import RETRIEVERS
from emend.memory.store.chroma import ChromaMemory

CHAINS = 200
HOPS = 2


class ChainQuestion(NamedTuple):
    """A two-hop question over edits that are all applied together, and the edited world's answer."""

    question: str
    gold: str


class ChainItems(NamedTuple):
    """The questions and the edits in memory."""

    questions: list[ChainQuestion]
    edits: dict[tuple[str, str], Edit]


def chain_items(world: World, seed: int) -> ChainItems:
    """Half of the questions have their first hop edited, a quarter the second, a quarter neither."""
    rng = random.Random(seed)
    pool = [chain for chain in world.chains if chain.first.subject in world.held]
    rng.shuffle(pool)
    changed: dict[tuple[str, str], str] = {}
    chosen: list[WorldChain] = []
    used: set[tuple[str, str]] = set()
    for chain in pool:
        touched = (chain.first.subject, chain.first.relation), (chain.second.subject, chain.second.relation)
        if len(chosen) == CHAINS or used & set(touched):
            continue
        used |= set(touched)  # else a later edit could lead an earlier question nowhere
        edit = _edit_for(world, rng, chain, len(chosen) % 4)
        if edit is not None:
            changed[edit.subject, edit.relation] = edit.object
        chosen.append(chain)
    questions = [_question(world, chain, changed) for chain in chosen]
    edits = {pair: _as_edit(WorldFact(*pair, target)) for pair, target in changed.items()}
    return ChainItems(questions, edits)


def _edit_for(world: World, rng: random.Random, chain: WorldChain, turn: int) -> WorldFact | None:
    fact = chain.first if turn < 2 else chain.second
    if turn == 3:
        return None
    names = [name for name in world.names[relations()[fact.relation].object] if name != fact.object]
    if turn < 2:
        names = [name for name in names if (name, chain.second.relation) in world.objects]
    return WorldFact(fact.subject, fact.relation, rng.choice(names))


def _question(world: World, chain: WorldChain, changed: dict[tuple[str, str], str]) -> ChainQuestion:
    first = changed.get((chain.first.subject, chain.first.relation), chain.first.object)
    pair = (first, chain.second.relation)
    gold = changed.get(pair, world.objects[pair])
    return ChainQuestion(two_hop_question(chain.first.subject, chain.first.relation, chain.second.relation), gold)


def _as_edit(fact: WorldFact) -> Edit:
    relation = relations()[fact.relation]
    triplet = Triplet(subject=fact.subject, relation=relation.noun, object=fact.object)
    return Edit.from_triplet(triplet, relation.statements[2])


def run_chains(lm: CausalLM, chains: ChainItems, strategy: str | None) -> list[float]:
    """1.0 for each question whose final answer is right; `strategy` None gives the right fact, or none, to each hop."""
    memory = ChromaMemory(None, LexicalEmbedding(), superseding="never")
    memory.add(list(chains.edits.values()))
    retriever = RETRIEVERS.load(strategy)(memory.view()) if strategy else None
    texts = [f"Question: {item.question}\n" for item in chains.questions]
    for _ in range(HOPS):
        texts = _hop(lm, texts, chains, retriever)
    finals = lm.generate(texts, max_new_tokens=12, stop=("\n",))
    memory.close()
    answers = [final.text.removeprefix("Final answer:").strip() for final in finals]
    return [float(answer == item.gold) for answer, item in zip(answers, chains.questions, strict=True)]


def _hop(lm: CausalLM, texts: list[str], chains: ChainItems, retriever: Retriever | None) -> list[str]:
    """Append subquestion and generated answer, a retrieved fact, and the decision, a line each."""
    subquestions = lm.generate([text + "Subquestion:" for text in texts], max_new_tokens=32, stop=("\n",))
    texts = [f"{text}Subquestion: {reply.text.rstrip()}\n" for text, reply in zip(texts, subquestions, strict=True)]
    answers = lm.generate([text + "Generated answer:" for text in texts], max_new_tokens=32, stop=("\n",))
    facts = [_retrieve(chains, retriever, reply.text.strip()) for reply in subquestions]
    texts = [
        f"{text}Generated answer: {reply.text.rstrip()}\nRetrieved fact: {fact}\n"
        for text, reply, fact in zip(texts, answers, facts, strict=True)
    ]
    decided = lm.generate([text + "Retrieved fact" for text in texts], max_new_tokens=32, stop=("\n",))
    return [f"{text}Retrieved fact {reply.text.rstrip()}\n" for text, reply in zip(texts, decided, strict=True)]


def _retrieve(chains: ChainItems, retriever: Retriever | None, question: str) -> str:
    if retriever is not None:
        hits = retriever.search(question, 1)
        return hits[0].entry.text if hits else NOTHING
    for (subject, relation), edit in chains.edits.items():
        forms = relations()[relation].questions + relations()[relation].unseen_questions
        if question in {form.format(subject) for form in forms}:
            return edit.text
    return NOTHING
