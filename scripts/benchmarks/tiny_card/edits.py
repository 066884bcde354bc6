"""Rank-one edits of the embedded model: efficacy, and neighborhood over similar facts of other subjects."""

import random

from emend.agents.local.causal_lm import CausalLM
from emend.agents.local.chat_model import LocalChatModel
from emend.agents.tiny.world import World, WorldFact, relations
from emend.editors.base import EditorContext
from emend.editors.numerics.apply_delta import applied
from emend.editors.parametric.rome import Rome
from emend.evals.metrics.estimate import Estimate, estimate
from emend.memory.edit import Edit, Triplet

EDITS = 40
NEIGHBORS = 8


def measure_rank_one(lm: CausalLM, seed: int) -> tuple[Estimate, Estimate]:
    """Efficacy (the cloze gives the new object) and neighborhood (others keep theirs), one edit at a time."""
    world, rng = World(), random.Random(seed)
    editor = Rome(EditorContext(model=LocalChatModel(lm=lm)))
    facts = rng.sample(world.facts, EDITS)
    edits = [counterfactual(world, rng, fact) for fact in facts]
    efficacy: list[float] = []
    neighborhood: list[float] = []
    owners: list[int] = []
    editor.presolve([[edit] for edit in edits])
    for place, (fact, edit) in enumerate(zip(facts, edits, strict=True)):
        deltas = editor.solve([edit])
        near = [f for f in world.by_relation[fact.relation] if f.subject != fact.subject]
        near = rng.sample(near, min(NEIGHBORS, len(near)))
        with applied(lm.model, deltas):
            prompts = [edit.cloze, *(edit.prompt.format(f.subject) for f in near)]
            replies = [
                reply.text.strip().rstrip(".") for reply in lm.generate(prompts, max_new_tokens=8, stop=("\n", "."))
            ]
        efficacy.append(float(replies[0] == edit.target_new))
        neighborhood += [float(text == f.object) for text, f in zip(replies[1:], near, strict=True)]
        owners += [place] * len(near)
    return estimate(efficacy, list(range(len(efficacy)))), estimate(neighborhood, owners)


def counterfactual(world: World, rng: random.Random, fact: WorldFact) -> Edit:
    """An edit of the fact to another object of its kind."""
    relation = relations()[fact.relation]
    target = rng.choice([name for name in world.names[relation.object] if name != fact.object])
    triplet = Triplet(subject=fact.subject, relation=relation.noun, object=target)
    return Edit.from_triplet(triplet, relation.statements[0], target_true=fact.object)
