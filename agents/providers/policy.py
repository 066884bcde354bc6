"""How providers are asked in a run: when again, how fast, how often, and what is kept; shared by all models of it."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from emend.agents.providers.journal import CallJournal
from emend.agents.providers.prices import Prices
from emend.agents.providers.rate_limit import Limiter
from emend.agents.providers.usage import Ledger
from emend.memory.errors import CallDropped

DOUBLINGS = 60
"""Of a wait; more would be too large a number."""
_REPEAT: ContextVar[int] = ContextVar("repeat", default=0)


@contextmanager
def repetition(index: int) -> Iterator[None]:
    """Calls made meanwhile belong to this repeat: a reply that was kept for another one is not theirs."""
    token = _REPEAT.set(index)
    try:
        yield
    finally:
        _REPEAT.reset(token)


def current_repeat() -> int:
    """The repeat that calls belong to now; 0 outside of `repetition`."""
    return _REPEAT.get()


@dataclass(frozen=True)
class Waiting:
    """How often a call is tried, and the seconds between: `first`, twice that, and so on up to `longest`.

    `patience` bounds the waits of one call together; a provider that asks for a longer one is not waited for. A limit
    per minute passes with its minute, however often one asks: beyond `tries` a call that meets one goes on until it
    has waited `limited` times `longest`.
    """

    tries: int = 6
    first: float = 0.5
    longest: float = 30.0
    patience: float = 120.0
    limited: float = 2.0

    def before(self, attempt: int, waited: float, asked: float | None, limited: bool = False) -> float | None:
        """Seconds to wait before the attempt of that number, from 2; None when it should not be made.

        Args:
            attempt: its number.
            waited: what this call has waited already.
            asked: the pause that the provider asks for.
            limited: whether the provider asks for fewer calls, and does not fail.
        """
        beyond = attempt > self.tries
        if beyond and not (limited and waited < self.limited * self.longest):
            return None
        step = min(self.longest, self.first * 2.0 ** min(attempt - 2, DOUBLINGS))
        wait = step * random.uniform(0.5, 1.0)
        if asked is not None:  # one that asks for hardly any pause again and again is not believed for ever
            wait = max(asked, wait) if beyond else asked + step * random.uniform(0.0, 0.25)
        return wait if waited + wait <= self.patience else None


@dataclass
class CallPolicy:
    """What the models of a run share.

    `stopped` makes calls that wait give up, because the run is ending.
    """

    waiting: Waiting = Waiting()
    limiter: Limiter = field(default_factory=Limiter)
    ledger: Ledger = field(default_factory=Ledger)
    cache: CallJournal | None = None
    stopped: threading.Event = field(default_factory=threading.Event)
    models: set[str] = field(default_factory=set)
    """Names of the models that are called by this policy."""

    @classmethod
    def of(
        cls,
        rpm: float | None = None,
        tpm: float | None = None,
        cache: Path | None = None,
        prices: Path | None = None,
        max_cost: float | None = None,
        max_calls: int | None = None,
        waiting: Waiting | None = None,
    ) -> "CallPolicy":
        """The policy that the command line's options describe.

        Raises:
            BadSettings: an impossible number, or a file that cannot be used.
        """
        stopped = threading.Event()

        def pause(seconds: float) -> None:
            if stopped.wait(seconds):
                raise CallDropped("the run is ending: this call was not made, and is made on resume.")

        return cls(
            waiting=waiting or Waiting(),
            limiter=Limiter(rpm, tpm, sleep=pause),
            ledger=Ledger(None if prices is None else Prices.read(prices), max_cost, max_calls),
            cache=None if cache is None else CallJournal(cache),
            stopped=stopped,
        )

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Meanwhile calls that wait give up."""
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
            raise CallDropped("the run is ending: this call was not made again, and is made on resume.")

    def close(self) -> None:
        """Make waiting calls give up and close the cache."""
        self.stopped.set()
        if self.cache is not None:
            self.cache.close()
