"""What a strategy raises, as an error that says which strategy it was."""

from collections.abc import Iterator
from contextlib import contextmanager

from emend.memory.errors import BadSettings, EmendError


@contextmanager
def told_of(strategy: str, query: str = "") -> Iterator[None]:
    """Around the making of a strategy, and around a search of it.

    Raises:
        BadSettings: for whatever else a plug-in raises.
    """
    try:
        yield
    except EmendError:
        raise
    except Exception as error:
        where = f"fails on {query[:60]!r}" if query else "cannot be made"
        raise BadSettings(
            f"strategy '{strategy}' {where} ({type(error).__name__}: {error}): see docs/retrieval.md for what a "
            "strategy is."
        ) from error
