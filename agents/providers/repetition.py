"""The number of the current repeat; cached replies are not shared between repeats."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_REPEAT: ContextVar[int] = ContextVar("repeat", default=0)


@contextmanager
def repetition(index: int) -> Iterator[None]:
    """Assign the calls made inside to a repeat, so that they never get the cached reply of another
    one.
    """
    token = _REPEAT.set(index)
    try:
        yield
    finally:
        _REPEAT.reset(token)


def current_repeat() -> int:
    """Return the number of the current repeat; 0 outside of `repetition`."""
    return _REPEAT.get()
