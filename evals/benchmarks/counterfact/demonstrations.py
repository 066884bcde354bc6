"""CounterFact's demonstrations, as IKE makes them: a record's query, a paraphrase and a neighbour."""

from collections.abc import Iterator, Sequence

from emend.editors.base import Demonstration
from emend.evals.benchmarks.counterfact.rows import Fact, fact_edit, is_tied
from emend.evals.benchmarks.demonstrations import Names, first_of_each, gathered, last_drawn
from emend.evals.benchmarks.docter.rows import last_sentence

TESTED = 2000
"""IKE tests the first records, as many as these, and shows those after them."""


def fact_examples(facts: Sequence[Fact], setting: str, seed: int = 0) -> Iterator[Demonstration]:
    """Those of the records past the first 2,000, or of all where there are no more.

    The unrelated sentences before a paraphrase are left out, as in IKE.
    """
    names = Names(
        (fact.triplet.subject, *fact.paraphrases, *(prompt for prompt, _ in fact.neighbours)) for fact in facts
    )
    for_show = facts[TESTED:] or facts
    rows = last_drawn(for_show, lambda fact: fact.number, seed)
    fitting = (fact for fact in rows if names.alone(fact.triplet.subject))
    return gathered(
        first_of_each(_examples(fact, setting), lambda one: one.kind != "retain" or names.alone_in(one.prompt))
        for fact in fitting
    )


def _examples(fact: Fact, setting: str) -> Iterator[Demonstration]:
    told, target = fact_edit(fact, setting).text, fact.triplet.object
    query = fact.template.replace("{}", fact.triplet.subject, 1)
    yield Demonstration(kind="copy", fact=told, prompt=query, target=target)
    for prompt in fact.paraphrases:
        yield Demonstration(kind="update", fact=told, prompt=last_sentence(prompt), target=target)
    for n, (prompt, true) in enumerate(fact.neighbours):
        if not is_tied(fact, n):
            yield Demonstration(kind="retain", fact=told, prompt=prompt, target=true)
