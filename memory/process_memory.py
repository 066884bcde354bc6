"""Memory of this process: its peak, as reported by the operating system, and its garbage."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

STATUS = Path("/proc/self/status")
RESET = Path("/proc/self/clear_refs")
# Number of new objects that triggers garbage collection during calls to providers. A call in flight
# has hundreds; at Python's 700, collections take an eighth of the processor time of a call.
NEW_OBJECTS = 100_000
# The peak before the system's high-water mark was reset.
_highest = [0]


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect garbage only after `NEW_OBJECTS` new objects inside the `with` block; not for code
    whose unreachable objects hold large arrays.
    """
    thresholds = gc.get_threshold()
    if 0 < thresholds[0] < NEW_OBJECTS:  # 0 means never
        gc.set_threshold(NEW_OBJECTS, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def highest_memory() -> int | None:
    """Return the peak resident memory of this process so far, in bytes; None if the system is not
    Linux.
    """
    peak = resident_peak()
    return None if peak is None else max(_highest[0], peak)


def resident_peak() -> int | None:
    """Return the system's high-water mark of this process's memory since the last reset, in
    bytes.
    """
    return _status("VmHWM")


def reset_resident_peak() -> int | None:
    """Reset the system's high-water mark to the current use, and return that in bytes; None if it
    cannot be reset.
    """
    _highest[0] = highest_memory() or 0
    with suppress(OSError):
        RESET.write_text("5")
        return _status("VmRSS")
    return None


def _status(name: str) -> int | None:
    """Return a memory figure of this process's status in bytes; None if the system is not Linux."""
    lines = STATUS.read_text().splitlines() if STATUS.exists() else []
    return next(
        (int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), None
    )
