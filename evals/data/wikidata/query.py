"""Updates of facts and leads of Wikipedia's pages from Wikimedia's servers, by a polite client over HTTP.

The query service names the subjects with a date since the day; their statements are read from Wikidata's API and
judged by the same rules as those of a dump.
"""

import hashlib
import json
import re
import sqlite3
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import date
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import httpx
import msgspec
from msgspec import Struct, field

from emend.agents.parsing.passages import sentences
from emend.agents.providers.errors import BadExchange
from emend.agents.providers.http_client import BoundedExchanges
from emend.agents.providers.retry_after import pause_in_headers
from emend.evals.data.download import check_url
from emend.evals.data.wikidata.entities import ANY_LANGUAGE, EntityDecoder, WikiItem, check_language, is_item_id
from emend.evals.data.wikidata.fact_update import (
    ChangeRule,
    FactUpdate,
    Recipe,
    Relations,
    UpdateCounts,
    changes_of,
)
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


SUBJECTS = 10
"""Items whose statements are asked for at once: those of a country have megabytes."""
LABELS = 50
"""Items whose labels are asked for at once, the most that the API allows."""
PAGES = 20
"""Pages whose leads are asked for at once, the most that the API allows."""
ROWS_FOR_ONE = 10
"""Subjects that are asked for to have one update; most have ended, or have several objects."""
MOST_ROWS = 5000
SENTENCES = 10
"""Of a lead; the paper's number (appendix A)."""
MOST_PARTS = 50
"""Parts in which a reply may come."""
SUBJECTS_QUERY = """SELECT DISTINCT ?item WHERE {{
  ?item p:{relation} ?statement .
  ?statement pq:P580|pq:P582 ?time .
  FILTER(?time >= "{since}T00:00:00Z"^^xsd:dateTime)
}} LIMIT {rows}"""


class _Uri(Struct):
    value: str


class _Binding(Struct):
    item: _Uri


class _Bindings(Struct):
    bindings: list[_Binding]


class _Selection(Struct):
    results: _Bindings


class _Renaming(Struct):
    old: str = field(name="from")
    new: str = field(name="to")


class _Page(Struct):
    title: str
    extract: str = ""


class _Pages(Struct):
    pages: list[_Page] = []
    normalized: list[_Renaming] = []
    redirects: list[_Renaming] = []


class _Extracts(Struct):
    query: _Pages = field(default_factory=_Pages)
    continued: dict[str, str | int] = field(name="continue", default_factory=dict)


