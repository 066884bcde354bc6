"""Peak memory of this process, as reported by the operating system."""

from contextlib import suppress
from pathlib import Path

STATUS = Path("/proc/self/status")
RESET = Path("/proc/self/clear_refs")
# The peak before the system's high-water mark was reset.
_highest = [0]


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
