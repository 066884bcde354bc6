"""Adaptive rate limits of calls and tokens per minute, lowered for a while after a provider's
complaint.
"""

import threading
import time
from collections import deque
from collections.abc import Callable

from emend.memory.errors import BadSettings

MINUTE = 60.0
# Half-life of a slow-down without further complaints, in seconds.
RECOVERY = 4.0
# Calls per minute at which a slow-down starts if there is no limit, or the latest pace if that was
# higher.
UNLIMITED = 1200.0
# Maximum slow-down without a limit of calls: five calls per minute remain.
SLOWEST = 256.0
# Maximum slow-down of a given limit.
SLOWEST_LIMITED = 8.0
# Number of latest calls over which the share of complaints is computed.
RECENT = 40
# Maximum pause in seconds after a single rejection that does not delay the other calls.
SHORT = 1.0
# Minimum number of calls for a share, and the minimum if no other call succeeded.
FEWEST, ALL = 10, 3
# Seconds after which a waiting call checks again whether the pace has changed.
LOOK = 1.0


class RateLimiter:
    """A rate limiter that spaces calls evenly, so that no minute exceeds its limit.

    LangChain's `InMemoryRateLimiter` has no limit of tokens per minute, and its waits do not end
    with the run.

    Args:
        rpm: maximum calls per minute; None is no limit until the provider complains.
        tpm: maximum tokens per minute, including those of the replies.
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
        """Wait until a call of about this many tokens may be sent; return the time of sending."""
        with self._turn:  # one thread waits, the others queue for the lock
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
        """Replace the estimated number of a call's tokens by the actual one."""
        with self._lock:
            rate = self._tokens_per_minute(self._clock())
            if rate is not None:
                self._next_token += (actual - estimated) * MINUTE / rate

    def passed(self) -> None:
        """Count a call that the provider accepted."""
        with self._lock:
            self._refused.append(False)

    def slow_down(self, sent: float, pause: float = 0.0) -> None:
        """If most of the latest calls were rejected, halve the pace and hold all calls during the
        pause.

        Fewer rejections cost less than a lower pace would, since some providers reject at random. A
        long pause always applies to all calls. Calls that were in flight together cause only one
        slow-down.

        Args:
            sent: time at which the rejected call was sent.
            pause: the pause in seconds that the provider asks for.
        """
        with self._lock:
            now = self._clock()
            self._refused.append(True)
            refusals, passes = self._refused.count(True), self._refused.count(False)
            is_most = refusals > passes and (
                refusals + passes >= FEWEST or refusals >= ALL and not passes
            )
            if is_most or pause > SHORT:
                self._paused_until = max(self._paused_until, now + pause)
            if is_most and sent > self._slowed_at:
                if (
                    self._slowness_at(now) == 1.0
                    and len(self._sent) >= FEWEST
                    and now > self._sent[0]
                ):
                    self._unlimited = max(
                        UNLIMITED, len(self._sent) * MINUTE / (now - self._sent[0])
                    )
                slowest = SLOWEST if self.rpm is None else SLOWEST_LIMITED
                self._slowness, self._slowed_at = min(2 * self._slowness_at(now), slowest), now

    def slow_down_after(self, age: float, pause: float = 0.0) -> None:
        """Slow down for a call that another process sent `age` seconds ago."""
        self.slow_down(self._clock() - age, pause)

    def record_send(self) -> None:
        """Record a call that another process sent without waiting for its turn."""
        with self._lock:
            self._sent.append(self._clock())

    @property
    def is_throttling(self) -> bool:
        """True if calls must wait for their turn, because of a complaint or a limit."""
        with self._lock:
            now = self._clock()
            limits = (self._calls_per_minute(now), self._tokens_per_minute(now))
            return limits != (None, None) or self._paused_until > now

    @property
    def pace(self) -> float | None:
        """The current limit in calls per minute; None without a limit."""
        with self._lock:
            return self._calls_per_minute(self._clock())

    def _seconds_left(self) -> float:
        with self._lock:
            return max(self._next_call, self._next_token, self._paused_until) - self._clock()

    def _slowness_at(self, now: float) -> float:
        """Return the factor by which the pace is lower than the limit."""
        return max(1.0, self._slowness * float(2.0 ** -((now - self._slowed_at) / RECOVERY)))

    def _calls_per_minute(self, now: float) -> float | None:
        slowness = self._slowness_at(now)
        if self.rpm is None and slowness == 1.0:
            return None
        return (self.rpm or self._unlimited) / slowness

    def _tokens_per_minute(self, now: float) -> float | None:
        return None if self.tpm is None else self.tpm / min(self._slowness_at(now), SLOWEST_LIMITED)
