"""Polite client of Wikimedia's servers: it names itself, sends one request at a time, waits, and caches replies."""

import hashlib
import json
import re
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import httpx
import msgspec

from emend.agents.providers.errors import BadExchange
from emend.agents.providers.http_client import BoundedExchanges
from emend.agents.providers.retry_after import pause_in_headers
from emend.evals.data.download import check_url
from emend.memory.distribution import installed_version
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings, FetchFailed, RequestRefused
from emend.memory.files import connect_database

T = TypeVar("T")
ATTEMPTS = 5
LONGEST_PAUSE = 300.0
"""Seconds that a server may ask to wait; for longer the user tries again later."""
MAX_BYTES = 1 << 26
"""Bytes of a reply, decompressed; ten large items have half of it."""
SECONDS = 120.0
"""Limit of one exchange; the query service gives up after 60."""
TRANSIENT = (408, 429, 500, 502, 503, 504)
TRANSIENT_CODES = ("maxlag", "ratelimited", "readonly")
"""Codes of errors of the MediaWiki API that pass; `internal_api_error` and more behind it too."""
SCHEMA = "CREATE TABLE IF NOT EXISTS replies (key BLOB PRIMARY KEY, url TEXT, time TEXT, content BLOB)"
_CONTACT = re.compile(r"[!-'*-~]+( [!-'*-~]+)*")


class WikiServers(FrozenModel):
    """Addresses of the query service, of Wikidata's API and of a Wikipedia's, with `{language}` for its language."""

    sparql: str = "https://query.wikidata.org/sparql"
    wikidata: str = "https://www.wikidata.org/w/api.php"
    wikipedia: str = "https://{language}.wikipedia.org/w/api.php"


class _Http(BoundedExchanges, httpx.Client):
    """An httpx client whose exchanges are bounded in time and size."""

    is_json: ClassVar[bool] = False

    def _open(self, request: Any, options: dict[str, Any]) -> Any:
        request.headers["Accept-Encoding"] = "gzip"  # as Wikimedia asks of clients
        return super()._open(request, options)


class _Passing(Exception):  # noqa: N818  a reason to try again, not yet an error
    """A failure that may pass; `pause` is what the server asks for, in seconds."""

    def __init__(self, message: str, pause: float | None = None) -> None:
        super().__init__(message)
        self.pause = pause


class _Refusal(msgspec.Struct):
    code: str = ""
    info: str = ""


class _ApiReply(msgspec.Struct):
    error: _Refusal | None = None


