"""Policy under which the models of a run ask their providers: retries, rates, budget, cache."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_exponential

from emend.agents.providers.errors import TRANSIENT, retry_after
from emend.agents.providers.journal import CallJournal
from emend.agents.providers.prices import Prices
from emend.agents.providers.rate_limit import RateLimiter
from emend.agents.providers.usage import Ledger
from emend.memory.errors import CallDropped, RateLimited


@dataclass(frozen=True)
class Backoff:
    """Number of attempts of a call and seconds between them, as tenacity's `stop` and `wait`.

    Waits grow from `first` by doubling up to `longest`, with jitter; a pause that the provider asks for is kept to.
    `total` bounds the waits of one call together. A limit per minute passes with its minute: a rate-limited call waits
    for less, since the pace is lowered for all, and goes on beyond `attempts` until it has waited
    `rate_limited` seconds.
    """

    attempts: int = 6
    first: float = 0.5
    longest: float = 30.0
    total: float = 120.0
    rate_limited: float = 60.0

    def wait(self, state: RetryCallState) -> float:
        """Return the seconds to wait before the next attempt."""
        error = _error_of(state)
        first, longest = self.first, self.longest
        if isinstance(error, RateLimited):
            first, longest = first / 4, longest / 16
        step = wait_exponential(first, longest)(state)
        wait = step * random.uniform(0.5, 1.0)
        pause = retry_after(error)
        if pause is None:
            return wait
        if state.attempt_number >= self.attempts:  # a provider that always asks for hardly any pause is not believed
            return max(pause, wait)
        return pause + step * random.uniform(0.0, 0.25)

    def stop(self, state: RetryCallState) -> bool:
        """Return whether the call has failed for good; tenacity computes the wait before it asks."""
        if state.idle_for + state.upcoming_sleep > self.total:
            return True
        goes_on = isinstance(_error_of(state), RateLimited) and state.idle_for < self.rate_limited
        return state.attempt_number >= self.attempts and not goes_on


def _error_of(state: RetryCallState) -> BaseException:
    error = state.outcome.exception() if state.outcome else None
    assert error is not None
    return error


class CallPolicy:
    """Attempts, rates, budget and cache that the models of a run share.

    `stopped` makes waiting calls give up, because the run is ending; `models` are the specs of those models; `on_wait`
    is called with the seconds and the reason of each wait between attempts.

    Args:
        rpm: maximum calls per minute.
        tpm: maximum tokens per minute.
        cache: folder of the reply cache; None caches nothing.
        prices: TOML file of prices.
        max_cost: budget in the currency of the prices.
        max_calls: maximum number of calls, retries included.
        backoff: attempts and waits of a call.
        clock: monotonic seconds, for tests.
        stopped: event whose `wait` is the sleep of all waits.

    Raises:
        BadSettings: an impossible number, or a file that cannot be used.
    """

    def __init__(
        self,
        rpm: float | None = None,
        tpm: float | None = None,
        cache: Path | None = None,
        prices: Path | None = None,
        max_cost: float | None = None,
        max_calls: int | None = None,
        backoff: Backoff = Backoff(),
        clock: Callable[[], float] = time.monotonic,
        stopped: threading.Event | None = None,
    ) -> None:
        self.backoff = backoff
        self.models: set[str] = set()
        self.on_wait: Callable[[float, str], None] = lambda seconds, reason: None
        self.stopped = stopped or threading.Event()
        self._free: threading.Semaphore | None = None
        self.limiter = RateLimiter(rpm, tpm, clock, self.pause)
        self.ledger = Ledger(None if prices is None else Prices.read(prices), max_cost, max_calls)
        self.cache = None if cache is None else CallJournal(cache)

    def retrying(
        self, before_sleep: Callable[[RetryCallState], None], is_over: Callable[[RetryCallState], bool]
    ) -> Retrying:
        """Return the attempts of one call, until `is_over` at the latest, with the last one's error raised as it is."""
        return Retrying(
            retry=retry_if_exception_type(TRANSIENT),
            wait=self.backoff.wait,
            stop=lambda state: is_over(state) or self.backoff.stop(state),
            sleep=self._wait_to_retry,
            before_sleep=before_sleep,
            reraise=True,
        )

    def limit_calls(self, at_once: int) -> None:
        """Allow so many calls in flight; others wait for one to end."""
        self._free = threading.Semaphore(at_once)

    @contextmanager
    def in_flight(self) -> Iterator[None]:
        """Inside the `with`, a call is one of those in flight, but while it waits to be retried.

        Raises:
            CallDropped: it had to wait, and the run is ending.
        """
        free = self._free
        if free is None:
            yield
            return
        if has_waited := not free.acquire(blocking=False):
            free.acquire()
        try:
            if has_waited:
                self.pause(0)
            yield
        finally:
            free.release()

    def _wait_to_retry(self, seconds: float) -> None:
        """Wait as `pause` does, while another call takes the place of this one."""
        if self._free is None:
            self.pause(seconds)
            return
        self._free.release()
        try:
            self.pause(seconds)
        finally:
            self._free.acquire()
        self.pause(0)  # the run may have ended meanwhile

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Make waiting calls give up meanwhile."""
        self.stopped.set()
        try:
            yield
        finally:
            self.stopped.clear()

    def pause(self, seconds: float) -> None:
        """Wait, unless the run is ending.

        Raises:
            CallDropped: it is.
        """
        if self.stopped.wait(seconds):
            raise CallDropped("the run is ending: this call was not made, and is made on resume.")

    def close(self) -> None:
        """Make waiting calls give up and close the cache."""
        self.stopped.set()
        if self.cache is not None:
            self.cache.close()
