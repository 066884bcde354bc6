"""From CounterFact's facts to cases and demonstrations."""

from collections.abc import Iterator

from emend.editors.base import Demonstration
from emend.evals.benchmarks.counterfact.rows import Counterfact
from emend.evals.benchmarks.docter.rows import last_sentence
from emend.evals.case import Case
from emend.memory.edit import Edit
from emend.memory.probe import Probe

SCORERS = ("per_token", "likelihood", "difference")


def fact_case(fact: Counterfact, setting: str, new_tokens: int = 0) -> Case:
    """One edit, its query, its paraphrases, its neighbours, and the texts to be generated.

    Args:
        fact: the fact of a row.
        setting: `triplet`, the fact in one sentence, or `evidence`, the text alone, without subject or target.
        new_tokens: length of a generated text; 0 for none.
    """
    edit = fact_edit(fact, setting)
    probes = [_recall_probe(fact, edit, "efficacy", fact.query, 0)]
    probes += [_recall_probe(fact, edit, "paraphrase", prompt, n) for n, prompt in enumerate(fact.paraphrases)]
    probes += [_neighbour_probe(fact, n) for n in range(len(fact.neighbours)) if not fact.is_tied(n)]
    if new_tokens:
        probes += [_generation_probe(fact, edit, prompt, new_tokens) for prompt in dict.fromkeys(fact.generation)]
    return Case(edits=(edit,), probes=tuple(probes), tags={"case_id": fact.number})


def fact_edit(fact: Counterfact, setting: str) -> Edit:
    """The edit of a setting: `triplet` in one sentence, `evidence` by its text alone."""
    if setting == "evidence":
        return Edit(form="document", text=fact.evidence)
    return Edit.from_triplet(fact.triplet, fact.template, target_true=fact.true_target)


def fact_demonstrations(fact: Counterfact, setting: str) -> Iterator[Demonstration]:
    """Demonstrations as in IKE: the query, each paraphrase without the unrelated text before it, each neighbour."""
    text, target = fact_edit(fact, setting).text, fact.triplet.object
    yield Demonstration(kind="copy", fact=text, prompt=fact.query, target=target)
    for prompt in fact.paraphrases:
        yield Demonstration(kind="update", fact=text, prompt=last_sentence(prompt), target=target)
    for n, (prompt, true) in enumerate(fact.neighbours):
        if not fact.is_tied(n):
            yield Demonstration(kind="retain", fact=text, prompt=prompt, target=true)


def _recall_probe(fact: Counterfact, edit: Edit, kind: str, prompt: str, n: int) -> Probe:
    return Probe(
        kind=kind,
        prompt=prompt,
        gold=(fact.triplet.object,),
        rival=fact.true_target,
        edit_ids=(edit.id,),
        scorers=SCORERS,
        subject=fact.triplet.subject,
        tags={"n": n},
    )


def _neighbour_probe(fact: Counterfact, n: int) -> Probe:
    # Rows repeat neighbours; `n` keeps them apart, and all count as in the released code.
    prompt, true = fact.neighbours[n]
    return Probe(
        kind="neighborhood",
        prompt=prompt,
        gold=(true,),
        rival=fact.triplet.object,
        in_scope=False,
        scorers=SCORERS,
        tags={"n": n},
    )


def _generation_probe(fact: Counterfact, edit: Edit, prompt: str, new_tokens: int) -> Probe:
    # Rows repeat these prompts because the released code samples; greedy texts would only be repeated.
    triplet = fact.triplet
    return Probe(
        kind="generation",
        prompt=prompt,
        gold=(triplet.object,),
        edit_ids=(edit.id,),
        scorers=("fluency",),
        subject=triplet.subject,
        reading="whole",
        new_tokens=new_tokens,
        tags={"reference": f"{triplet.relation_id}/{triplet.object_id}"},
    )
