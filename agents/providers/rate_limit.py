"""Limits of calls and tokens per minute, shared by all threads and lowered for a while after a provider complains."""

import threading
import time
from collections import deque
from collections.abc import Callable

from emend.memory.errors import BadSettings

MINUTE = 60.0
RECOVERY = 4.0
"""Seconds without a complaint in which a slow-down halves."""
UNLIMITED = 1200.0
"""Calls per minute that a slow-down starts from where no limit is given, or the latest pace if that was higher."""
SLOWEST = 256.0
"""Largest slow-down without a limit of calls: five calls per minute remain."""
SLOWEST_LIMITED = 8.0
"""Largest slow-down of a given limit."""
RECENT = 40
"""Number of latest calls of which complaints are a share."""
SHORT = 1.0
"""Seconds of a pause that a single refusal does not hold the other calls for."""
FEWEST, ALL = 10, 3
"""Number of calls that make a share, and of those that are enough where no other call passed."""
LOOK = 1.0
"""Seconds after which a waiting call looks again, because the pace may have changed meanwhile."""


class RateLimiter:
    """Lets calls through one after the other, evenly spaced, so that no minute has more than its limit.

    LangChain's `InMemoryRateLimiter` has neither tokens per minute nor waits that end with the run.

    Args:
        rpm: maximum calls per minute; None sets no limit until the provider complains.
        tpm: maximum tokens per minute, those of the replies included.
        clock: monotonic seconds.
        sleep: waits for a number of seconds.

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
        self._next_call = self._next_token = self._paused_until = self._slowed_at = float("-inf")
        self._slowness = 1.0
        self._refused, self._sent = deque[bool](maxlen=RECENT), deque[float](maxlen=RECENT)
        self._unlimited = UNLIMITED

    def acquire(self, tokens: int) -> float:
        """Wait until a call of about that many tokens may be sent; return the time at which it is sent."""
        with self._turn:  # one thread waits, the others queue behind it
            while (left := self._seconds_left()) > 0:
                self._sleep(min(left, LOOK))
            with self._lock:
                now = self._clock()
                self._sent.append(now)
                if (pace := self._calls_per_minute(now)) is not None:
                    self._next_call = max(now, self._next_call) + MINUTE / pace
                if (rate := self._tokens_per_minute(now)) is not None:
                    self._next_token = max(now, self._next_token) + tokens * MINUTE / rate
                return now

    def correct(self, estimated: int, actual: int) -> None:
        """Count the actual number of a call's tokens in place of the estimated one."""
        with self._lock:
            rate = self._tokens_per_minute(self._clock())
            if rate is not None:
                self._next_token += (actual - estimated) * MINUTE / rate

    def passed(self) -> None:
        """Count a call that the provider took."""
        with self._lock:
            self._refused.append(False)

    def slow_down(self, sent: float, pause: float = 0.0) -> None:
        """Halve the pace, and let no call through during the pause, where most of the latest calls were refused.

        Fewer refusals cost less than a lower pace would: some providers refuse at random. A pause that is not short
        always holds for all. Calls in flight together slow down once.

        Args:
            sent: time at which the call was sent that the provider complains about.
            pause: seconds that the provider asks to be left alone.
        """
        with self._lock:
            now = self._clock()
            self._refused.append(True)
            refusals, passes = self._refused.count(True), self._refused.count(False)
            is_most = refusals > passes and (refusals + passes >= FEWEST or refusals >= ALL and not passes)
            if is_most or pause > SHORT:
                self._paused_until = max(self._paused_until, now + pause)
            if is_most and sent > self._slowed_at:
                if self._slowness_at(now) == 1.0 and len(self._sent) >= FEWEST and now > self._sent[0]:
                    self._unlimited = max(UNLIMITED, len(self._sent) * MINUTE / (now - self._sent[0]))
                slowest = SLOWEST if self.rpm is None else SLOWEST_LIMITED
                self._slowness, self._slowed_at = min(2 * self._slowness_at(now), slowest), now

    def slow_down_after(self, age: float, pause: float = 0.0) -> None:
        """Slow down for a call that was sent so many seconds ago, by another process."""
        self.slow_down(self._clock() - age, pause)

    def record_send(self) -> None:
        """Note a call that another process sent without waiting for its turn."""
        with self._lock:
            self._sent.append(self._clock())

    @property
    def is_throttling(self) -> bool:
        """True while calls must wait for their turn, because of a complaint or a limit."""
        with self._lock:
            now = self._clock()
            limits = (self._calls_per_minute(now), self._tokens_per_minute(now))
            return limits != (None, None) or self._paused_until > now

    @property
    def pace(self) -> float | None:
        """Calls per minute that are let through now; None without a limit."""
        with self._lock:
            return self._calls_per_minute(self._clock())

    def _seconds_left(self) -> float:
        with self._lock:
            return max(self._next_call, self._next_token, self._paused_until) - self._clock()

    def _slowness_at(self, now: float) -> float:
        """Factor by which the pace is lower than the limit."""
        return max(1.0, self._slowness * float(2.0 ** -((now - self._slowed_at) / RECOVERY)))

    def _calls_per_minute(self, now: float) -> float | None:
        slowness = self._slowness_at(now)
        if self.rpm is None and slowness == 1.0:
            return None
        return (self.rpm or self._unlimited) / slowness

    def _tokens_per_minute(self, now: float) -> float | None:
        return None if self.tpm is None else self.tpm / min(self._slowness_at(now), SLOWEST_LIMITED)
