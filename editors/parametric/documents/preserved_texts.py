"""Texts on which the output of an edited block is preserved."""

import random
from collections.abc import Sequence
from pathlib import Path
from weakref import WeakKeyDictionary

import torch

from emend.agents.local.causal_lm import CausalLM
from emend.agents.local.prefixes import Ids
from emend.editors.hyperparameters import read_text
from emend.editors.numerics.contexts import OPENERS
from emend.editors.numerics.seeded_draws import seeded_draws
from emend.memory.errors import BadData

# Number of tokens of each text that the unedited model writes.
SAMPLED_TOKENS = 40
_cache: WeakKeyDictionary[CausalLM, dict[tuple[int, int], tuple[str, ...]]] = WeakKeyDictionary()


def read_preserved_texts(lm: CausalLM, file: str, number: int, seed: int) -> tuple[str, ...]:
    """Return the texts of a file, one per line, or texts that the unedited model writes.

    Without a file the model continues openers. The published code draws from Alpaca's instructions
    with their answers; the model's own texts need no data.

    Raises:
        MissingData: the file cannot be read.
        BadData: the file has too few lines.
    """
    if not file:
        return _sampled_texts(lm, number, seed)
    lines = read_text(
        Path(file), f"no preserved texts in '{file}': name a file with one text per line"
    ).splitlines()
    texts = tuple(line.strip() for line in lines if line.strip())
    if len(texts) < number:
        raise BadData(
            f"file '{file}' has {len(texts)} texts, but {number} must be preserved: set "
            "ex_data_num."
        )
    return texts


def draw_preserved(lm: CausalLM, texts: Sequence[str], number: int, seed: int) -> list[Ids]:
    """Return the token ids of randomly drawn texts, cut to the model's window."""
    return [
        lm.encode(text)[: lm.window or None]
        for text in random.Random(seed).sample(list(texts), number)
    ]


def _sampled_texts(lm: CausalLM, number: int, seed: int) -> tuple[str, ...]:
    """Return texts sampled as continuations of openers, with one batch per opener."""
    cache = _cache.setdefault(lm, {})
    if number and (number, seed) not in cache:
        with lm.lock, seeded_draws(lm.device, seed):
            texts = [_continuations(lm, opener, -(-number // len(OPENERS))) for opener in OPENERS]
        cache[number, seed] = tuple(text for each in zip(*texts, strict=True) for text in each)[
            :number
        ]
    return cache.get((number, seed), ())


def _continuations(lm: CausalLM, opener: str, number: int) -> list[str]:
    ids = torch.tensor([lm.encode(opener)], device=lm.device)
    output = lm.model.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=min(SAMPLED_TOKENS, (lm.window or SAMPLED_TOKENS) - ids.shape[1]),
        num_return_sequences=number,
        do_sample=True,
        pad_token_id=lm.tokenizer.pad_token_id,
    )
    return [lm.tokenizer.decode(row, skip_special_tokens=True) for row in output]
