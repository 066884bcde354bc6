"""From CounterFact's facts to cases and demonstrations."""

from collections.abc import Iterator
from typing import Any

from emend.editors.base import Demonstration
from emend.evals.case import Case
from emend.evals.data.benchmarks.counterfact.rows import Counterfact
from emend.evals.data.benchmarks.docter.rows import last_sentence
from emend.evals.data.benchmarks.rows import Tags
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
    subject, target = fact.triplet.subject, fact.triplet.object
    prompts = [("efficacy", 0, fact.query), *(("paraphrase", n, prompt) for n, prompt in enumerate(fact.paraphrases))]
    about: dict[str, Any] = {"gold": (target,), "edit_ids": (edit.id,), "subject": subject}
    probes = [
        Probe(kind=kind, prompt=prompt, rival=fact.true_target, scorers=SCORERS, tags={"n": n}, **about)
        for kind, n, prompt in prompts
    ]
    # Rows repeat neighbours; `n` keeps them apart, and all count as in the released code.
    probes += [
        Probe(
            kind="neighborhood",
            prompt=prompt,
            gold=(true,),
            rival=target,
            in_scope=False,
            scorers=SCORERS,
            tags={"n": n},
        )
        for n, (prompt, true) in enumerate(fact.neighbours)
        if not fact.is_tied(n)
    ]
    # Rows repeat these prompts because the released code samples; greedy texts would only be repeated.
    tags: Tags = {"reference": f"{fact.triplet.relation_id}/{fact.triplet.object_id}"}
    probes += [
        Probe(
            kind="generation",
            prompt=prompt,
            scorers=("fluency",),
            reading="whole",
            new_tokens=new_tokens,
            tags=tags,
            **about,
        )
        for prompt in (dict.fromkeys(fact.generation) if new_tokens else ())
    ]
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
