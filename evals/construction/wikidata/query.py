"""Fact updates and Wikipedia leads from Wikimedia's servers, with an HTTP client that respects
their limits.

The query service finds the subjects with a date since the given day; their statements are read
from Wikidata's API, and the same rules apply as for a dump.
"""

import hashlib
import json
import re
import sqlite3
import time
import zlib
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
from emend.agents.providers.errors.rejection import BadExchange
from emend.agents.providers.http_client import BoundedExchanges
from emend.agents.providers.retry_after import pause_in_headers
from emend.evals.construction.sources.stored_items import in_turn
from emend.evals.construction.wikidata.entities import (
    ANY_LANGUAGE,
    EntityDecoder,
    WikiItem,
    check_language,
    is_item_id,
)
from emend.evals.construction.wikidata.fact_update import (
    ChangeRule,
    FactUpdate,
    Recipe,
    UpdateCounts,
    changes_of,
)
from emend.evals.data.download import check_url
from emend.evals.data.facts.relation_tables import Relations
from emend.memory.distribution import installed_version
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings, FetchFailed, RequestRefused
from emend.memory.escape import one_line
from emend.memory.files import connect_database

T = TypeVar("T")
ATTEMPTS = 5
# Maximum pause in seconds that a server may request; longer ones raise an error.
LONGEST_PAUSE = 300.0
# Maximum size of a decompressed reply in bytes; ten large items have half of it.
MAX_BYTES = 1 << 26
# Timeout of a request in seconds; the query service stops after 60.
SECONDS = 120.0
TRANSIENT = (408, 429, 500, 502, 503, 504)
# Transient error codes of the MediaWiki API, besides those that start with `internal_api_error`.
TRANSIENT_CODES = ("maxlag", "ratelimited", "readonly")
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS replies (key BLOB PRIMARY KEY, url TEXT, time TEXT, content BLOB)"
)
_CONTACT = re.compile(r"[!-'*-~]+( [!-'*-~]+)*")


class WikiServers(FrozenModel):
    """URLs of the query service and of the APIs of Wikidata and Wikipedia; the latter has the
    placeholder `{language}`.
    """

    sparql: str = "https://query.wikidata.org/sparql"
    wikidata: str = "https://www.wikidata.org/w/api.php"
    wikipedia: str = "https://{language}.wikipedia.org/w/api.php"


class _Http(BoundedExchanges, httpx.Client):
    """HTTP client with limits on the time and size of each request."""

    is_json: ClassVar[bool] = False

    def _open(self, request: Any, options: dict[str, Any]) -> Any:
        request.headers["Accept-Encoding"] = "gzip"  # Wikimedia's guidelines for clients
        return super()._open(request, options)


class _Passing(Exception):  # noqa: N818  a reason to try again, not yet an error
    """Transient failure; `pause` is the server's requested pause in seconds."""

    def __init__(self, message: str, pause: float | None = None) -> None:
        super().__init__(message)
        self.pause = pause


class _Refusal(msgspec.Struct):
    code: str = ""
    info: str = ""


class _ApiReply(msgspec.Struct):
    error: _Refusal | None = None


class WikiClient:
    """Context manager for sequential, cached requests to Wikimedia's servers.

    Args:
        contact: e-mail address or URL of a page, sent with each request, as Wikimedia's policy
            requires.
        cache: SQLite file of replies, which are not requested again; delete it to get the current
            state of Wikidata.
        servers: URLs of the servers.
        seconds: timeout of a request.
        max_bytes: maximum size of a reply.
        sleep: function that waits for a number of seconds.

    Raises:
        BadSettings: the contact is invalid, or a URL is not https.
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
                f"'{contact}' is not a contact: Wikimedia requires an e-mail address or a page in "
                "each request, such as me@example.org."
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
            url: URL of the API.
            parameters: parameters of the request.
            parse: parser that raises ValueError for an invalid reply.

        Raises:
            FetchFailed: the server refuses or fails too often, or the cache cannot be used.
        """

        def check(content: bytes) -> T:
            _check_error(content)
            return parse(content)

        return self._reply(url, {**parameters, "format": "json", "maxlag": "5"}, check)

    def _reply(self, url: str, parameters: dict[str, str], parse: Callable[[bytes], T]) -> T:
        key = hashlib.sha256(json.dumps([url, parameters], sort_keys=True).encode()).digest()
        if (content := self._cached(key)) is not None:
            # an earlier version may have cached a reply that this parser rejects
            with suppress(ValueError, RecursionError):
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
        so_far = f"The replies so far are in '{self._cache}' and are not requested again."
        if pause > LONGEST_PAUSE:
            raise FetchFailed(
                f"{url} asks to wait {pause:,.0f} s: {failure}. Try again then. {so_far}"
            )
        if attempt == ATTEMPTS - 1:
            raise FetchFailed(
                f"{url} failed {ATTEMPTS} times, at last: {failure}. Try again later. {so_far}"
            )
        self._sleep(pause)

    def _get(self, url: str, parameters: dict[str, str]) -> bytes:
        try:
            response = self._http.get(url, params=parameters)
        except BadExchange as error:
            message = str(error).split(". ")[0]  # the rest is advice about model servers
            if error.kind is RequestRefused:
                raise FetchFailed(f"{url}: {message}.") from error
            raise _Passing(message) from error
        except httpx.HTTPError as error:
            raise _Passing(f"{type(error).__name__}: {str(error)[:200]}") from error
        code = response.status_code
        if code in TRANSIENT:
            raise _Passing(f"status {code}", pause_in_headers(response.headers))
        if code != httpx.codes.OK:
            raise FetchFailed(
                f"{url} answers {code} {response.reason_phrase}: {_beginning(response.content)}"
            )
        _check_lag(response)
        return response.content

    def _cached(self, key: bytes) -> bytes | None:
        with self._table() as table:
            row = table.execute("SELECT content FROM replies WHERE key = ?", (key,)).fetchone()
            return zlib.decompress(row[0]) if row else None

    def _store(self, key: bytes, url: str, content: bytes) -> None:
        with self._table() as table:
            row = (
                key,
                url,
                time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                zlib.compress(content),
            )
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
    """Raise a transient failure if the servers are too busy, which they report with status 200 and
    the pause in a header.
    """
    if response.headers.get("mediawiki-api-error") in TRANSIENT_CODES:
        raise _Passing(
            f"error '{response.headers['mediawiki-api-error']}'", pause_in_headers(response.headers)
        )


