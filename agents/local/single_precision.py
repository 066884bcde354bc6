"""Single-precision arithmetic with weights that are stored in half precision.

In half precision a logit depends on the other rows of its batch by up to a few tenths, since each sum is rounded to two
or three digits after an order that the batch's shape decides. With single-precision activations only the weights are
rounded, which no batch changes, and the rest agrees to about five digits.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

HALF = (torch.bfloat16, torch.float16)


class SinglePrecision(TorchFunctionMode):
    """Inside the `with`, a model of half precision computes in single precision; for inference only.

    Embeddings come out in single precision, and each operation that gets single and half precision casts the latter, so
    that one layer's weights at a time exist in both. Operations in place are left alone.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        if func is torch.nn.functional.embedding:
            return func(*args, **named).float()
        if _mixes((*args, *named.values())) and not _writes(func.__name__):
            args = tuple(_single(value) for value in args)
            named = {name: _single(value) for name, value in named.items()}
        return func(*args, **named)


def _writes(name: str) -> bool:
    """True for a function that writes to its first argument, of which a copy would get the numbers."""
    return name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))


def _mixes(values: Iterable[Any]) -> bool:
    """True if there are tensors of single and of half precision."""
    dtypes = {value.dtype for value in values if isinstance(value, Tensor)}
    return torch.float32 in dtypes and not dtypes.isdisjoint(HALF)


def _single(value: Any) -> Any:
    return value.float() if isinstance(value, Tensor) and value.dtype in HALF else value
