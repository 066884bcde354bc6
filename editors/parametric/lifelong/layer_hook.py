"""Hook on a linear module's output that distinguishes prompt tokens from other tokens of a pass."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from emend.agents.local.causal_lm import CausalLM
from emend.agents.local.kv_cache import cached_tokens


class PassRows(NamedTuple):
    """Masks of a pass: tokens without padding, and prompt tokens; shape (rows, width), bool.

    Targets that are scored follow the prompts. Generated tokens do not belong to a prompt:
    `continues` is True for a pass that continues the rows of the previous pass.
    """

    tokens: Tensor
    prompts: Tensor
    continues: bool


# Returns a module's new output, given its input and output, shape (rows, width, size), and the
# rows.
Change = Callable[[Tensor, Tensor, PassRows], Tensor]


@contextmanager
def hooked_layer(lm: CausalLM, path: str, change: Change) -> Iterator[None]:
    """Replace a linear module's output by that of `change` inside the `with`, in every pass.

    A model with hooks reads whole rows, without cached keys and values of other calls. Both the
    model and its body are hooked, since likelihoods call only the body.
    """
    model = lm.model
    passes: list[PassRows] = []

    def on_pass(_: Any, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        passes[:] = [_pass_rows(lm, args, named)]

    def on_output(_: Any, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
        (rows,) = passes
        shape = (*rows.tokens.shape, -1)  # some MLPs merge rows and positions into one dimension
        return change(args[0].reshape(shape), output.reshape(shape), rows).reshape(output.shape)

    with lm.lock:
        handles = (
            *(
                each.register_forward_pre_hook(on_pass, with_kwargs=True)
                for each in (model, model.base_model)
            ),
            model.get_submodule(path).register_forward_hook(on_output),
        )
    try:
        yield
    finally:
        with lm.lock:
            for handle in handles:
                handle.remove()


def _pass_rows(lm: CausalLM, args: tuple[Any, ...], named: dict[str, Any]) -> PassRows:
    ids = named["input_ids"] if named.get("input_ids") is not None else args[0]
    mask = named.get("attention_mask")
    # the mask covers cached tokens too
    tokens = torch.ones_like(ids) if mask is None else mask[:, -ids.shape[1] :]
    lengths = lm.likelihood.prompt_lengths
    prompts = (
        tokens.bool() if lengths is None else tokens.bool() & (tokens.cumsum(1) <= lengths[:, None])
    )
    return PassRows(tokens.bool(), prompts, cached_tokens(named) > 0)


def last_places(prompts: Tensor) -> Tensor:
    """Return the position of each row's last prompt token, shape (rows,).

    >>> last_places(torch.tensor([[0, 1, 1], [1, 1, 0]]))
    tensor([2, 1])
    """
    return (prompts * torch.arange(prompts.shape[1], device=prompts.device)).amax(1)
