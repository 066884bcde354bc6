"""Estimate of the tokens that solving an edit reads, from the editor's settings alone."""

from collections.abc import Mapping
from typing import Any

# Cost of one training step (forward and backward), in forward passes.
PASSES_PER_STEP = 3
# Fraction of the tokens of all steps and contexts that a value search reads: it stops early at a
# loss threshold and starts at the edited layer. Measured with ROME on SmolLM2-135M-Instruct: 1,675
# and 2,059 of 9,700 tokens per edit.
VALUE_SEARCH_SHARE = 0.2
# Fraction of `num_steps` that training takes before it stops at a loss threshold. Measured on
# SmolLM2-135M-Instruct: 35 to 50 of 70 steps for `lora`, 22 of 25 for `ft`.
STEPS_SHARE = 0.6
# Fraction of the model that each step runs when only some layers are trained: the layers below them
# run once.
LAST_LAYERS = 1 / 3
# Time to generate one token, relative to reading one.
DECODE_COST = 10.0


def estimate_edit_tokens(settings: Mapping[str, Any], tokens: float) -> float:
    """Return the estimated number of tokens that solving for one edit reads.

    The estimate covers the edit's prompts in each step, after sampled contexts if the editor uses
    them.

    Args:
        settings: the editor's hyper-parameters, by name.
        tokens: number of tokens of the edit's prompt.
    """
    if "v_num_grad_steps" in settings:
        prompts = 2 * tokens
        for length, count in settings.get("context_template_length_params", ()):
            prompts += count * (length + tokens)
        return float(VALUE_SEARCH_SHARE * settings["v_num_grad_steps"] * prompts)
    layers = LAST_LAYERS if settings.get("layers") else 1.0
    # Each step loads all weights once, which takes as long as generating a token.
    return float(STEPS_SHARE * settings.get("num_steps", 1) * layers * (tokens + DECODE_COST))
