"""A provider's client in a process of its own: what it computes does not wait for this process's interpreter lock.

A call through a provider's client takes a millisecond or two of processor time. Where replies come fast, and graphs
run in many threads at once, a run's speed ends there: one interpreter can make a few hundred calls a second.
"""

import os
import pickle
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import IO, Any

from langchain_core.messages import AIMessage, BaseMessage

from emend.memory.errors import ModelUnreachable

MANY = 32
"""Calls at once from which a process of its own pays: fewer do not fill one interpreter's time."""
PROVIDERS = ("openai", "anthropic")
"""Loaders that make the same client anywhere; a plug-in's may hold what another process has not."""
START = 20.0
"""Seconds within which the other process has to be ready; without it this one makes the calls."""
CHILD = "import sys; sys.path[:] = {path!r}; from emend.agents.providers.client_child import serve; serve()"
_LENGTH = struct.Struct("<Q")


class ProcessEnded(Exception):
    """The other process is gone, or was never ready: a call is made here."""


class ClientProcess:
    """Asks a provider's model in another process; safe for many threads, and ends with this process.

    Args:
        spec: the model, of one of `PROVIDERS`.
        settings: what its loader takes.
    """

    def __init__(self, spec: str, settings: dict[str, Any]) -> None:
        self._lock = threading.Lock()
        self._open: dict[int, Future[Any]] = {}
        self._numbers = iter(range(1, sys.maxsize))
        self._ready = threading.Event()
        self._ended = False
        self.cpu_seconds = 0.0
        """Processor time of the other process, as of its latest reply."""
        self._process = subprocess.Popen(
            [sys.executable, "-c", CHILD.format(path=sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # an interrupt from the keyboard is this process's to act on
        )
        assert self._process.stdin and self._process.stdout
        self._to, self._back = self._process.stdin, self._process.stdout
        self._reader = threading.Thread(target=self._read, name="emend-client", daemon=True)
        self._reader.start()
        with suppress(OSError):
            write_frame(self._to, pickle.dumps((spec, settings)))

    def ask(self, messages: Sequence[BaseMessage], stop: Sequence[str] | None, more: dict[str, Any]) -> AIMessage:
        """The model's reply.

        Raises:
            ProcessEnded: there is no such process, or the call cannot be told to it; it has not been made.
            ModelUnreachable: the process ended during the call.
            ModelError: as the client's error is sorted; its cause is a `ClientRaised`.
        """
        if not self._ended and not self._ready.wait(START):
            self._ended = True  # it is waited for once, not by every call
        if self._ended:
            raise ProcessEnded
        waiting: Future[Any] = Future()
        try:
            with self._lock:
                number = next(self._numbers)
                sent = pickle.dumps((number, list(messages), stop, more))
                self._open[number] = waiting
                write_frame(self._to, sent)
        except (pickle.PicklingError, TypeError, AttributeError, OSError, ValueError) as error:
            self._open.pop(number, None)
            raise ProcessEnded from error
        message, raised, cause = waiting.result()
        if raised is not None:
            raise raised from cause
        assert isinstance(message, AIMessage)
        return message

    def close(self) -> None:
        """Ends the other process; calls under way fail."""
        with suppress(OSError):
            self._to.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._back.close()

    def _read(self) -> None:
        """Hands replies to those who wait for them, until the other process ends."""
        try:
            while (frame := read_frame(self._back)) is not None:
                number, told, self.cpu_seconds = pickle.loads(frame)  # noqa: S301  from our own process
                if number:
                    self._open.pop(number).set_result(told)
                else:
                    self._ready.set()
        finally:
            self._ended = True
            self._ready.set()
            gone = ModelUnreachable("the process that asks the provider has ended during the call.")
            with self._lock:
                left, self._open = self._open, {}
            for waiting in left.values():
                waiting.set_result((None, gone, None))


def worth_a_process(spec: str, at_once: int) -> bool:
    """Whether so many calls at once to that model are better made by another process."""
    return at_once >= MANY and spec.partition(":")[0] in PROVIDERS and (os.cpu_count() or 1) > 1


def write_frame(to: IO[bytes], told: bytes) -> None:
    """Bytes behind their length."""
    to.write(_LENGTH.pack(len(told)) + told)
    to.flush()


def read_frame(back: IO[bytes]) -> bytes | None:
    """What was written as one; None at the end, also in the middle of a frame."""
    head = back.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (size,) = _LENGTH.unpack(head)
    told = back.read(size)
    return told if len(told) == size else None
