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

from emend.evals.metrics.estimate import LEVEL, RESAMPLES, Estimate, estimate
from emend.memory.edit import FrozenModel, Triplet
from emend.memory.embeddings.embed import Embedding
from emend.memory.errors import ModelReplyError

MATCHED = 0.8
ERRORS = ("AT", "IS", "IR")
"""Ambiguous triplet, incorrect subject, incorrect relation."""

Sorter = Callable[[str, Triplet], str]
"""Error type of a triplet, given the gold fact; raises ModelReplyError where it cannot say."""


class Scored(NamedTuple):
    """One document: what was extracted, whether each triplet matches, whether the gold one was found."""

    document: str
    triplets: tuple[Triplet, ...]
    matched: tuple[bool, ...]
    recalled: bool
    gold: str
    subject: str


class TripleQuality(FrozenModel):
    """Means with n, unscored and intervals; shares lie in 0..1, `per_document` is a number of triplets.

    `errors` are shares of the triplets that match nothing; `sorted_by` says who sorted them: `rules`, or a model.
    """

    documents: int
    per_document: Estimate
    recall: Estimate
    precision: Estimate
    f1: Estimate
    errors: dict[str, Estimate] = {}
    sorted_by: str = "rules"
    reasons: dict[str, int] = {}
    """Why documents could not be scored, with counts."""


def score_documents(
    documents: Sequence[str],
    triplets: Sequence[Sequence[Triplet]],
    golds: Sequence[tuple[str, str]],
    embedding: Embedding,
) -> list[Scored]:
    """Each document's triplets against its gold fact.

    Args:
        documents: their ids.
        triplets: what was extracted from each.
        golds: the gold fact of each as (text, subject).
        embedding: tells how alike two texts are.
    """
    texts = [triplet.text for found in triplets for triplet in found]
    vectors = embedding.documents(list(dict.fromkeys(texts)))
    place = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    facts = embedding.documents([text for text, _ in golds])
    scored = []
    for number, (document, found, (gold, subject)) in enumerate(zip(documents, triplets, golds, strict=True)):
        matched = tuple(bool(vectors[place[t.text]] @ facts[number] >= MATCHED) for t in found)
        scored.append(Scored(document, tuple(found), matched, any(matched), gold, subject))
    return scored


def triple_quality(
    scored: Sequence[Scored],
    unscored: Sequence[str] = (),
    sort: Sorter | None = None,
    sorted_by: str = "rules",
) -> TripleQuality:
    """The figures of Table 6 over the documents.

    Args:
        scored: the documents that could be scored.
        unscored: for every other document the reason.
        sort: sorts errors; None is `sort_by_rule`.
        sorted_by: who that is.
    """
    ids = [one.document for one in scored]
    hits = [float(hit) for one in scored for hit in one.matched]
    owners = [one.document for one in scored for _ in one.matched]
    missing = [None] * len(unscored)
    names = [f"unscored {number}" for number in range(len(unscored))]
    return TripleQuality(
        documents=len(scored) + len(unscored),
        per_document=estimate([*(float(len(one.triplets)) for one in scored), *missing], [*ids, *names]),
        recall=estimate([*(float(one.recalled) for one in scored), *missing], [*ids, *names]),
        precision=estimate(hits, owners),
        f1=f1_estimate(scored, len(unscored)),
        errors=_errors(scored, sort or sort_by_rule),
        sorted_by=sorted_by,
        reasons=dict(Counter(unscored).most_common()),
    )


def f1_estimate(scored: Sequence[Scored], unscored: int = 0, seed: int = 0, resamples: int = RESAMPLES) -> Estimate:
    """2PR / (P + R) of recall over documents and precision over triplets, with a bootstrap over documents."""
    if not any(one.triplets for one in scored):
        return Estimate(mean=None, n=0, unscored=unscored + len(scored))
    told = np.array([(one.recalled, sum(one.matched), len(one.triplets)) for one in scored], dtype=np.float64)
    mean = float(_f1(told.sum(axis=0)[None, :], len(told))[0])
    if len(told) < 2 or not mean:  # draws of nothing would all be 0, and claim certainty
        return Estimate(mean=mean, n=len(told), unscored=unscored)
    rng = np.random.default_rng(seed)
    sums = np.array([told[rng.integers(0, len(told), len(told))].sum(axis=0) for _ in range(resamples)])
    low, high = np.quantile(_f1(sums, len(told)), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(mean=mean, n=len(told), unscored=unscored, low=float(low), high=float(high))


def _f1(sums: NDArray[np.float64], documents: int) -> NDArray[np.float64]:
    """F1 of rows (documents recalled, triplets matched, triplets); 0 where nothing matched, as its limit is."""
    recall, precision = sums[:, 0] / documents, sums[:, 1] / np.maximum(sums[:, 2], 1)
    return np.asarray(2 * recall * precision / np.maximum(recall + precision, 1e-12))


def _errors(scored: Sequence[Scored], sort: Sorter) -> dict[str, Estimate]:
    """The share of each type among the triplets that match nothing."""
    kinds: list[str | None] = []
    owners: list[str] = []
    for one in scored:
        for triplet, hit in zip(one.triplets, one.matched, strict=True):
            if not hit:
                kinds.append(_sorted(sort, one.gold if sort is not sort_by_rule else one.subject, triplet))
                owners.append(one.document)
    return {
        name: estimate([None if kind is None else float(kind == name) for kind in kinds], owners) for name in ERRORS
    }


def _sorted(sort: Sorter, gold: str, triplet: Triplet) -> str | None:
    try:
        return sort(gold, triplet)
    except ModelReplyError:
        return None


def sort_by_rule(subject: str, triplet: Triplet) -> str:
    """The error type as far as words can tell it, where DocTER had people: right on the paper's three examples.

    IR: the triplet's subject is the gold one. AT: it is not, and the object names nothing (no capital, no number), so
    that the triplet says nothing of anybody. IS: the rest, a statement about something else.

    Args:
        subject: the gold subject.
        triplet: one that matches no gold triplet.
    """
    if _same_name(subject, triplet.subject):
        return "IR"
    words = triplet.object.split()
    return "IS" if any(word[0].isupper() or word[0].isdigit() for word in words) else "AT"


def _same_name(gold: str, told: str) -> bool:
    """Whether one name is the other or ends it: 'Buza' and 'George Buza', 'Oslo' and 'the city of Oslo'."""
    one, other = (" ".join(name.lower().replace("the ", "", 1).split()) for name in (gold, told))
    return one == other or other.endswith(f" {one}") or one.endswith(f" {other}")
