"""Whatever is shared, padded or cut: the numbers are those of one plain row at a time."""

import math

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emend.agents.local.causal_lm import CausalLM
from emend.agents.local.likelihood import FORCED
from emend.agents.local.prefixes import SharingMinimum
from tests.agents.local.test_causal_lm import log_prob_by_hand, targets, words
from tests.fakes import SIZES, tiny_random_lm
from tests.params import QUICK_ARCHITECTURES, mostly_slow

LONG = "Karo Benn wrote The Silent River. The capital of Italy is Rome. Paris, "
shared = st.lists(st.tuples(st.sampled_from(["", "The capital", LONG]), words, targets), min_size=2, max_size=7)


@pytest.fixture(scope="module")
def forced(random_lm):
    """A function from architecture to a random model that shares whatever it can."""

    def make(architecture="llama", **more):
        lm = random_lm(architecture, window=160, **more)
        lm.likelihood.least = FORCED
        return lm

    return make


@pytest.mark.slow
@pytest.mark.parametrize("architecture", mostly_slow(SIZES, *QUICK_ARCHITECTURES))
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=shared, side=st.sampled_from(["left", "right"]))
def test_shared_prefixes_change_no_number(forced, architecture, asked, side):
    lm = forced(architecture)
    pairs = [(before + prompt, target) for before, prompt, target in asked]
    pairs += [(prompt, "Rome, Paris") for prompt, _ in pairs[:2]]  # a second target
    told = lm.log_probs(pairs, side)
    assert [one.log_prob for one in told] == pytest.approx([log_prob_by_hand(lm, *pair) for pair in pairs], abs=1e-4)
    assert all(math.fsum(one.token_log_probs) == one.log_prob for one in told)
    assert all(len(one.token_log_probs) == one.target_tokens for one in told)


@pytest.mark.parametrize("architecture", mostly_slow(SIZES, *QUICK_ARCHITECTURES))
def test_every_usual_architecture_can_share(forced, architecture):
    assert forced(architecture).likelihood.shares


def fed_tokens(lm, pairs, **more):
    """How many tokens the model's embedding sees."""
    seen = []
    plain = lm.model.get_input_embeddings().forward

    def counting(ids):
        seen.append(ids.numel())
        return plain(ids)

    lm.model.get_input_embeddings().forward = counting
    try:
        told = lm.log_probs(pairs, **more)
    finally:
        del lm.model.get_input_embeddings().forward
    return sum(seen), told


def test_targets_of_one_prompt_and_prompts_of_one_text_are_fed_once(forced):
    lm = forced()
    pairs = [(LONG + asked, target) for asked in ("Who", "What is", "Where") for target in ("Paris is", "Rome was")]
    assert lm.likelihood.shares
    few, told = fed_tokens(lm, pairs)
    many, plain = fed_tokens(lm, pairs, share=False)
    assert few < many / 3
    assert [one.log_prob for one in told] == pytest.approx([one.log_prob for one in plain], abs=1e-4)


def test_trunks_nest(forced):
    lm = forced()
    pairs = [
        (LONG + middle + end, "Paris is")
        for middle in ("The capital of Italy: ", "Édouard said: 12")
        for end in ("a?", "e", " n")
    ]
    told = [one.log_prob for one in lm.log_probs(pairs)]
    assert told == pytest.approx([log_prob_by_hand(lm, *pair) for pair in pairs], abs=1e-4)


def test_a_sliding_window_that_does_not_span_a_row_shares_nothing(forced):
    lm = forced("mistral")
    assert lm.likelihood.slide == 24 and lm.likelihood.head  # which is detected before tokens are counted
    pairs = [(LONG + asked, target) for asked in ("Who", "What is") for target in ("Paris is", "Rome was")]
    few, told = fed_tokens(lm, pairs)
    assert few == fed_tokens(lm, pairs, share=False)[0]
    assert [one.log_prob for one in told] == pytest.approx([log_prob_by_hand(lm, *pair) for pair in pairs], abs=1e-4)


def test_a_model_that_counts_positions_by_itself_shares_nothing(forced, monkeypatch):
    """Positions that are given are overheard, so continuing a kept beginning would give other numbers."""
    lm = forced("gpt2")
    pairs = [(LONG + asked, target) for asked in ("Who", "What is") for target in ("Paris is", "Rome was")]
    right = [log_prob_by_hand(lm, *pair) for pair in pairs]
    body = lm.model.base_model
    plain = body.forward

    def deaf(*args, position_ids=None, **more):
        width = (args[0] if args else more["input_ids"]).shape[1]
        return plain(*args, position_ids=torch.arange(width)[None], **more)

    monkeypatch.setattr(body, "forward", deaf)
    lm.likelihood.__dict__.pop("shares", None)
    try:
        assert not lm.likelihood.shares
        assert [one.log_prob for one in lm.log_probs(pairs)] == pytest.approx(right, abs=1e-4)
    finally:
        lm.likelihood.__dict__.pop("shares", None)


def test_a_cache_that_the_model_does_not_take_means_plain_rows(forced, monkeypatch):
    lm = forced("gpt_neox")
    pairs = [(LONG + asked, target) for asked in ("Who", "What is") for target in ("Paris is", "Rome was")]
    body = lm.model.base_model
    plain = body.forward

    def refusing(*args, past_key_values=None, **more):
        if past_key_values is not None:
            raise TypeError("this model keeps states of its own")
        return plain(*args, **more)

    monkeypatch.setattr(body, "forward", refusing)
    lm.likelihood.__dict__.pop("shares", None)
    try:
        told = [one.log_prob for one in lm.log_probs(pairs)]
        assert not lm.likelihood.shares
    finally:
        lm.likelihood.__dict__.pop("shares", None)
    assert told == pytest.approx([log_prob_by_hand(lm, *pair) for pair in pairs], abs=1e-4)


def test_under_a_hook_every_row_is_fed_whole(forced):
    lm = forced()
    pairs = [(LONG + asked, target) for asked in ("Who", "What is") for target in ("Paris is", "Rome was")]
    handle = lm.model.model.layers[0].register_forward_hook(lambda module, args, out: out)
    try:
        assert fed_tokens(lm, pairs)[0] >= sum(len(row.fed) for row in lm.encode_pairs(pairs))
    finally:
        handle.remove()


def test_rows_beyond_the_limit_of_a_dynamic_rotary_embedding_are_computed_alone(tmp_path):
    rope = {"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 16,
            "short_factor": [1.0] * 4, "long_factor": [4.0] * 4, "factor": 10.0}  # fmt: skip
    lm = CausalLM(tiny_random_lm("llama", tmp_path, window=160, rope_parameters=rope), device="cpu")
    lm.likelihood.least = FORCED
    assert lm.likelihood.steady == 16
    pairs = [("The", "Paris"), ("The", "Rome"), (LONG, "Paris"), (LONG + "The", "Rome")]
    assert [one.log_prob for one in lm.log_probs(pairs)] == pytest.approx(
        [log_prob_by_hand(lm, *pair) for pair in pairs], abs=1e-4
    )


def test_the_shared_prefixes_do_not_depend_on_the_order_of_the_pairs(forced):
    lm = forced()
    lm.likelihood.least = SharingMinimum(4, 8, 1)
    pairs = [(LONG + asked, target) for asked in ("Who", "What is") for target in ("Paris is", "Rome was")]
    pairs += [("The", "Paris"), ("The capital", "Rome")]
    told = [one.log_prob for one in lm.log_probs(pairs)]
    assert [one.log_prob for one in lm.log_probs(pairs[::-1])[::-1]] == pytest.approx(told, abs=1e-4)
