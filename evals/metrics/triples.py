"""Quality of extracted triplets against gold ones, as in DocTER (section 6.5.1, Table 6).

An extracted triplet matches a gold one if the cosine of their texts' embeddings is at least 0.8.
Recall is the share of documents whose gold triplet is matched, precision the share of extracted
triplets that match, and F1 their harmonic mean. The paper does not say how it averages; several
triplets may match the same gold one here, which the paper's figures require.
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
# Ambiguous triplet, incorrect subject, incorrect relation.
ERRORS = ("AT", "IS", "IR")

# Maps a gold fact and a triplet to an error type; raises ModelReplyError if it is undecidable.
Sorter = Callable[[str, Triplet], str]


class ScoredDocument(NamedTuple):
    """Triplets extracted from a document, their matches, and whether the gold one is recalled."""

    id: str
    triplets: tuple[Triplet, ...]
    matched: tuple[bool, ...]
    recalled: bool
    gold: str
    subject: str


class TripleQuality(FrozenModel):
    """Quality of extracted triplets, as means with n, unscored counts and intervals.

    Shares are between 0 and 1; `per_document` is a number of triplets. `errors` holds the shares of
    error types among the unmatched triplets; `sorted_by` names their classifier: `rules`, or a
    model.
    """

    documents: int
    per_document: Estimate
    recall: Estimate
    precision: Estimate
    f1: Estimate
    errors: dict[str, Estimate] = {}
    sorted_by: str = "rules"
    reasons: dict[str, int] = {}
    """Counts of the reasons why documents could not be scored."""


def score_documents(
    documents: Sequence[str],
    triplets: Sequence[Sequence[Triplet]],
    golds: Sequence[tuple[str, str]],
    embedding: Embedding,
) -> list[ScoredDocument]:
    """Match each document's triplets with its gold fact.

    Args:
        documents: ids of the documents.
        triplets: the triplets extracted from each document.
        golds: the gold fact of each document as (text, subject).
        embedding: embedding whose cosine compares two texts.
    """
    texts = [triplet.text for group in triplets for triplet in group]
    vectors = embedding.documents(list(dict.fromkeys(texts)))
    place = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    facts = embedding.documents([text for text, _ in golds])
    scored = []
    for number, (document, extracted, (gold, subject)) in enumerate(
        zip(documents, triplets, golds, strict=True)
    ):
        matched = tuple(bool(vectors[place[t.text]] @ facts[number] >= MATCHED) for t in extracted)
        scored.append(
            ScoredDocument(document, tuple(extracted), matched, any(matched), gold, subject)
        )
    return scored


def triple_quality(
    scored: Sequence[ScoredDocument],
    unscored: Sequence[str] = (),
    sort: Sorter | None = None,
    sorted_by: str = "rules",
) -> TripleQuality:
    """Compute the figures of Table 6 over the documents.

    Args:
        scored: the documents that could be scored.
        unscored: the reason for every other document.
        sort: classifier of errors; `sort_by_rule` if None.
        sorted_by: name of the classifier.
    """
    ids = [document.id for document in scored]
    hits = [float(hit) for document in scored for hit in document.matched]
    owners = [document.id for document in scored for _ in document.matched]
    missing = [None] * len(unscored)
    names = [f"unscored {number}" for number in range(len(unscored))]
    return TripleQuality(
        documents=len(scored) + len(unscored),
        per_document=estimate(
            [*(float(len(document.triplets)) for document in scored), *missing],
            [*ids, *names],
            share=False,
        ),
        recall=estimate(
            [*(float(document.recalled) for document in scored), *missing], [*ids, *names]
        ),
        precision=estimate(hits, owners),
        f1=f1_estimate(scored, len(unscored)),
        errors=_errors(scored, sort or sort_by_rule),
        sorted_by=sorted_by,
        reasons=dict(Counter(unscored).most_common()),
    )


def f1_estimate(
    scored: Sequence[ScoredDocument], unscored: int = 0, resamples: int = RESAMPLES
) -> Estimate:
    """Return F1 of recall over documents and precision over triplets; documents are resampled."""
    if not any(document.triplets for document in scored):
        return Estimate(mean=None, n=0, unscored=unscored + len(scored))
    counts = np.array(
        [(document.recalled, sum(document.matched), len(document.triplets)) for document in scored],
        dtype=np.float64,
    )
    mean = float(_f1(counts.sum(axis=0)[None, :], len(counts))[0])
    if len(counts) < 2 or not mean:  # if all samples are 0, the interval would have width 0
        return Estimate(mean=mean, n=len(counts), unscored=unscored)
    rng = np.random.default_rng(0)
    sums = np.array(
        [counts[rng.integers(0, len(counts), len(counts))].sum(axis=0) for _ in range(resamples)]
    )
    low, high = percentile_interval(_f1(sums, len(counts)))
    return Estimate(mean=mean, n=len(counts), unscored=unscored, low=low, high=high)


def _f1(sums: NDArray[np.float64], documents: int) -> NDArray[np.float64]:
    """Return F1 for rows of (documents recalled, triplets matched, triplets); 0 without matches."""
    recall, precision = sums[:, 0] / documents, sums[:, 1] / np.maximum(sums[:, 2], 1)
    return np.asarray(2 * recall * precision / np.maximum(recall + precision, 1e-12))


def _errors(scored: Sequence[ScoredDocument], sort: Sorter) -> dict[str, Estimate]:
    """Return the share of each error type among the unmatched triplets."""
    kinds: list[str | None] = []
    owners: list[str] = []
    for document in scored:
        for triplet, hit in zip(document.triplets, document.matched, strict=True):
            if not hit:
                kinds.append(
                    _classify(
                        sort,
                        document.gold if sort is not sort_by_rule else document.subject,
                        triplet,
                    )
                )
                owners.append(document.id)
    errors: dict[str, Estimate] = {}
    for name in ERRORS:
        errors[name] = estimate(
            [None if kind is None else float(kind == name) for kind in kinds], owners
        )
    return errors


def _classify(sort: Sorter, gold: str, triplet: Triplet) -> str | None:
    try:
        return sort(gold, triplet)
    except ModelReplyError:
        return None


def sort_by_rule(subject: str, triplet: Triplet) -> str:
    """Classify an error by a lexical rule, where DocTER used annotators.

    The rule is correct on the paper's three examples. IR: the triplet has the gold subject. AT: it
    has another subject, and its object is not specific (no capitalised word and no number). IS: any
    other triplet, which states something about another subject.

    Args:
        subject: the gold subject.
        triplet: a triplet that matches no gold triplet.
    """
    if _same_name(subject, triplet.subject):
        return "IR"
    words = triplet.object.split()
    if any(word[0].isupper() or word[0].isdigit() for word in words):
        return "IS"
    return "AT"


def _same_name(gold: str, name: str) -> bool:
    """Return True if the names are equal or one ends with the other: 'Buza' and 'George Buza'."""
    first, second = (fold_text(name).replace("the ", "", 1) for name in (gold, name))
    return first == second or second.endswith(f" {first}") or first.endswith(f" {second}")
