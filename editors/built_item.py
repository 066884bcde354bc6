"""The outcome of one item of a construction."""

from typing import Any

from emend.memory.edit import FrozenModel


class BuiltItem(FrozenModel):
    """The outcome of one item, the answer of its record as JSON: a result, or the rejections of all attempts."""

    result: dict[str, Any] | None = None
    passed: dict[str, bool] = {}
    """By filter, whether the last attempt that reached it passed it."""
    rejections: tuple[dict[str, Any], ...] = ()
    attempts: int = 1
    item: dict[str, Any]
    """The fields of the source's item."""
