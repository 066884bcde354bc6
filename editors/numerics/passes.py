"""Forward passes: padding token ids into one batch, and avoiding unneeded computation."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu
from torch.nn.utils.rnn import pad_sequence
from transformers.activations import NewGELUActivation

from emend.memory.embeddings.threads import is_small, one_thread


def padded(
    rows: Sequence[Sequence[int]], pad: int | None, left: bool = False
) -> tuple[Tensor, Tensor]:
    """Return ids and mask, shape (rows, longest), int64 on the CPU; padded on the right by default.

    Args:
        rows: token ids; some rows may be empty, but not all.
        pad: the id used for padding, which the mask excludes; None for 0.
        left: pad on the left, so that rows end in the same column.
    """
    side = "left" if left else "right"
    ids = [torch.tensor(row, dtype=torch.long) for row in rows]
    masks = [torch.ones_like(row) for row in ids]
    return pad_sequence(ids, True, pad or 0, side), pad_sequence(masks, True, 0, side)


def first_output(output: Any) -> Tensor:
    """Return the hidden states of a module's output, the first item if that is a tuple."""
    states: Tensor = output[0] if isinstance(output, tuple) else output
    return states


@contextmanager
def replaced_forward(forwards: Mapping[nn.Module, Callable[..., Any]]) -> Iterator[None]:
    """Replace the forward functions of modules inside the `with`."""
    # an offloaded module has accelerate's forward as an instance attribute
    before = {module: vars(module).get("forward") for module in forwards}
    try:
        for module, forward in forwards.items():
            module.forward = forward
        yield
    finally:
        for module, original in before.items():
            vars(module).pop("forward", None)
            if original is not None:
                module.forward = original


@contextmanager
def light_passes(model: nn.Module) -> Iterator[None]:
    """Disable gradients of the weights inside the `with`, and compute GPT-2's GELU in one kernel.

    The GELU is replaced only in float32, since in lower precision transformers rounds after each of
    its steps. Small models use one thread. The calling thread must hold the model's lock.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    single = getattr(model, "dtype", None) == torch.float32
    gelus = [
        module for module in model.modules() if single and isinstance(module, NewGELUActivation)
    ]
    try:
        for parameter in parameters:
            parameter.requires_grad_(False)
        with (
            replaced_forward({module: partial(gelu, approximate="tanh") for module in gelus}),
            one_thread(is_small(model)),
        ):
            yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(True)


def logits_at(
    call: Any, model: Any, inputs: dict[str, Any], lines: Tensor, places: Tensor
) -> Tensor:
    """Return float32 logits, shape (positions, vocabulary), at some positions of some rows.

    Other logits are not computed if the model allows that. `call` runs the model on keyword
    arguments.
    """
    keep = signature(model.forward).parameters.get("logits_to_keep")
    if keep is None or "Tensor" not in str(keep.annotation):
        logits: Tensor = call(**inputs).logits
    else:
        columns, places = places.unique(return_inverse=True)
        logits = call(**inputs, logits_to_keep=columns).logits
    return logits[lines, places].float()
