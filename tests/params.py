"""Parameters of which only some belong to the quick tests."""

from collections.abc import Iterable
from typing import Any

import pytest


def mostly_slow(values: Iterable[Any], *quick: Any) -> list[Any]:
    """The parameters for `parametrize`, all but the `quick` ones marked `slow`; a tuple is a row of parameters."""
    return [value if value in quick else _slow(value) for value in values]


def first_quick(values: Iterable[Any], count: int = 1) -> list[Any]:
    """The parameters for `parametrize`, all but the first ones marked `slow`."""
    every = list(values)
    return mostly_slow(every, *every[:count])


def _slow(value: Any) -> Any:
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.slow)


QUICK_ARCHITECTURES = ("gpt2", "gemma2")
"""One with learned positions, one with capped logits and sliding windows; a usual one is in most other tests."""
