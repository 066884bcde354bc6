"""Requests for files, with limits on the time until the headers and each piece arrive, and on
redirects.
"""

import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import partial
from threading import Thread
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

import requests
from urllib3.exceptions import HTTPError

from emend.memory.errors import FetchFailed

# Timeouts in seconds for connecting and between two packets.
TIMEOUT = (15.0, 30.0)
# Minimum number of bytes per second, averaged over so many seconds, in which the headers and each
# piece of the body must have arrived too.
LEAST_RATE, SLOW_SECONDS = 500, 60.0
MAX_REDIRECTS = 10
TRANSIENT = (408, 416, 425, 429)
_CHUNK = 1 << 16
T = TypeVar("T")


def open_response(url: str, headers: dict[str, str]) -> requests.Response:
    """Return the response to a request when its headers have arrived, with the body to come.

    Redirects are followed here, since `requests` would read their bodies, however large.

    Raises:
        requests.RequestException: the headers did not arrive in `SLOW_SECONDS`, or it failed.
        FetchFailed: the server redirects to another one.
    """
    for _ in range(MAX_REDIRECTS):
        try:
            return _in_time(partial(_send, url, headers), "no complete headers", _close)
        except _Redirect as redirect:
            url = redirect.target
    raise requests.TooManyRedirects(f"it redirects more than {MAX_REDIRECTS} times")


def _send(url: str, headers: dict[str, str]) -> requests.Response:
    hooks = {"response": _check_redirect}
    return requests.get(url, headers=headers, stream=True, timeout=TIMEOUT, hooks=hooks)


def _close(response: requests.Response) -> None:
    response.close()


def _in_time(
    act: Callable[[], T], failure: str, close: Callable[[T], object] = lambda result: None
) -> T:
    """Return a function's result.

    It runs in a thread, which is left behind if it takes too long: the timeouts of `requests` are
    for each packet, so a server that drips its headers, or sends trailers without end, would hold
    it for ever.

    Args:
        act: the function.
        failure: what the server did not send in time, for the message.
        close: called with a late result.

    Raises:
        requests.ConnectionError: there was no result in `SLOW_SECONDS`.
    """
    outcome = Future[T]()
    Thread(target=_settle, args=(act, outcome), daemon=True).start()
    if not wait([outcome], SLOW_SECONDS).done:
        outcome.add_done_callback(lambda late: late.exception() or close(late.result()))
        raise requests.ConnectionError(f"{failure} in {SLOW_SECONDS:g} s")
    try:
        return outcome.result()
    finally:
        del outcome  # an error's frames hold the connection, which a cycle would keep open


def _settle(act: Callable[[], T], outcome: Future[T]) -> None:
    """Set an outcome to a function's result or error."""
    try:
        outcome.set_result(act())
    except BaseException as error:
        outcome.set_exception(error)
    finally:
        del outcome


def read_piece(response: requests.Response) -> bytes:
    """Return what has arrived, decompressed if the server compresses; empty at the end.

    Raises:
        requests.ConnectionError: the transfer was interrupted, or nothing arrived in
            `SLOW_SECONDS`.
    """
    return _in_time(lambda: _read(response), "no more bytes")


def _read(response: requests.Response) -> bytes:
    raw: Any = response.raw
    try:
        # urllib3 before 2.1 lacks `read1` and waits for the whole chunk
        content: bytes = getattr(raw, "read1", raw.read)(_CHUNK, decode_content=True)
    except HTTPError as error:
        raise requests.ConnectionError(error) from error
    return content


class Rate:
    """Guard against servers that send so slowly that a download would not end.

    Args:
        size: bytes at the beginning.
    """

    def __init__(self, size: int) -> None:
        self._began, self._size = time.monotonic(), size

    def check(self, size: int) -> None:
        """Compare the bytes received in each `SLOW_SECONDS` with the least that are accepted.

        Raises:
            requests.ConnectionError: too few were received.
        """
        now = time.monotonic()
        if now - self._began < SLOW_SECONDS:
            return
        if size - self._size < SLOW_SECONDS * LEAST_RATE:
            raise requests.ConnectionError(
                f"fewer than {LEAST_RATE:,} bytes per second in {SLOW_SECONDS:g} s"
            )
        self._began, self._size = now, size


class _Redirect(Exception):  # noqa: N818  not an error
    """A redirect to an address of the same server."""

    def __init__(self, target: str) -> None:
        super().__init__(target)
        self.target = target


def _check_redirect(response: requests.Response, *args: object, **kwargs: object) -> None:
    if not response.is_redirect:
        return
    response.close()
    given = response.headers["Location"]
    try:
        target = urljoin(response.url, given)
        is_same = urlsplit(target)[:2] == urlsplit(response.url)[:2]
    except ValueError:  # invalid brackets
        target, is_same = given, False
    if not is_same:
        raise FetchFailed(
            f"{response.url} redirects to another server, which is not followed: {target[:200]}."
        )
    raise _Redirect(target)


def check_status(response: requests.Response) -> None:
    """Check that a response has the content.

    Raises:
        requests.HTTPError: a status that a retry may change.
        FetchFailed: any other status of an error.
    """
    code = response.status_code
    if code < 400:
        return
    message = f"{response.url} answers {code} {response.reason}".rstrip()
    if code in TRANSIENT or code >= 500:
        raise requests.HTTPError(message, response=response)
    if code in (404, 410):
        raise FetchFailed(
            f"{message}: the file does not exist any more. Look for it at its origin (emend data "
            "list), and put it into the data folder under its name."
        )
    raise FetchFailed(f"{message}: the server does not allow this download.")
