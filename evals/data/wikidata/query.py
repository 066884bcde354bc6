"""Updates of facts, and leads of Wikipedia's pages, from Wikimedia's servers over HTTP.

The query service names the subjects with a date since the day; their statements are read from Wikidata's API and judged
by the same rules as those of a dump.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from itertools import islice
from typing import TypeVar

from msgspec import Struct, field

from emend.agents.parsing.passages import sentences
from emend.evals.data.wikidata.client import WikiClient, as_json
from emend.evals.data.wikidata.entities import ANY_LANGUAGE, EntityDecoder, WikiItem, check_language, is_item_id
from emend.evals.data.wikidata.fact_update import ChangeIds, ChangeRule, FactUpdate, Recipe, UpdateCounts, changes_of
from emend.evals.data.wikidata.relations import Relations
from emend.memory.errors import FetchFailed

T = TypeVar("T")
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
    parse, continuation = as_json(_Extracts), dict[str, str]()
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
) -> Iterator[ChangeIds]:
    """Yield the changes of one relation."""
    query = SUBJECTS_QUERY.format(relation=relation, since=rule.since.isoformat(), rows=rows)
    try:
        reply: _Selection = client.select(query, as_json(_Selection))
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
