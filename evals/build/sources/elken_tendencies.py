"""Tendency events: a call for each topic and region as an item, and the rows of ELKEN's files."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, Field

from emend.evals.build.card import FilterCount, count_filter
from emend.evals.build.sources.elken import write_splits
from emend.evals.build.sources.stored_items import KeptItem, SourceItem, SourceNotes
from emend.evals.data.benchmarks.registry import BenchmarkFiles
from emend.evals.data.benchmarks.rows import sha256
from emend.evals.data.wikidata.fact_update import read_tables
from emend.graphs.construction.filters.duplicates import find_duplicates, find_same_meaning, meaning_embedding
from emend.graphs.construction.tendencies import candidate_of
from emend.memory.typography import fold_text

SHIPPED_TOPICS = "topics"
"""Name of the source with ELKEN's eighteen topics."""
TOPICS_FILE = Path(__file__).with_name("topics.toml")
REGIONS = (
    "Northern Europe", "East Asia", "North America", "West Africa", "Latin America", "South Asia", "Southern Europe",
    "the Middle East", "East Africa", "Oceania",
)  # fmt: skip
"""One for each of the paper's ten calls about a topic, so that no two of them give the same events."""
LIMITS = (
    "Events are invented, and what they make likely is a model's opinion, tried by a reader; the paper had people.",
    "Near duplicates are looked for within a topic; those in other words in English alone, with MiniLM installed.",
)


class _TopicTables(BaseModel):
    topics: Annotated[dict[str, Literal["test", "train"]], Field(min_length=1)]


def read_source(source: str) -> tuple[Iterator[SourceItem], SourceNotes]:
    """The calls for the topics of a file, or for ELKEN's own, region by region, and notes on the file.

    Raises:
        BadData: the file cannot be read, or a topic is in no part of the data.
    """
    path = TOPICS_FILE if source == SHIPPED_TOPICS else Path(source).expanduser()
    topics = read_topics(path)
    notes = SourceNotes(source, files={path.name: sha256(path)})
    fields = (
        {"topic": topic, "split": split, "region": region} for region in REGIONS for topic, split in topics.items()
    )
    return (SourceItem(f"{each['topic']}, {each['region']}", each) for each in fields), notes


def read_topics(path: Path) -> dict[str, Literal["test", "train"]]:
    """The topics of a TOML file, and the part of the data that each is in.

    Raises:
        BadData: the file cannot be read, or a topic is in no part of the data.
    """
    remedy = f"Name ELKEN's with --from {SHIPPED_TOPICS}, or give a TOML file with a table [topics] of lines such as "
    tables = read_tables(path, _TopicTables, "the topics", f'{remedy}Business = "test".')
    topics: dict[str, Literal["test", "train"]] = tables.topics
    return topics


def events_of(item: KeptItem) -> str:
    """The events of a call, one in each line."""
    return "\n".join(event["event"] for event in item.result["events"])


def write_rows(items: Sequence[KeptItem], folder: Path) -> BenchmarkFiles:
    """Write ELKEN's test file and that for training."""
    rows = [
        (item.fields["split"], _row(item.fields["topic"], each)) for item in items for each in item.result["events"]
    ]
    return write_splits(folder, rows, "tendency_m,tendency_g")


def drop_duplicates(
    items: Sequence[KeptItem], recipe: str, language: str
) -> tuple[list[KeptItem], tuple[FilterCount, ...]]:
    """The items without events that are near an earlier one of their topic, or equal to one of another topic.

    Recipe `best` also drops those that are near in meaning, where there is an embedding for the language.
    """
    embedding = meaning_embedding(language) if recipe == "best" else None
    rejects = "An event shares too many words with one of another call about its topic (ROUGE-1 above 0.4)."
    items, count = _drop_near(items, "duplicate_in_topic", rejects, find_duplicates)
    if embedding is None:
        return items, (count,)
    rejects = "An event is near one of another call about its topic in meaning (MiniLM, cosine above 0.72)."
    items, meant = _drop_near(
        items, "same_meaning_in_topic", rejects, lambda texts: find_same_meaning(texts, embedding)
    )
    return items, (count, meant)


class _TopicEvent(NamedTuple):
    """An event with the place of its item, and its topic with the part of the data."""

    item: int
    topic: tuple[str, str]
    fields: dict[str, Any]

    @property
    def text(self) -> str:
        return str(self.fields["event"])


def _drop_near(
    items: Sequence[KeptItem], name: str, rejects: str, find: Callable[[Sequence[str]], Mapping[int, int]]
) -> tuple[list[KeptItem], FilterCount]:
    """The items without such events, and the count of the filter; an item with no event left is dropped."""
    events = [
        _TopicEvent(place, (item.fields["topic"], item.fields["split"]), event)
        for place, item in enumerate(items)
        for event in item.result["events"]
    ]
    dropped = _near_in_topics(events, find) | _repeated(events)
    remaining: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for index, event in enumerate(events):
        if index not in dropped:
            remaining[event.item].append(event.fields)
    thinned = [items[place]._replace(result={"events": each}) for place, each in remaining.items()]
    outcomes = {str(index): index not in dropped for index in range(len(events))}
    return thinned, count_filter(name, outcomes, len(dropped), rejects)


def _near_in_topics(events: Sequence[_TopicEvent], find: Callable[[Sequence[str]], Mapping[int, int]]) -> set[int]:
    topics: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, event in enumerate(events):
        topics[event.topic].append(index)
    return {indices[place] for indices in topics.values() for place in find([events[index].text for index in indices])}


def _repeated(events: Sequence[_TopicEvent]) -> set[int]:
    """The events whose text an earlier one of any topic has."""
    first: dict[str, int] = {}
    return {index for index, event in enumerate(events) if first.setdefault(fold_text(event.text), index) != index}


def _row(topic: str, event: Mapping[str, Any]) -> dict[str, Any]:
    scopes = {name: [_question(each) for each in event[scope]] for name, scope in _SCOPES.items()}
    return {
        "event_type": topic,
        "event": event["event"],
        "fact": {"qas": [], "local_qas": []},
        "tendency": scopes,
    }


_SCOPES = {"qas": "in_scope", "local_qas": "out_of_scope"}


def _question(question: dict[str, Any]) -> dict[str, Any]:
    fields = {"question": question["question"], "candidate": candidate_of(question["options"])}
    return {**fields, "answer": question["answer"]}
