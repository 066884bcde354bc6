"""A hook on a layer: it knows which tokens of a pass are the rows' prompts, in scoring and in generation."""

import pytest
import torch

from emend.agents.local.likelihood import SIDES
from emend.editors.parametric.lifelong.layer_hook import hooked_layer, last_places
from tests.params import QUICK_ARCHITECTURES

PATHS = {
    "llama": "model.layers.0.mlp.down_proj",
    "gpt2": "transformer.h.0.mlp.c_proj",
    "opt": "model.decoder.layers.0.fc2",
}
PATHS["gemma2"] = PATHS["llama"]
SHORT, LONG = "The river", "The capital of Veldania is"


def recorded(lm, path, ask):
    """The passes that a hook sees while `ask` is called, with the widths of inputs and outputs."""
    passes = []

    def record(inputs, outputs, rows):
        passes.append((rows, inputs.shape, outputs.shape))
        return outputs

    with hooked_layer(lm, path, record):
        ask()
    return passes


@pytest.mark.parametrize("architecture", ["llama", *QUICK_ARCHITECTURES, "opt"])
@pytest.mark.parametrize("side", SIDES)
def test_a_scored_row_s_prompt_ends_where_its_target_begins(architecture, side, random_lm):
    lm = random_lm(architecture)
    pairs = [(SHORT, "is Aske"), (LONG, "Ostrim"), (LONG, "Kestrel Bay")]
    encoded = lm.encode_pairs(pairs)
    passes = recorded(lm, PATHS[architecture], lambda: lm.log_probs(pairs, padding=side))
    (rows, entering, leaving) = passes[-1]
    assert entering[:2] == leaving[:2] == rows.tokens.shape and not rows.continues
    assert sorted(rows.prompts.sum(1).tolist()) == sorted(row.start for row in encoded)
    assert sorted(rows.tokens.sum(1).tolist()) == sorted(len(row.fed) for row in encoded)
    ends = last_places(rows.prompts)
    assert all(rows.prompts[line, end] and not rows.prompts[line, end + 1 :].any() for line, end in enumerate(ends))


@pytest.mark.parametrize("architecture", ["llama", *QUICK_ARCHITECTURES])
def test_in_generation_the_first_pass_is_the_prompts_and_others_continue(architecture, random_lm):
    lm = random_lm(architecture)
    prompts = [SHORT, LONG]
    passes = recorded(lm, PATHS[architecture], lambda: lm.generate(prompts, 3, stop=()))
    sizes = [len(lm.encode(prompt)) for prompt in prompts]
    first = next(rows for rows, *_ in passes if len(rows.tokens) == 2)
    assert not first.continues and first.prompts.sum(1).tolist() == sizes
    assert last_places(first.prompts).tolist() == [max(sizes) - 1] * 2  # padded on the left
    assert any(rows.continues and rows.tokens.shape[1] == 1 for rows, *_ in passes)


def test_the_hook_changes_the_output_inside_the_with_alone(random_lm):
    lm = random_lm()
    before = lm.log_probs([(LONG, "Ostrim")])
    with hooked_layer(lm, PATHS["llama"], lambda inputs, outputs, rows: torch.zeros_like(outputs)):
        assert lm.log_probs([(LONG, "Ostrim")]) != before
    assert lm.log_probs([(LONG, "Ostrim")]) == before
    assert not lm.likelihood.hooked
