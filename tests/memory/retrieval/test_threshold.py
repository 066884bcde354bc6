import pytest

from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import BadSettings
from emend.memory.retrieval.base import Entry, Hit
from emend.memory.retrieval.bm25 import BM25
from emend.memory.retrieval.conformance import TEXTS, entries
from emend.memory.retrieval.exact import ExactCorpus
from emend.memory.retrieval.threshold import Threshold, calibrate, confidence

CORPUS = ExactCorpus.of(entries(TEXTS), LexicalEmbedding())


def hits(*found: tuple[str, float]) -> list[Hit]:
    return [Hit(entry=Entry(id=f"{i}", edit_id=edit, text="x"), score=score) for i, (edit, score) in enumerate(found)]


def test_below_the_threshold_nothing_is_found_and_impossible_calibrations_are_refused():
    best = BM25(CORPUS).search(TEXTS[0], 3)
    on, above = (Threshold(CORPUS, inner=BM25, least=best[0].score + more) for more in (0, 1e-3))
    assert on.search(TEXTS[0], 3) == best
    assert above.search(TEXTS[0], 3) == []
    with pytest.raises(BadSettings, match="no correct hits"):
        calibrate([])
    with pytest.raises(BadSettings, match="keep=0"):
        calibrate([1.0], 0)


def test_the_lead_is_over_another_edit_and_the_same_for_any_number_of_hits():
    assert confidence(hits(("a", 5.0), ("a", 4.5), ("b", 3.0)), "lead") == 2.0
    assert confidence(hits(("a", 5.0), ("a", 4.5)), "lead") == 5.0
    assert confidence(hits(("a", 5.0), ("b", 3.0)), "score") == 5.0
    guarded = Threshold(CORPUS, inner=BM25, least=1.0, by="lead")
    assert [bool(guarded.search(TEXTS[0], k)) for k in (1, 2, 6)] == [True] * 3
    assert len(guarded.search(TEXTS[0], 1)) == 1


@pytest.mark.parametrize(("keep", "least"), [(1.0, 1.0), (0.95, 6.0), (0.5, 51.0)])
def test_the_calibrated_threshold_is_the_highest_that_keeps_the_share(keep, least):
    sure = [float(i) for i in range(100, 0, -1)]
    assert calibrate(sure, keep) == least
    assert sum(one >= least for one in sure) == keep * 100
