"""The evaluation card: the shipped model does what its card says."""

import json
import math

import pytest

from emend.agents.local.causal_lm import CausalLM
from emend.agents.tiny import model_folder
from emend.agents.tiny.world import World
from scripts.benchmarks.tiny_card.__main__ import CARD_FILE, accuracy
from scripts.benchmarks.tiny_card.chains import chain_items, run_chains
from scripts.benchmarks.tiny_card.questions import Questions
from tests.params import mostly_slow

SIZE = 80


def tolerance(share: float) -> float:
    """How far a fresh sample may fall: three standard errors, and a little for other processors' rounding."""
    return 0.025 + 3 * math.sqrt(share * (1 - share) / SIZE)


@pytest.fixture(scope="module")
def lm() -> CausalLM:
    return CausalLM(model_folder(), device="cpu")


@pytest.fixture(scope="module")
def card() -> dict[str, dict[str, float]]:
    rows = json.loads((model_folder() / CARD_FILE).read_text(encoding="utf-8"))["rows"]
    return {row["measure"]: row for row in rows}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", mostly_slow(Questions(World(), 0, size=1).measures(), "recall, cloze", "override, held subjects")
)
def test_a_fresh_sample_agrees_with_the_card(lm: CausalLM, card: dict[str, dict[str, float]], name: str) -> None:
    measured = accuracy(lm, Questions(World(), seed=5, size=SIZE).measures()[name]())
    share = card[name]["mean"]
    assert measured.mean == pytest.approx(share, abs=tolerance(share))


@pytest.mark.slow
def test_chains_with_the_right_facts_agree_with_the_card(lm: CausalLM, card: dict[str, dict[str, float]]) -> None:
    chains = chain_items(World(), seed=5)
    some = chains._replace(questions=chains.questions[:SIZE])
    right = run_chains(lm, some, None)
    share = card["two-hop chain, right facts"]["mean"]
    assert sum(right) / SIZE == pytest.approx(share, abs=tolerance(share))


def test_every_figure_has_its_n_and_an_interval_and_the_weights_are_small_enough_to_ship(
    card: dict[str, dict[str, float]],
) -> None:
    for row in card.values():
        assert row["n"] >= 40
        assert row["low"] <= row["mean"] <= row["high"]
        assert row["low"] < row["high"]
    assert sum(path.stat().st_size for path in model_folder().iterdir()) <= 16_000_000
