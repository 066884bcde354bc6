"""Going on from what was read before: the same replies, less reading, and nothing kept too long."""

from functools import wraps

import pytest
import torch

from emend.agents.local.causal_lm import CausalLM
from emend.agents.local.kv_cache import BLOCK, KVCache
from tests.fakes import SIZES
from tests.params import QUICK_ARCHITECTURES, mostly_slow

OPENING = "The author of The Silent River is Karo Benn, who was born in Paris, the capital of France"
"""About half of what the small models here hold."""


def states(tokens, fill=1.0):
    return torch.full((4, 2, tokens, 8), fill)


def size(tokens):
    return states(tokens).numel() * 4


def test_the_longest_prefix_is_found_to_the_token():
    cache = KVCache(1 << 20)
    row = list(range(100, 140))
    cache.put(row, states(40))
    found = cache.longest_prefix([*row[:37], 1, 2, 3])
    assert found is not None and found.tokens == 37
    assert cache.longest_prefix([*row[: BLOCK - 1], 1, 2, 3]) is None, "shorter than a block"


def test_the_last_token_is_never_part_of_the_prefix():
    cache = KVCache(1 << 20)
    row = list(range(40))
    cache.put(row, states(40))
    found = cache.longest_prefix(row)
    assert found is not None and found.tokens == 39


def test_the_least_recently_used_row_is_dropped():
    cache = KVCache(2 * size(32))
    rows = [[first, *range(31)] for first in (100, 200, 300)]
    cache.put(rows[0], states(32))
    cache.put(rows[1], states(32))
    assert cache.longest_prefix([*rows[0], 1])
    cache.put(rows[2], states(32))
    assert [bool(cache.longest_prefix([*row, 1])) for row in rows] == [True, False, True]


def test_rows_above_the_limit_or_below_a_block_are_not_cached():
    cache = KVCache(size(32))
    cache.put(list(range(33)), states(33))
    cache.put(list(range(BLOCK - 1)), states(BLOCK - 1))
    assert cache.longest_prefix(list(range(40))) is None


def test_other_weights_clear_the_cache():
    cache = KVCache(1 << 20)
    cache.use_weights("one")
    cache.put(list(range(32)), states(32))
    cache.use_weights("one")
    assert cache.longest_prefix(list(range(40)))
    cache.use_weights("other")
    assert cache.longest_prefix(list(range(40))) is None


class Fed:
    """Counts the positions that a model is fed."""

    def __init__(self, model):
        self.count = 0
        forward = model.forward

        @wraps(forward)
        def counted(*told, **more):
            ids = more["input_ids"]
            self.count += ids.shape[0] * ids.shape[1]
            return forward(*told, **more)

        model.forward = counted

    def during(self, act):
        before = self.count
        told = act()
        return told, self.count - before


def turns(lm, prompt, count=3):
    """A transcript that grows by a reply and a line each time, and what was said at each turn."""
    said = []
    for number in range(count):
        said.append(lm.generate([prompt], 4, ())[0])
        prompt += f" {said[-1].text}\n{number} is Rome"
    return said


@pytest.mark.slow
@pytest.mark.parametrize("architecture", mostly_slow(SIZES, *QUICK_ARCHITECTURES))
def test_a_transcript_that_goes_on_is_answered_as_if_it_were_read_anew(random_folder, architecture):
    keeping, forgetful = (CausalLM(random_folder(architecture), device="cpu", keep_mb=mb) for mb in (64, 0))
    assert turns(keeping, OPENING) == turns(forgetful, OPENING)


def test_cached_tokens_are_not_read_again(random_folder):
    lm = CausalLM(random_folder("llama"), device="cpu")
    lm.generate([OPENING], 6, ())  # what is found out once is found out
    lm.generate(["Rome is"], 6, ())
    fed = Fed(lm.model)
    whole = len(lm.encode(OPENING))
    _, read = fed.during(lambda: lm.generate([f"{OPENING} Rome"], 1, ()))
    assert 0 < read < whole // 4


def test_rows_of_unequal_length_give_the_same_replies_together_and_alone(random_folder):
    keeping, forgetful = (CausalLM(random_folder("llama"), device="cpu", keep_mb=mb) for mb in (64, 0))
    prompts = [f"{'Rome ' * place}{OPENING}" for place in range(4)]
    keeping.generate(prompts, 5, ())
    further = [f"{prompt}{' Paris' * (3 - place)} is" for place, prompt in enumerate(prompts)] + ["A new one: Rome is"]
    fed = Fed(keeping.model)
    together, read = fed.during(lambda: keeping.generate(further, 5, ()))
    assert together == [forgetful.generate([prompt], 5, ())[0] for prompt in further]
    assert read < sum(len(keeping.encode(prompt)) for prompt in further) / 2


def test_edited_weights_do_not_use_the_cache(random_folder):
    """Whether they are changed under the lock, in place, or within somebody's hold."""
    lm, other = (CausalLM(random_folder("llama"), device="cpu") for _ in range(2))
    before = lm.generate([OPENING], 8, ())

    def change(model):
        with torch.no_grad():
            for weight in model.parameters():
                if weight.dim() > 1:
                    weight.data.copy_(weight.flip(0))

    change(other.model)
    expected = other.generate([OPENING], 8, ())
    assert expected != before
    with lm.lock:
        assert lm.generate([OPENING], 8, ()) == before
        change(lm.model)
        assert lm.generate([OPENING], 8, ()) == expected
    assert lm.generate([OPENING], 8, ()) == expected
    with lm.lock:
        change(lm.model)
    assert lm.generate([OPENING], 8, ()) == before


def test_a_hook_may_look_at_whole_rows(random_folder):
    lm = CausalLM(random_folder("llama"), device="cpu")
    lm.generate([OPENING], 4, ())
    seen = []
    lm.model.register_forward_pre_hook(lambda *told: seen.append(told[2]["input_ids"].shape[1]), with_kwargs=True)
    lm.generate([OPENING], 4, ())
    assert max(seen) == len(lm.encode(OPENING))


def test_a_prefix_of_a_dropped_row_is_not_offered():
    cache = KVCache(size(BLOCK * 2))
    first, second = list(range(BLOCK * 2)), list(range(500, 500 + BLOCK * 2))
    cache.put(first, states(BLOCK * 2))
    cache.put(second, states(BLOCK * 2))
    assert cache.longest_prefix([*first, 1]) is None
    assert cache.longest_prefix([*second, 1]) is not None