def query_updates(
    client: WikiClient,
    since: date,
    relations: Relations,
    recipe: Recipe = "best",
    language: str = "en",
    limit: int = 100,
    *,
    counts: UpdateCounts | None = None,
    today: date | None = None,
) -> Iterator[FactUpdate]:
    """Yield updates from Wikidata's servers, one of each relation in turn.

    Args:
        client: asks the servers.
        since: day of the update: the new object has begun on it or later.
        relations: those that are asked for.
        recipe: of the rule for what an update is.
        language: of labels, aliases and pages.
        limit: maximum number of updates.
        counts: where to add counts of candidates, updates and reasons.
        today: ends and starts after it lie in the future; default: the present day.

    Raises:
        FetchFailed: a server refuses, or fails too often.
        BadSettings: the language is unknown.
    """
    counts = UpdateCounts() if counts is None else counts
    rule = ChangeRule(recipe=recipe, since=since, today=today or date.today())
    find = partial(_changes, client, rule, relations, language, min(limit * ROWS_FOR_ONE, MOST_ROWS), counts)
    changes = _in_turn([find(relation) for relation in relations.by_id])
    labels, left = EntityDecoder((), language), limit
    while batch := list(islice(changes, min(left, LABELS // 2))):
        ids = dict.fromkeys(id_ for change in batch for id_ in (change.old_id, change.new_id))
        objects = _items(client, tuple(ids), labels)
        for change in batch:
            update = change.complete(relations, objects)
            if counts.add_result(update):
                left -= 1
                yield update


def fetch_leads(client: WikiClient, titles: Iterable[str], language: str = "en") -> Mapping[str, str]:
    """Return the leads of Wikipedia's pages as plain text of at most ten sentences, by the titles given.

    A page that is missing or empty has none; one that was moved has that of its new title.

    Raises:
        FetchFailed: the server refuses, or fails too often.
        BadSettings: the language is unknown.
    """
    url = client.servers.wikipedia.format(language=check_language(language))
    leads: dict[str, str] = {}
    for batch in _batches(tuple(dict.fromkeys(title for title in titles if title)), PAGES):
        leads |= _leads(client, url, batch)
    return leads


def _leads(client: WikiClient, url: str, titles: Sequence[str]) -> dict[str, str]:
    parameters = {
        "action": "query", "prop": "extracts", "exintro": "1", "explaintext": "1", "exlimit": "max", "redirects": "1",
        "formatversion": "2", "titles": "|".join(titles),
    }  # fmt: skip
    texts, names = dict[str, str](), {title: title for title in titles}
    parse, continuation = msgspec.json.Decoder(_Extracts).decode, dict[str, str]()
    for _ in range(MOST_PARTS):
        reply: _Extracts = client.call(url, parameters | continuation, parse)
        texts |= {page.title: page.extract for page in reply.query.pages if page.extract}
        for renaming in (*reply.query.normalized, *reply.query.redirects):
            names = {title: renaming.new if name == renaming.old else name for title, name in names.items()}
        continuation = {name: str(value) for name, value in reply.continued.items()}
        if not continuation:
            break
    return {title: first_sentences(texts[name]) for title, name in names.items() if name in texts}


def first_sentences(text: str, most: int = SENTENCES) -> str:
    """Return the beginning of a text, up to the end of that sentence."""
    end = 0
    for sentence in sentences(text)[:most]:
        end = text.index(sentence, end) + len(sentence)
    return text[:end].strip()


def _changes(
    client: WikiClient,
    rule: ChangeRule,
    relations: Relations,
    language: str,
    rows: int,
    counts: UpdateCounts,
    relation: str,
) -> Iterator[FactUpdate]:
    """Yield the changes of one relation."""
    query = SUBJECTS_QUERY.format(relation=relation, since=rule.since.isoformat(), rows=rows)
    try:
        reply: _Selection = client.select(query, msgspec.json.Decoder(_Selection).decode)
    except FetchFailed as error:
        raise FetchFailed(f"the subjects of {relation}: {error} Or do without this relation.") from error
    subjects = dict.fromkeys(binding.item.value.rpartition("/")[2] for binding in reply.results.bindings)
    decoder = EntityDecoder((relation,), language)
    for batch in _batches([subject for subject in subjects if is_item_id(subject)], SUBJECTS):
        items = {item.id: item for item in _items(client, batch, decoder).values()}
        for item in items.values():
            yield from changes_of(item, rule, relations, counts)


def _items(client: WikiClient, ids: Sequence[str], decoder: EntityDecoder) -> dict[str, WikiItem]:
    """Return items by the ids that were asked for; one that was merged into another is the other."""
    parameters = {
        "action": "wbgetentities",
        "ids": "|".join(ids),
        "props": "labels|aliases|sitelinks" + "|claims" * bool(decoder.relations),
        "languages": f"{decoder.language}|{ANY_LANGUAGE}",
        "sitefilter": decoder.site,
    }
    items = client.call(client.servers.wikidata, parameters, decoder.decode_reply)
    return {id_: item for item in items for id_ in (item.id, item.former_id) if id_}


def _batches(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (values[start : start + size] for start in range(0, len(values), size))


def _in_turn(iterators: list[Iterator[T]]) -> Iterator[T]:
    """Yield one value of each iterator in turn, until all are empty."""
    waiting = deque(iterators)
    while waiting:
        iterator = waiting.popleft()
        for value in islice(iterator, 1):
            yield value
            waiting.append(iterator)
