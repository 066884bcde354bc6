"""Limits on the time of a block, for checkers that must notice what hangs."""

import faulthandler
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the main thread after so many seconds, and again where it was caught."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"not done in {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def watch(subject: str, seconds: float) -> None:
    """Say on standard error what begins; unless called again in time, print all stacks and end this process.

    This also ends what no exception reaches, such as a loop in a library's C code.
    """
    sys.stderr.write(f"{subject}\n")
    sys.stderr.flush()
    faulthandler.dump_traceback_later(seconds, exit=True)
