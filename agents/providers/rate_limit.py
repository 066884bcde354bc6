"""Calls and tokens per minute, shared by all threads; slower after a provider complains, faster again with time."""

import threading
import time
from collections import deque
from collections.abc import Callable

from emend.memory.errors import BadSettings

MINUTE = 60.0
DOUBLING = 10.0
"""Seconds without a complaint after which the pace is twice what it was."""
FIRST = 60.0
"""Calls per minute that are let through after one complaint at least, where no limit is given: it may have nothing to
do with the pace, or come before there is one."""
SLOWEST = 2.0
"""The same after any number of complaints; where a limit is given it is an eighth of that."""
SHORTEST_SPAN = 10.0
"""Calls of a shorter time than this do not tell a pace."""
LOOK = 1.0
"""Seconds after which a waiting call looks again, because the pace may have changed meanwhile."""


class Limiter:
    """Lets calls through one after the other, evenly spaced, so that no minute has more than it may.

    Args:
        rpm: calls per minute at most; None sets no limit until the provider complains.
        tpm: tokens per minute at most, those of the reply included.
        clock: seconds that only grow.
        sleep: waits for so many seconds.

    Raises:
        BadSettings: a limit is not above 0.
    """

    def __init__(
        self,
        rpm: float | None = None,
        tpm: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        for name, limit in (("rpm", rpm), ("tpm", tpm)):
            if limit is not None and not limit > 0:
                raise BadSettings(f"--{name} is {limit:g}: give a number above 0, or leave it out.")
        self.rpm, self.tpm = rpm, tpm
        self._clock, self._sleep = clock, sleep
        self._turn, self._lock = threading.Lock(), threading.Lock()
        self._passed: deque[float] = deque()
        self._next_call = self._next_token = self._paused = float("-inf")
        self._slow: tuple[float, float, float] | None = None
        """Calls per minute and share of the limits right after the last complaint, and when that was."""

    def wait(self, tokens: int) -> float:
        """Wait until a call of about so many tokens may be sent; the time at which it may."""
        with self._turn:  # one waits, the others queue behind it
            while (left := self._left()) > 0:
                self._sleep(min(left, LOOK))
            return self._pass(tokens)

    def settle(self, estimated: int, actual: int) -> None:
        """The call has taken another number of tokens than was expected of it."""
        with self._lock:
            rate = self._tokens_a_minute(self._clock())
            if rate is not None:
                self._next_token += (actual - estimated) * MINUTE / rate

    def slow_down(self, sent: float, pause: float = 0.0) -> None:
        """The provider complains of a call that was sent then, and asks for a pause.

        Calls that were under way together are one complaint.
        """
        with self._lock:
            now = self._clock()
            self._paused = max(self._paused, now + pause)
            if self._slow is not None and sent <= self._slow[2]:
                return
            slowest = SLOWEST if self.rpm is None else self.rpm / 8
            self._slow = (max(self._rate(now) / 2, slowest), max(self._share(now) / 2, 1 / 8), now)

    @property
    def pace(self) -> float | None:
        """Calls per minute that are let through now; None is any number."""
        with self._lock:
            return self._calls_a_minute(self._clock())

    def _left(self) -> float:
        with self._lock:
            return max(self._next_call, self._next_token, self._paused) - self._clock()

    def _pass(self, tokens: int) -> float:
        with self._lock:
            now = self._clock()
            calls, rate = self._calls_a_minute(now), self._tokens_a_minute(now)
            if calls is not None:
                self._next_call = max(now, self._next_call) + MINUTE / calls
            if rate is not None:
                self._next_token = max(now, self._next_token) + tokens * MINUTE / rate
            self._passed.append(now)
            while self._passed[0] < now - MINUTE:
                self._passed.popleft()
            return now

    def _rate(self, now: float) -> float:
        """Calls per minute that a complaint is about: those let through, or that came, where that is fewer."""
        allowed = self._calls_a_minute(now)
        if allowed is not None and self.rpm is not None:
            return allowed
        return min(allowed or float("inf"), max(self._observed(now), 2 * FIRST))

    def _observed(self, now: float) -> float:
        if not self._passed:
            return 1.0
        return len(self._passed) * MINUTE / max(SHORTEST_SPAN, now - self._passed[0])

    def _grown(self, now: float) -> float:
        """How many times the pace is what it was right after the last complaint."""
        assert self._slow is not None
        return float(2 ** min((now - self._slow[2]) / DOUBLING, 64.0))

    def _calls_a_minute(self, now: float) -> float | None:
        if self._slow is None:
            return self.rpm
        return min(self.rpm or float("inf"), self._slow[0] * self._grown(now))

    def _share(self, now: float) -> float:
        return 1.0 if self._slow is None else min(1.0, self._slow[1] * self._grown(now))

    def _tokens_a_minute(self, now: float) -> float | None:
        return None if self.tpm is None else self.tpm * self._share(now)
