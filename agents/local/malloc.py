"""Freed memory goes back to the system while a training runs."""

import ctypes
import sys


def give_back() -> None:
    """Batches of ever other sizes leave glibc's heap in pieces, of a large encoder gigabytes within a few steps."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none
        if trim is not None:
            trim(0)
