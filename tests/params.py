"""Parameters of which only some belong to the quick tests."""

from collections.abc import Iterable
from typing import Any

import pytest


def mostly_slow(values: Iterable[Any], *quick: Any) -> list[Any]:
    """The parameters for `parametrize`, all but the `quick` ones marked `slow`; a tuple is a row of parameters."""
    return [value if value in quick else _slow(value) for value in values]


def _slow(value: Any) -> Any:
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.slow)


QUICK_ARCHITECTURES = ("llama", "gpt2", "gemma2")
"""A usual model, one with learned positions, one with capped logits and sliding windows."""
