"""A worker's end of the connection: messages go out in order, and requests wait for their answers."""

import threading
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any

from emend.memory import errors
from emend.memory.errors import CallDropped

MAX_BATCH = 256


class Port:
    """Messages to the driver, which the transport takes from here; safe for many threads."""

    def __init__(self) -> None:
        self._outbox = SimpleQueue[tuple[Any, ...] | None]()
        self._numbers, self._lock = count(), threading.Lock()
        self._requests: dict[int, Future[Any]] = {}
        self._is_closed = False

    def send(self, name: str, *values: Any) -> None:
        """Send a message soon."""
        self._outbox.put((name, None, *values))

    def request(self, name: str, *values: Any) -> Any:
        """Send a message, and return the answer.

        Raises:
            EmendError: the driver answered with an error.
            CallDropped: the connection ended.
        """
        future = Future[Any]()
        with self._lock:
            if self._is_closed:
                raise _dropped()
            number = next(self._numbers)
            self._requests[number] = future
        self._outbox.put((name, number, *values))
        return future.result()

    def answer(self, request: int, value: Any, error: tuple[str, str] | None) -> None:
        """Pass an answer to the request that waits for it."""
        with self._lock:
            future = self._requests.pop(request, None)
        if future is None:
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(rebuilt_error(*error))

    def close(self) -> None:
        """End the messages; requests that still wait raise `CallDropped`."""
        with self._lock:
            self._is_closed = True
            waiting, self._requests = self._requests, {}
        for future in waiting.values():
            future.set_exception(_dropped())
        self._outbox.put(None)

    def take(self, seconds: float | None = None) -> list[tuple[Any, ...]] | None:
        """Wait for messages and return them; an empty list after so many seconds without one, None after the last."""
        batch: list[tuple[Any, ...]] = []
        with suppress(Empty):
            message = self._outbox.get(timeout=seconds)
            while message is not None:
                batch.append(message)
                if len(batch) == MAX_BATCH:
                    return batch
                message = self._outbox.get_nowait()
            if not batch:
                return None
            self._outbox.put(None)
        return batch


def _dropped() -> CallDropped:
    return CallDropped("the run is ending: this call was not made, and is made on resume.")


def rebuilt_error(kind: str, message: str) -> Exception:
    """Make an error of another process anew: of Emend's class of that name, else of a class that only has the name."""
    known = getattr(errors, kind, None)
    is_known = isinstance(known, type) and issubclass(known, errors.EmendError)
    make: Any = known if is_known else type(kind, (Exception,), {})
    error: Exception = make.__new__(make, message)  # constructors may take more than a message
    error.args = (message,)
    return error
