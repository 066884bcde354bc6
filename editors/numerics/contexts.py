"""Texts put before a prompt, so that a value does not fit one context only (Meng et al. 2022, section 3.1)."""

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import torch

from emend.agents.local.causal_lm import CausalLM
from emend.memory.errors import BadSettings

OPENERS = ("The", "Therefore", "Because", "I", "You")
BARE = ("",)
_kept: WeakKeyDictionary[CausalLM, dict[tuple[tuple[tuple[int, int], ...], int], tuple[str, ...]]] = WeakKeyDictionary()


def prefixes_of(lm: CausalLM, lengths: Sequence[tuple[int, int]], seed: int = 0) -> tuple[str, ...]:
    """The empty prefix, then what the unedited model itself goes on with after five openers, each ended by ". ".

    Args:
        lm: samples among the five likeliest tokens.
        lengths: (tokens, how many) pairs; (5, 10), (10, 10) is ROME's, (10, 5) MEMIT's. As there, the opener's tokens
            count; one at least is sampled behind it.
        seed: of the sampling; the texts are kept per model, lengths and seed, so edits never change them.
    """
    kept, key = _kept.setdefault(lm, {}), (tuple(lengths), seed)
    if key not in kept:
        kept[key] = _sampled(lm, *key)
    return BARE + kept[key]


def _sampled(lm: CausalLM, lengths: tuple[tuple[int, int], ...], seed: int) -> tuple[str, ...]:
    texts: list[str] = []
    with lm.lock, torch.random.fork_rng():
        torch.manual_seed(seed)
        for tokens, count in lengths:
            for number in range(count):
                texts.append(_one(lm, OPENERS[number % len(OPENERS)], tokens))
    return tuple(texts)


def _one(lm: CausalLM, opener: str, tokens: int) -> str:
    ids = torch.tensor([lm.encode(opener)], device=lm.device)
    if lm.window and tokens > lm.window:
        raise BadSettings(
            f"contexts of {tokens} tokens from '{opener}' on do not fit the model's window of {lm.window}, and a "
            "prompt is to follow them: set 'contexts' to shorter ones, as [[tokens, how many], ...]."
        )
    said = lm.model.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=max(1, tokens - ids.shape[1]),
        do_sample=True,
        top_k=5,
        pad_token_id=lm.tokenizer.pad_token_id,
    )
    text = lm.tokenizer.decode(said[0], skip_special_tokens=True)
    return " ".join(text.split()).rstrip(".") + ". "
