"""Small settings for ROME, MEMIT and their like on random models, and the architectures that they are tested on."""

import torch

from emend.editors.base import EditorContext
from emend.editors.conformance import CAPITAL
from emend.editors.numerics.architectures import input_first
from emend.editors.numerics.locate import locate
from emend.memory.edit import Edit, Triplet

ARCHITECTURES = ["gpt2", "llama", "gptj", "gpt_neox", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "phi"]
SETTINGS = {
    "layers": [0],
    "v_num_grad_steps": 8,
    "v_lr": 0.3,
    "clamp_norm_factor": 20.0,
    "prefixes": ["So it is. ", "The river is long. "],
    "covariance": "identity",
}
SAME_SUBJECT = Edit.from_triplet(
    Triplet(subject=CAPITAL.subject, relation="neighbour", object="Old Sorn"), "The neighbour of {} is"
)


def editor(method, model, **settings):
    """The method on that model, with what is changed in the settings."""
    return method(EditorContext(model=model, settings=SETTINGS | settings))


def solve(made, edits):
    """The editor's deltas as tensors of their parameters' shapes."""
    return {name: dense(made.lm.model, name, delta) for name, delta in made.solve(edits).items()}


def dense(model, name, delta):
    """A delta as one tensor of its parameter's shape; a product of thin matrices is formed in float64."""
    if isinstance(delta, torch.Tensor):
        return delta
    product = delta.left.double() @ delta.right.double()
    return product.T if input_first(model.get_submodule(name.removesuffix(".weight"))) else product


def keys_at(made, edits, layer):
    """The averaged keys of a layer with the current weights; shape (edits, inputs), on the CPU."""
    located = [locate(made.lm, edit, made.prefixes) for edit in edits]
    return made._keys_and_states(located, layer, layer)[0]


def log_prob(model, edit=CAPITAL):
    """The log-probability of an edit's target after its cloze."""
    return model.lm.log_probs([(edit.cloze, edit.target_new)])[0].log_prob