def _check_error(content: bytes) -> None:
    error = msgspec.json.decode(content, type=_ApiReply).error
    if not error:
        return
    if error.code in TRANSIENT_CODES or error.code.startswith("internal_api_error"):
        raise _Passing(f"error '{error.code[:40]}'")
    reason = one_line(f"{error.code[:40]}, {error.info}", limit=240)
    raise FetchFailed(f"the API rejects the query: {reason}")


def _parsed(content: bytes, parse: Callable[[bytes], T]) -> T:
    try:
        return parse(content)
    except (ValueError, RecursionError) as error:
        raise _Passing(f"an unexpected reply, {_beginning(content)}: {str(error)[:200]}") from error


def _beginning(content: bytes) -> str:
    return repr(" ".join(content[:400].decode(errors="replace").split())[:100])


# Number of items per request for statements, which are megabytes for a country.
SUBJECTS = 10
# Number of items per request for labels, the API's maximum.
LABELS = 50
# Number of pages per request for leads, the API's maximum.
PAGES = 20
# Number of subjects queried per update; most have ended, or have several objects.
ROWS_FOR_ONE = 10
MOST_ROWS = 5000
# Maximum number of sentences of a lead, as in the paper (appendix A).
SENTENCES = 10
# Maximum number of continuations of a reply.
MOST_PARTS = 50
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
    """Yield fact updates from Wikidata's servers, in round-robin order over the relations.

    Args:
        client: client of the servers.
        since: earliest start date of a new object.
        relations: relations to query.
        recipe: rule that defines an update.
        language: language of labels, aliases and pages.
        limit: maximum number of updates.
        counts: counts of candidates, updates and reasons, which are added to.
        today: current date, after which starts and ends are in the future; default: today.

    Raises:
        FetchFailed: a server refuses, or fails too often.
        BadSettings: the language is unknown.
    """
    counts = UpdateCounts() if counts is None else counts
    rule = ChangeRule(recipe=recipe, since=since, today=today or date.today())
    find = partial(
        _changes, client, rule, relations, language, min(limit * ROWS_FOR_ONE, MOST_ROWS), counts
    )
    changes = in_turn([find(relation) for relation in relations.by_id])
    labels, left = EntityDecoder((), language), limit
    while batch := list(islice(changes, min(left, LABELS // 2))):
        ids = dict.fromkeys(id_ for change in batch for id_ in (change.old_id, change.new_id))
        objects = _items(client, tuple(ids), labels)
        for change in batch:
            update = change.complete(relations, objects)
            if counts.add_result(update):
                left -= 1
                yield update


def fetch_leads(
    client: WikiClient, titles: Iterable[str], language: str = "en"
) -> Mapping[str, str]:
    """Return the leads of Wikipedia pages by title, as plain text of at most ten sentences.

    Missing and empty pages are left out; a moved page has the lead of its new title.

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
        "action": "query", "prop": "extracts", "exintro": "1", "explaintext": "1",
        "exlimit": "max", "redirects": "1",
        "formatversion": "2", "titles": "|".join(titles),
    }  # fmt: skip
    texts, names = dict[str, str](), {title: title for title in titles}
    parse, continuation = msgspec.json.Decoder(_Extracts).decode, dict[str, str]()
    for _ in range(MOST_PARTS):
        reply: _Extracts = client.call(url, parameters | continuation, parse)
        texts |= {page.title: page.extract for page in reply.query.pages if page.extract}
        for renaming in (*reply.query.normalized, *reply.query.redirects):
            names = {
                title: renaming.new if name == renaming.old else name
                for title, name in names.items()
            }
        continuation = {name: str(value) for name, value in reply.continued.items()}
        if not continuation:
            break
    return {title: first_sentences(texts[name]) for title, name in names.items() if name in texts}


def first_sentences(text: str, most: int = SENTENCES) -> str:
    """Return the first `most` sentences of a text."""
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
        raise FetchFailed(
            f"the subjects of {relation}: {error} Or leave this relation out."
        ) from error
    subjects = dict.fromkeys(
        binding.item.value.rpartition("/")[2] for binding in reply.results.bindings
    )
    decoder = EntityDecoder((relation,), language)
    for batch in _batches([subject for subject in subjects if is_item_id(subject)], SUBJECTS):
        items = {item.id: item for item in _items(client, batch, decoder).values()}
        for item in items.values():
            yield from changes_of(item, rule, relations, counts)


def _items(client: WikiClient, ids: Sequence[str], decoder: EntityDecoder) -> dict[str, WikiItem]:
    """Return items by id; an item that was merged into another is also found by its former id."""
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
