"""Single-precision computation with weights stored in half precision.

In half precision a logit can change by a few tenths with the other rows of its batch, since sums
are rounded to two or three digits and their order depends on the batch's shape. With
single-precision activations only the weights are rounded, independently of the batch, and results
agree to about five digits.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

HALF = (torch.bfloat16, torch.float16)


class SinglePrecision(TorchFunctionMode):
    """Context in which a half-precision model computes in single precision; for inference only.

    Embeddings are returned in single precision, and each operation with mixed precisions casts the
    half-precision tensors, so that only one layer's weights at a time exist in both. In-place
    operations are not changed.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        if func is torch.nn.functional.embedding:
            return func(*args, **named).float()
        if _mixes((*args, *named.values())) and not _writes(func.__name__):
            args = tuple(_single(value) for value in args)
            named = {name: _single(value) for name, value in named.items()}
        return func(*args, **named)


def _writes(name: str) -> bool:
    """Return whether a function writes to its first argument, so that casting it would lose the
    result.
    """
    return name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))


def _mixes(values: Iterable[Any]) -> bool:
    """Return whether there are tensors of both single and half precision."""
    dtypes = {value.dtype for value in values if isinstance(value, Tensor)}
    return torch.float32 in dtypes and not dtypes.isdisjoint(HALF)


def _single(value: Any) -> Any:
    return value.float() if isinstance(value, Tensor) and value.dtype in HALF else value