class WikiClient:
    """Asks the servers one request after the other; a context manager.

    Args:
        contact: an e-mail address or the URL of a page, sent with each request, as Wikimedia's policy demands.
        cache: SQLite file of replies; what is in it is not asked again. Delete it for today's state of Wikidata.
        servers: whom to ask.
        seconds: limit of one exchange.
        max_bytes: limit of a reply.
        sleep: waits for seconds.

    Raises:
        BadSettings: there is no contact, or an address is not https.
    """

    def __init__(
        self,
        contact: str,
        cache: Path,
        servers: WikiServers | None = None,
        seconds: float = SECONDS,
        max_bytes: int = MAX_BYTES,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if not _CONTACT.fullmatch(contact) or not ("@" in contact or "://" in contact):
            raise BadSettings(
                f"'{contact}' is no contact: Wikimedia asks for an e-mail address or a page in each request, such as "
                "me@example.org."
            )
        self.servers = servers or WikiServers()
        for url in (self.servers.sparql, self.servers.wikidata, self.servers.wikipedia):
            check_url(url)
        self._cache, self._sleep = cache, sleep
        agent = f"emend/{installed_version()} ({contact}) httpx/{httpx.__version__}"
        self._http = _Http(seconds, max_bytes, headers={"User-Agent": agent}, timeout=seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._http.close()

    def select(self, query: str, parse: Callable[[bytes], T]) -> T:
        """Return the parsed reply of the query service to a SPARQL query.

        Raises:
            FetchFailed: as for `call`.
        """
        return self._reply(self.servers.sparql, {"query": query, "format": "json"}, parse)

    def call(self, url: str, parameters: Mapping[str, str], parse: Callable[[bytes], T]) -> T:
        """Return the parsed reply of a MediaWiki API.

        Args:
            url: of the API.
            parameters: of the request.
            parse: raises ValueError for what is no such reply.

        Raises:
            FetchFailed: the server refuses, or fails too often; or the cache cannot be used.
        """

        def check(content: bytes) -> T:
            _check_error(content)
            return parse(content)

        return self._reply(url, {**parameters, "format": "json", "maxlag": "5"}, check)

    def _reply(self, url: str, parameters: dict[str, str], parse: Callable[[bytes], T]) -> T:
        key = hashlib.sha256(json.dumps([url, parameters], sort_keys=True).encode()).digest()
        if (content := self._cached(key)) is not None:
            with suppress(ValueError, RecursionError):  # a reply that an earlier version parsed otherwise
                return parse(content)
        for attempt in count():
            try:
                content = self._get(url, parameters)
                parsed = _parsed(content, parse)
            except _Passing as failure:
                self._wait(url, failure, attempt)
            else:
                self._store(key, url, content)
                break
        return parsed

    def _wait(self, url: str, failure: _Passing, attempt: int) -> None:
        pause = 2.0**attempt if failure.pause is None else failure.pause
        so_far = f"The replies so far are in '{self._cache}' and are not asked again."
        if pause > LONGEST_PAUSE:
            raise FetchFailed(f"{url} asks to wait {pause:,.0f} s: {failure}. Try again then. {so_far}")
        if attempt == ATTEMPTS - 1:
            raise FetchFailed(f"{url} failed {ATTEMPTS} times, at last: {failure}. Try again later. {so_far}")
        self._sleep(pause)

    def _get(self, url: str, parameters: dict[str, str]) -> bytes:
        try:
            response = self._http.get(url, params=parameters)
        except BadExchange as error:
            message = str(error).split(". ")[0]  # the rest is the remedy for a model's server
            if error.kind is RequestRefused:
                raise FetchFailed(f"{url}: {message}.") from error
            raise _Passing(message) from error
        except httpx.HTTPError as error:
            raise _Passing(f"{type(error).__name__}: {str(error)[:200]}") from error
        code = response.status_code
        if code in TRANSIENT:
            raise _Passing(f"status {code}", pause_in_headers(response.headers))
        if code != httpx.codes.OK:
            raise FetchFailed(f"{url} answers {code} {response.reason_phrase}: {_beginning(response.content)}")
        _check_lag(response)
        return response.content

    def _cached(self, key: bytes) -> bytes | None:
        with self._table() as table:
            row = table.execute("SELECT content FROM replies WHERE key = ?", (key,)).fetchone()
            return zlib.decompress(row[0]) if row else None

    def _store(self, key: bytes, url: str, content: bytes) -> None:
        with self._table() as table:
            row = (key, url, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), zlib.compress(content))
            table.execute("INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?)", row)

    @contextmanager
    def _table(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(connect_database(self._cache, timeout=30)) as table, table:
                table.execute(SCHEMA)
                yield table
        except (sqlite3.Error, OSError, zlib.error) as error:
            raise FetchFailed(
                f"the cache '{self._cache}' cannot be used: {error}. Name another, or delete it."
            ) from error


def _check_lag(response: httpx.Response) -> None:
    """Raise that the servers are too busy, which comes with status 200 and the pause in a header."""
    if response.headers.get("mediawiki-api-error") in TRANSIENT_CODES:
        raise _Passing(f"error '{response.headers['mediawiki-api-error']}'", pause_in_headers(response.headers))


def _check_error(content: bytes) -> None:
    error = msgspec.json.decode(content, type=_ApiReply).error
    if not error:
        return
    if error.code in TRANSIENT_CODES or error.code.startswith("internal_api_error"):
        raise _Passing(f"error '{error.code[:40]}'")
    raise FetchFailed(f"the API refuses: {error.code[:40]}, {error.info[:200]}")


def _parsed(content: bytes, parse: Callable[[bytes], T]) -> T:
    try:
        return parse(content)
    except (ValueError, RecursionError) as error:
        raise _Passing(f"a reply of another form, {_beginning(content)}: {str(error)[:200]}") from error


def _beginning(content: bytes) -> str:
    return repr(" ".join(content[:400].decode(errors="replace").split())[:100])


def as_json(form: Any) -> Callable[[bytes], Any]:
    """Return a parser of JSON of a msgspec form."""
    return msgspec.json.Decoder(form).decode
