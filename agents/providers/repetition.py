"""The repeat that calls belong to, which a cached reply of another repeat never answers."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_REPEAT: ContextVar[int] = ContextVar("repeat", default=0)


@contextmanager
def repetition(index: int) -> Iterator[None]:
    """Make calls inside belong to this repeat, which never gets the cached reply of another one."""
    token = _REPEAT.set(index)
    try:
        yield
    finally:
        _REPEAT.reset(token)


def current_repeat() -> int:
    """Return the repeat that calls belong to now; 0 outside of `repetition`."""
    return _REPEAT.get()
