"""Triple quality: what matches, what is averaged over what, and the error types."""

import numpy as np
import pytest

from emend.evals.metrics.triples import ScoredDocument, f1_estimate, score_documents, sort_by_rule, triple_quality
from emend.memory.edit import Triplet
from emend.memory.errors import ModelReplyError


class Angles:
    """A text's vector is the point on the circle at the angle whose cosine it names: 'a 0.8' lies 0.8 from '1'."""

    identity = "angles"

    def documents(self, texts):
        cosines = np.array([float(text.split()[-1]) for text in texts], dtype=np.float64)
        return np.stack([cosines, np.sqrt(1 - cosines**2)], axis=1).astype(np.float32) if texts else np.zeros((0, 2))

    queries = documents


def triplet(cosine, subject="Ana"):
    return Triplet(subject=subject, relation="is", object=str(cosine))


def scored(*documents):
    names = [f"d{number}" for number in range(len(documents))]
    given = [[triplet(cosine) for cosine in cosines] for cosines in documents]
    return score_documents(names, given, [("gold 1", "Ana")] * len(documents), Angles())


def test_a_match_is_a_cosine_of_at_least_eight_tenths_and_f1_is_made_as_published():
    (one,) = scored([0.81, 0.79, 1.0])
    assert one.matched == (True, False, True) and one.recalled
    documents = [ScoredDocument(f"d{i}", (triplet(1),), (i < 375,), i < 5784, "g", "s") for i in range(10_000)]
    assert f1_estimate(documents, resamples=10).mean == pytest.approx(0.0704, abs=5e-5)


def test_recall_is_over_documents_precision_over_triplets_and_f1_of_both():
    quality = triple_quality(scored([1.0, 0.1, 0.9], [0.2], []))
    assert quality.recall.mean == pytest.approx(1 / 3) and quality.recall.n == 3
    assert quality.precision.mean == pytest.approx(2 / 4) and quality.precision.n == 4
    assert quality.f1.mean == pytest.approx(2 * (1 / 3) * 0.5 / (1 / 3 + 0.5))
    assert quality.per_document.mean == pytest.approx(4 / 3)
    assert quality.recall.low is not None and quality.recall.low <= 1 / 3 <= quality.recall.high  # type: ignore[operator]


def test_a_document_without_triplets_counts_in_recall_and_a_failed_one_is_unscored():
    quality = triple_quality(scored([1.0], []), ["unreadable reply", "unreadable reply"])
    assert (quality.recall.mean, quality.recall.n, quality.recall.unscored) == (0.5, 2, 2)
    assert quality.documents == 4 and quality.reasons == {"unreadable reply": 2}
    assert quality.f1.unscored == 2


def test_where_nothing_was_extracted_or_expected_there_is_no_value():
    quality = triple_quality(scored([], []))
    assert quality.precision.mean is None and quality.f1.mean is None and quality.recall.mean == 0
    quality = triple_quality([], ["no gold"])
    assert quality.recall.mean is None and quality.recall.unscored == 1


def test_the_interval_of_f1_holds_it_and_is_the_same_each_time():
    documents = scored([1.0, 0.1], [0.2], [0.9], [0.3, 0.3, 1.0])
    one, other = f1_estimate(documents), f1_estimate(documents)
    assert one == other and one.mean is not None and one.low <= one.mean <= one.high  # type: ignore[operator]
    for without in (scored([1.0, 0.1]), scored([0.1], [0.2])):  # one document; no match
        estimate = f1_estimate(without)
        assert estimate.mean is not None and estimate.low is estimate.high is None


@pytest.mark.parametrize(
    ("parts", "kind"),
    [
        (("Danielle Darrieux's presence", "paired with", "charming demeanor"), "AT"),
        (("Danielle Darrieux's father", "recited", "poetry by Shakespeare"), "IS"),
        (("Danielle Darrieux", "grew up in", "a household"), "IR"),
        (("Darrieux", "acted in", "Paris"), "IR"),
    ],
)
def test_the_papers_examples_are_sorted_as_in_the_paper(parts, kind):
    subject, relation, thing = parts
    assert sort_by_rule("Danielle Darrieux", Triplet(subject=subject, relation=relation, object=thing)) == kind


def test_only_triplets_without_a_match_are_sorted_and_the_shares_add_up():
    quality = triple_quality(scored([1.0, 0.1, 0.2], [0.3]))
    assert sum(one.mean or 0 for one in quality.errors.values()) == pytest.approx(1)
    assert {one.n for one in quality.errors.values()} == {3}


def test_a_judge_that_cannot_be_read_leaves_the_triplet_unscored():
    def judge(gold, triplet):
        assert gold == "gold 1"
        if triplet.object == "0.1":
            raise ModelReplyError("no", "gibberish")
        return "IS"

    quality = triple_quality(scored([0.1, 0.2]), sort=judge, sorted_by="someone")
    assert (quality.errors["IS"].mean, quality.errors["IS"].n, quality.errors["IS"].unscored) == (1, 1, 1)
    assert quality.sorted_by == "someone"
