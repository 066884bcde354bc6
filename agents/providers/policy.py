"""The policy for calls to providers in a run: retries, rate limits, budget, cache."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_exponential

from emend.agents.providers.errors.conversion import TRANSIENT
from emend.agents.providers.errors.rejection import retry_after
from emend.agents.providers.journal import CallJournal
from emend.agents.providers.prices import Prices
from emend.agents.providers.rate_limit import RateLimiter
from emend.agents.providers.usage import Ledger
from emend.memory.errors import CallDropped, RateLimited


@dataclass(frozen=True)
class Backoff:
    """Number of attempts of a call and seconds between them, as tenacity's `stop` and `wait`.

    Waits double from `first` up to `longest`, with jitter; a pause requested by the provider is
    respected. `total` limits the waits of one call together. Rate limits per minute are temporary:
    a rate-limited call waits less, since the pace is lowered for all calls, and is retried beyond
    `attempts` until it has waited `rate_limited` seconds.
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
        # do not trust a provider that always asks for a very short pause
        if state.attempt_number >= self.attempts:
            return max(pause, wait)
        return pause + step * random.uniform(0.0, 0.25)

    def stop(self, state: RetryCallState) -> bool:
        """Return whether to stop retrying; tenacity computes the wait before it calls this."""
        if state.idle_for + state.upcoming_sleep > self.total:
            return True
        goes_on = isinstance(_error_of(state), RateLimited) and state.idle_for < self.rate_limited
        return state.attempt_number >= self.attempts and not goes_on


def _error_of(state: RetryCallState) -> BaseException:
    error = state.outcome.exception() if state.outcome else None
    assert error is not None
    return error


class CallPolicy:
    """Retries, rate limits, budget and cache shared by the models of a run.

    `stopped` makes waiting calls give up when the run ends; `models` are the specs of the models;
    `on_wait` is called with the seconds and reason of each wait between attempts.

    Args:
        rpm: maximum calls per minute.
        tpm: maximum tokens per minute.
        cache: folder of the reply cache; None caches nothing.
        prices: TOML file with prices.
        max_cost: budget in the currency of the prices.
        max_calls: maximum number of calls, retries included.
        backoff: attempts and waits of a call.
        clock: monotonic seconds, for tests.
        stopped: event whose `wait` is the sleep of all waits.

    Raises:
        BadSettings: an invalid number, or an unusable file.
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
        self,
        before_sleep: Callable[[RetryCallState], None],
        is_over: Callable[[RetryCallState], bool],
    ) -> Retrying:
        """Return the attempts of one call, which end when `is_over`; the last error is raised
        unchanged.
        """
        return Retrying(
            retry=retry_if_exception_type(TRANSIENT),
            wait=self.backoff.wait,
            stop=lambda state: is_over(state) or self.backoff.stop(state),
            sleep=self._wait_to_retry,
            before_sleep=before_sleep,
            reraise=True,
        )

    def limit_calls(self, at_once: int) -> None:
        """Limit the number of calls in flight; others wait."""
        self._free = threading.Semaphore(at_once)

    @contextmanager
    def in_flight(self) -> Iterator[None]:
        """Count a call as in flight, except while it waits for a retry.

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
        """Wait as `pause` does, while another call may be in flight instead."""
        if self._free is None:
            self.pause(seconds)
            return
        self._free.release()
        try:
            self.pause(seconds)
        finally:
            self._free.acquire()
        self.pause(0)  # the run may have ended in the meantime

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Make waiting calls give up inside the context."""
        self.stopped.set()
        try:
            yield
        finally:
            self.stopped.clear()

    def pause(self, seconds: float) -> None:
        """Wait, unless the run is ending.

        Raises:
            CallDropped: the run is ending.
        """
        if self.stopped.wait(seconds):
            raise CallDropped(
                "the run is ending: this call was not made; it will be made on resume."
            )

    def close(self) -> None:
        """Make waiting calls give up and close the cache."""
        self.stopped.set()
        if self.cache is not None:
            self.cache.close()
