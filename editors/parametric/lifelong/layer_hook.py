"""A hook on the output of a linear module that knows which tokens of a pass are the rows' prompts."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from emend.agents.local.causal_lm import CausalLM
from emend.agents.local.kv_cache import cached_tokens


class PassRows(NamedTuple):
    """The rows of a pass: their tokens without padding, and those of them that are prompt, shape (rows, width), bool.

    Where targets are scored, they follow the prompts. A generated token is no prompt: `continues` is true of a pass
    that goes on with the rows of the pass before.
    """

    tokens: Tensor
    prompts: Tensor
    continues: bool


Change = Callable[[Tensor, Tensor, PassRows], Tensor]
"""Gives what a module puts out instead, from its input and output, shape (rows, width, size), and the rows."""


@contextmanager
def hooked_layer(lm: CausalLM, path: str, change: Change) -> Iterator[None]:
    """Inside the `with`, `change` gives the output of a linear module in every pass of the model.

    A model with hooks reads whole rows, and continues no cached keys and values of other calls. Some models call parts
    of their body, and likelihoods call the body alone, so that both are watched.
    """
    model = lm.model
    passes: list[PassRows] = []

    def on_pass(_: Any, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        passes[:] = [_pass_rows(lm, args, named)]

    def on_output(_: Any, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
        (rows,) = passes
        shape = (*rows.tokens.shape, -1)  # some MLPs see rows and places as one dimension
        return change(args[0].reshape(shape), output.reshape(shape), rows).reshape(output.shape)

    with lm.lock:
        handles = (
            *(each.register_forward_pre_hook(on_pass, with_kwargs=True) for each in (model, model.base_model)),
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
    tokens = torch.ones_like(ids) if mask is None else mask[:, -ids.shape[1] :]  # the mask covers cached tokens too
    lengths = lm.likelihood.prompt_lengths
    prompts = tokens.bool() if lengths is None else tokens.bool() & (tokens.cumsum(1) <= lengths[:, None])
    return PassRows(tokens.bool(), prompts, cached_tokens(named) > 0)


def last_places(prompts: Tensor) -> Tensor:
    """The place of each row's last prompt token, shape (rows,).

    >>> last_places(torch.tensor([[0, 1, 1], [1, 1, 0]]))
    tensor([2, 1])
    """
    return (prompts * torch.arange(prompts.shape[1], device=prompts.device)).amax(1)
