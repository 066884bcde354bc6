"""A real server's model, and DocTER by the embedded model behind the stub, beside the local engine."""

import os
from typing import Any

import pytest

from emend.agents.llm import load_model
from scripts.benchmarks.bench_served import LIMIT, compare, runs, stub
from tests.paths import DATA, SHARED
from tests.provider.models import quick_policy

VLLM = os.environ.get("EMEND_TEST_VLLM", "")
"""A served model, as `vllm:NAME@URL`, in float32, and behind a space the folder of its weights here."""
PROMPTS = ("The capital of France is", "", "New Fact: the capital of Veldania is Ostrim.\nQ: Where is Ostrim?\nA:")
TARGETS = ("Paris", "the city of Karo Benn", "北京")


@pytest.mark.slow
def test_every_score_of_docter_is_that_of_the_local_engine(tmp_path):
    data = SHARED / "data" / "docter"
    with stub() as (spec, settings):
        data = data if data.is_dir() else DATA / "docter"
        found = compare(*runs(data, 2, tmp_path, "tiny", spec, settings, ("unedited", "rag")))
    assert found.records > 50 and found.values > 50 and found.answers == found.cut == 0
    assert found.log_prob < LIMIT and found.value < LIMIT


@pytest.mark.manual
@pytest.mark.skipif(not VLLM, reason="EMEND_TEST_VLLM names no server")
@pytest.mark.parametrize("tokenizer", ["", "folder"])
def test_a_real_server_gives_the_numbers_of_the_local_engine(tokenizer):
    spec, folder = VLLM.split()
    local: Any = load_model(f"hf:{folder}", dtype="float32")
    served: Any = load_model(spec, quick_policy(), **({"tokenizer": folder} if tokenizer else {}))
    for prompt in PROMPTS:
        scores, expected = served.score(prompt, TARGETS), local.score(prompt, TARGETS)
        assert scores.target_tokens == expected.target_tokens
        assert scores.log_probs == pytest.approx(expected.log_probs, abs=1e-3)
    assert served.invoke(PROMPTS[0]).text == local.invoke(PROMPTS[0]).text
