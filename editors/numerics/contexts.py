"""Context prefixes, so that values do not fit one context only (Meng et al. 2022, sec. 3.1)."""

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import torch

from emend.agents.local.causal_lm import CausalLM
from emend.editors.numerics.seeded_draws import seeded_draws
from emend.memory.errors import BadSettings

# The openers of MEMIT's code and of ROME in EasyEdit. ROME's own code uses "", the begin token
# alone.
OPENERS = ("The", "Therefore", "Because", "I", "You")
BARE = ("",)
_Sampling = tuple[tuple[str, ...], tuple[tuple[int, int], ...], int]
_cache: WeakKeyDictionary[CausalLM, dict[_Sampling, tuple[str, ...]]] = WeakKeyDictionary()


def context_prefixes(
    lm: CausalLM,
    lengths: Sequence[tuple[int, int]],
    seed: int = 0,
    openers: Sequence[str] = OPENERS,
) -> tuple[str, ...]:
    """Return the empty prefix, then sampled continuations of the openers, each followed by ". ".

    Args:
        lm: the unedited model, which samples among the five likeliest tokens.
        lengths: (tokens, count) pairs; (5, 10), (10, 10) in ROME, (10, 5) in MEMIT. As in their
            code, the number of tokens includes the opener; at least one token is sampled.
        seed: seed of the sampling; texts are cached per model, openers, lengths and seed, so edits
            never change them.
        openers: texts to continue, in turn; "" stands for the begin token, or the end token of a
            model without a begin token.
    """
    cache, key = _cache.setdefault(lm, {}), (tuple(openers), tuple(lengths), seed)
    if key not in cache:
        with lm.lock, seeded_draws(lm.device, seed):
            cache[key] = tuple(
                _sample_text(lm, openers[number % len(openers)], tokens)
                for tokens, count in lengths
                for number in range(count)
            )
    return BARE + cache[key]


def _sample_text(lm: CausalLM, opener: str, tokens: int) -> str:
    ids = torch.tensor([lm.encode(opener)], device=lm.device)
    if lm.window and tokens > lm.window:
        raise BadSettings(
            f"contexts of {tokens} tokens from '{opener}' on do not fit the model's window of "
            f"{lm.window}, and a prompt has to follow: set 'context_template_length_params' to "
            "shorter ones, as [[tokens, count], ...]."
        )
    output = lm.model.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=max(1, tokens - ids.shape[1]),
        do_sample=True,
        top_k=5,
        pad_token_id=lm.tokenizer.pad_token_id,
    )
    text = lm.tokenizer.decode(output[0], skip_special_tokens=True)
    return " ".join(text.split()).rstrip(".") + ". "
