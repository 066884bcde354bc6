"""Downloads one file, goes on where an interrupted download stopped, and says what is wrong when it cannot.

The libraries that fetch data files with checksums (pooch and its like) begin again after an interruption, so the little
that HTTP's ranges need is here, over httpx.
"""

import errno
import json
import shutil
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

import httpx

from emend.memory.errors import BadSettings, FetchFailed

Told = Callable[[int, int | None], None]
"""Called with the bytes that are there and those there will be, None where the server does not say."""
PATIENCE = (0.5, 2.0, 5.0)
"""Seconds to wait before each further try."""
TIMEOUT = httpx.Timeout(30.0, connect=15.0)
LOOPBACK = ("127.0.0.1", "localhost", "::1")
MARGIN = 1 << 20


class HostGone(FetchFailed):
    """Raised when a server does not answer at all, so that its other files need not be tried."""


class _Transient(Exception):
    """The server asks to try again; the text says how."""


def client() -> httpx.Client:
    """A client that follows redirections to safe addresses only, and asks for bytes as they are stored."""
    headers = {"Accept-Encoding": "identity", "User-Agent": f"emend/{version('emend')}"}
    hooks = {"request": [lambda request: check_address(str(request.url))]}
    return httpx.Client(headers=headers, timeout=TIMEOUT, follow_redirects=True, event_hooks=hooks)


def check_address(url: str) -> None:
    """Let only https pass, and http on this machine.

    Raises:
        BadSettings: it is another address.
    """
    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise BadSettings(f"'{url}' is no address: {error}.") from error
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.host in LOOPBACK):
        raise BadSettings(f"'{url}' is not fetched: only https is, and http on this machine.")


def download(http: httpx.Client, url: str, part: Path, told: Told, patience: Sequence[float] = PATIENCE) -> None:
    """Download to the file `part`, going on behind what it holds already; a further try begins where the last ended.

    What is there is kept when this fails. It is only gone on with if it came from the same address; where the server
    gave a validator (ETag or Last-Modified) it decides whether the file is still the same, else the checksum must.

    Raises:
        FetchFailed: not there, refused, no space, a folder that cannot be written, or interrupted too often.
        HostGone: no connection.
        BadSettings: an address, or one it leads to, is not https.
    """
    check_address(url)
    for wait in (*patience, None):
        try:
            return _once(http, url, part, told)
        except (httpx.TransportError, _Transient) as error:
            if wait is None:
                raise _given_up(url, part, error) from error
            time.sleep(wait)
        except OSError as error:
            raise _cannot_write(part, error) from error
        except (httpx.InvalidURL, httpx.TooManyRedirects) as error:
            raise FetchFailed(f"{url} leads nowhere: {error}.") from error


def _once(http: httpx.Client, url: str, part: Path, told: Told) -> None:
    had, headers = _kept(part, url)
    with http.stream("GET", url, headers=headers) as response:
        if response.status_code == 416 and response.headers.get("Content-Range") == f"bytes */{had}":
            return told(had, had)  # all of it had come, and was not yet checked
        if response.status_code == 416:
            part.unlink()
            raise _Transient("it has fewer bytes than were fetched before")
        _check_status(response, url)
        goes_on = response.status_code == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {had}-")
        if response.status_code == 206 and not goes_on:
            part.unlink()
            raise _Transient("it sent another part than was asked for")
        done = had if goes_on else 0
        length = response.headers.get("Content-Length", "")
        total = done + int(length) if length.isdigit() else None
        _check_space(part, total, done)
        with part.open("ab" if goes_on else "wb") as file:
            _remember(part, url, response)
            told(done, total)
            for chunk in response.iter_raw():
                file.write(chunk)
                file.flush()
                done += len(chunk)
                told(done, total)


def _kept(part: Path, url: str) -> tuple[int, dict[str, str]]:
    """The bytes that are there from the same address, and the headers that ask for the rest."""
    try:
        state = json.loads(_state(part).read_text(encoding="utf-8"))
        had = part.stat().st_size
    except (OSError, ValueError):
        return 0, {}
    if not isinstance(state, dict) or state.get("url") != url or not had:
        return 0, {}
    check = state.get("validator")
    return had, {"Range": f"bytes={had}-", **({"If-Range": str(check)} if check else {})}


def _remember(part: Path, url: str, response: httpx.Response) -> None:
    tag = response.headers.get("ETag", "")
    # A weak tag promises the same meaning, not the same bytes.
    validator = tag if tag and not tag.startswith("W/") else response.headers.get("Last-Modified", "")
    _state(part).write_text(json.dumps({"url": url, "validator": validator}), encoding="utf-8")


def forget(part: Path) -> None:
    """Take away what is left of a download."""
    part.unlink(missing_ok=True)
    _state(part).unlink(missing_ok=True)


def finish(part: Path, target: Path) -> None:
    """Give a whole download its name."""
    part.replace(target)
    _state(part).unlink(missing_ok=True)


def _state(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _check_status(response: httpx.Response, url: str) -> None:
    code = response.status_code
    packed = response.headers.get("Content-Encoding", "identity")
    if code in (200, 206) and packed != "identity":
        raise FetchFailed(f"{url} comes packed as {packed}, though it was asked for as it is: fetch it by hand.")
    if code in (200, 206):
        return
    said = f"{url} answers {code} {response.reason_phrase}".rstrip()
    if code in (408, 425, 429) or code >= 500:
        raise _Transient(said)
    if code in (404, 410):
        raise FetchFailed(
            f"{said}: the file is not there any more. Look for it at its origin (emend data list), and put it into "
            "the data folder under its name."
        )
    raise FetchFailed(f"{said}: it may not be fetched from here.")


def _check_space(part: Path, total: int | None, done: int) -> None:
    free = shutil.disk_usage(part.parent).free
    if total is not None and total - done + MARGIN > free:
        raise FetchFailed(
            f"no space for '{part.parent}': {total - done:,} bytes are still to come and {free:,} are free. "
            "Free some, or give another --to."
        )


def _given_up(url: str, part: Path, error: Exception) -> FetchFailed:
    had = part.stat().st_size if part.exists() else 0
    kept = f" {had:,} bytes are kept; the same command goes on behind them." if had else ""
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return HostGone(f"no connection to {httpx.URL(url).host}: {error}. Try again later.{kept}")
    why = str(error) or type(error).__name__
    return FetchFailed(f"{url} broke off: {why}. Try again later.{kept}")


def _cannot_write(part: Path, error: OSError) -> FetchFailed:
    if error.errno == errno.ENOSPC:
        return FetchFailed(f"no space left for '{part}': free some, or give another --to; what has come is kept.")
    return FetchFailed(f"cannot write '{part}': {error.strerror or error}. Make it writable, or give another --to.")
