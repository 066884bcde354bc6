"""The quality of extracted triplets against gold ones, as DocTER measures it (section 6.5.1 and Table 6).

An extracted triplet matches a gold one at a cosine of at least 0.8 between the embeddings of their texts. Recall is the
share of documents whose gold triplet is matched, precision the share of extracted triplets that match, F1 made of the
two. The paper does not say how it averages; several triplets may match the same gold one here, as its figures need.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from emend.evals.metrics.estimate import RESAMPLES, Estimate, estimate, percentile_interval
from emend.memory.edit import FrozenModel, Triplet
from emend.memory.embeddings.embed import Embedding
from emend.memory.errors import ModelReplyError
from emend.memory.typography import fold_text

MATCHED = 0.8
ERRORS = ("AT", "IS", "IR")
"""Ambiguous triplet, incorrect subject, incorrect relation."""

Sorter = Callable[[str, Triplet], str]
"""(gold fact, triplet) -> error type; raises ModelReplyError where it cannot be decided."""


class ScoredDocument(NamedTuple):
    """Triplets extracted from one document, which of them match, and whether the gold one is among them."""

    id: str
    triplets: tuple[Triplet, ...]
    matched: tuple[bool, ...]
    recalled: bool
    gold: str
    subject: str


class TripleQuality(FrozenModel):
    """Means with n, unscored and intervals; shares lie in 0..1, `per_document` is a number of triplets.

    `errors` are shares of the triplets that match nothing; `sorted_by` names their classifier: `rules`, or a model.
    """

    documents: int
    per_document: Estimate
    recall: Estimate
    precision: Estimate
    f1: Estimate
    errors: dict[str, Estimate] = {}
    sorted_by: str = "rules"
    reasons: dict[str, int] = {}
    """Reasons why documents could not be scored, with counts."""


def score_documents(
    documents: Sequence[str],
    triplets: Sequence[Sequence[Triplet]],
    golds: Sequence[tuple[str, str]],
    embedding: Embedding,
) -> list[ScoredDocument]:
    """Match each document's triplets with its gold fact.

    Args:
        documents: their ids.
        triplets: what was extracted from each.
        golds: the gold fact of each as (text, subject).
        embedding: embedding whose cosine compares two texts.
    """
    texts = [triplet.text for group in triplets for triplet in group]
    vectors = embedding.documents(list(dict.fromkeys(texts)))
    place = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    facts = embedding.documents([text for text, _ in golds])
    scored = []
    for number, (document, extracted, (gold, subject)) in enumerate(zip(documents, triplets, golds, strict=True)):
        matched = tuple(bool(vectors[place[t.text]] @ facts[number] >= MATCHED) for t in extracted)
        scored.append(ScoredDocument(document, tuple(extracted), matched, any(matched), gold, subject))
    return scored


def triple_quality(
    scored: Sequence[ScoredDocument],
    unscored: Sequence[str] = (),
    sort: Sorter | None = None,
    sorted_by: str = "rules",
) -> TripleQuality:
    """The figures of Table 6 over the documents.

    Args:
        scored: the documents that could be scored.
        unscored: the reason for every other document.
        sort: classifies errors; `sort_by_rule` when None.
        sorted_by: its name.
    """
    ids = [document.id for document in scored]
    hits = [float(hit) for document in scored for hit in document.matched]
    owners = [document.id for document in scored for _ in document.matched]
    missing = [None] * len(unscored)
    names = [f"unscored {number}" for number in range(len(unscored))]
    return TripleQuality(
        documents=len(scored) + len(unscored),
        per_document=estimate(
            [*(float(len(document.triplets)) for document in scored), *missing], [*ids, *names], share=False
        ),
        recall=estimate([*(float(document.recalled) for document in scored), *missing], [*ids, *names]),
        precision=estimate(hits, owners),
        f1=f1_estimate(scored, len(unscored)),
        errors=_errors(scored, sort or sort_by_rule),
        sorted_by=sorted_by,
        reasons=dict(Counter(unscored).most_common()),
    )


def f1_estimate(
    scored: Sequence[ScoredDocument], unscored: int = 0, seed: int = 0, resamples: int = RESAMPLES
) -> Estimate:
    """2PR / (P + R) of recall over documents and precision over triplets, with a bootstrap over documents."""
    if not any(document.triplets for document in scored):
        return Estimate(mean=None, n=0, unscored=unscored + len(scored))
    counts = np.array(
        [(document.recalled, sum(document.matched), len(document.triplets)) for document in scored], dtype=np.float64
    )
    mean = float(_f1(counts.sum(axis=0)[None, :], len(counts))[0])
    if len(counts) < 2 or not mean:  # draws that are all 0 would claim certainty
        return Estimate(mean=mean, n=len(counts), unscored=unscored)
    rng = np.random.default_rng(seed)
    sums = np.array([counts[rng.integers(0, len(counts), len(counts))].sum(axis=0) for _ in range(resamples)])
    low, high = percentile_interval(_f1(sums, len(counts)))
    return Estimate(mean=mean, n=len(counts), unscored=unscored, low=low, high=high)


def _f1(sums: NDArray[np.float64], documents: int) -> NDArray[np.float64]:
    """F1 of rows (documents recalled, triplets matched, triplets); 0 where nothing matched, as its limit is."""
    recall, precision = sums[:, 0] / documents, sums[:, 1] / np.maximum(sums[:, 2], 1)
    return np.asarray(2 * recall * precision / np.maximum(recall + precision, 1e-12))


def _errors(scored: Sequence[ScoredDocument], sort: Sorter) -> dict[str, Estimate]:
    """The share of each type among the triplets that match nothing."""
    kinds: list[str | None] = []
    owners: list[str] = []
    for document in scored:
        for triplet, hit in zip(document.triplets, document.matched, strict=True):
            if not hit:
                kinds.append(_classify(sort, document.gold if sort is not sort_by_rule else document.subject, triplet))
                owners.append(document.id)
    return {
        name: estimate([None if kind is None else float(kind == name) for kind in kinds], owners) for name in ERRORS
    }


def _classify(sort: Sorter, gold: str, triplet: Triplet) -> str | None:
    try:
        return sort(gold, triplet)
    except ModelReplyError:
        return None


def sort_by_rule(subject: str, triplet: Triplet) -> str:
    """Error type by a rule on words, where DocTER had annotators; correct on the paper's three examples.

    IR: the triplet's subject is the gold one. AT: it is not, and the object names nothing (no capital, no number), so
    that the triplet is about nothing in particular. IS: the rest, a statement about something else.

    Args:
        subject: the gold subject.
        triplet: one that matches no gold triplet.
    """
    if _same_name(subject, triplet.subject):
        return "IR"
    words = triplet.object.split()
    return "IS" if any(word[0].isupper() or word[0].isdigit() for word in words) else "AT"


def _same_name(gold: str, name: str) -> bool:
    """Return True if the names are equal or one ends with the other: 'Buza' and 'George Buza'."""
    first, second = (fold_text(name).replace("the ", "", 1) for name in (gold, name))
    return first == second or second.endswith(f" {first}") or first.endswith(f" {second}")
