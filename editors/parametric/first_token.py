"""Keys of subjects that are the very first token: without a begin token they are unlike all others, and alike."""

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from emend.agents.local.causal_lm import CausalLM
from emend.editors.numerics.architectures import Architecture
from emend.editors.numerics.locate import Located
from emend.editors.numerics.low_rank import capture_keys

WORDS = 1500
"""First tokens whose keys are measured."""
RIDGE = 0.2
"""Share of the diagonal's mean that is added to it, so that few keys give a moment that can be inverted."""
LATER_WEIGHT = 1e-2
"""Weight of the keys of later tokens, which are many and small, against those of first tokens."""
_cache: WeakKeyDictionary[CausalLM, dict[tuple[int, tuple[str, ...]], Tensor]] = WeakKeyDictionary()


def is_first_token(row: Located) -> bool:
    """True if nothing is in front of the subject's last token, not even a begin token."""
    return row.subject == 0


def key_moment(lm: CausalLM, paths: Architecture, layer: int, texts: Sequence[str]) -> Tensor:
    """Second moment of first tokens' keys and, with a small weight, of those of the texts' later tokens.

    Measured once per model, layer and texts. Shape (inputs, inputs), float64 on the CPU.
    """
    cache, name = _cache.setdefault(lm, {}), (layer, tuple(texts))
    if name not in cache:
        first = [Located((token,), 0, 1) for token in _word_tokens(lm)]
        moment = _moment(lm, paths, layer, first)
        ridge = RIDGE * float(moment.diagonal().mean())
        encoded = [tuple(lm.encode(text)) for text in texts]
        later = [Located(ids, place, len(ids)) for ids in encoded for place in range(1, len(ids))]
        if later:
            moment += LATER_WEIGHT * _moment(lm, paths, layer, later)
        cache[name] = moment + ridge * torch.eye(len(moment), dtype=torch.float64)
    return cache[name]


def _moment(lm: CausalLM, paths: Architecture, layer: int, rows: Sequence[Located]) -> Tensor:
    keys = capture_keys(lm, paths, rows, layer, layer)[0].cpu().double()
    return keys.T @ keys / len(keys)


def _word_tokens(lm: CausalLM) -> list[int]:
    """Tokens with which a text may begin, spread over the vocabulary: words or their beginnings, else any."""
    vocabulary = sorted((number, text) for text, number in lm.tokenizer.get_vocab().items())
    words = [number for number, text in vocabulary if text[:1].isalpha() and len(text) > 2]
    words = words or [number for number, _ in vocabulary]
    return words[:: max(1, len(words) // WORDS)][:WORDS]
