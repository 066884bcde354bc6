"""Sources of ELKEN's tendency questions: new events, with a call per topic and region, or the
factual events of a folder.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, Field

from emend.evals.construction.card import FilterCount, count_filter
from emend.evals.construction.sources.elken import TEST, TRAIN, write_splits
from emend.evals.construction.sources.stored_items import KeptItem, SourceItem, SourceNotes
from emend.evals.data.benchmarks.elken.rows import read_events
from emend.evals.data.benchmarks.registry import BenchmarkFiles
from emend.evals.data.benchmarks.rows import sha256
from emend.evals.data.facts.relation_tables import read_tables
from emend.graphs.construction.filters.duplicates import (
    find_duplicates,
    find_same_meaning,
    meaning_embedding,
)
from emend.graphs.construction.tendencies import candidate_of
from emend.memory.errors import BadData
from emend.memory.json_files import read_json
from emend.memory.typography import fold_text

# Source name for ELKEN's eighteen topics.
SHIPPED_TOPICS = "topics"
TOPICS_FILE = Path(__file__).with_name("topics.toml")
# A region for each of the paper's ten calls per topic, so that the calls return different events.
REGIONS = (
    "Northern Europe",
    "East Asia",
    "North America",
    "West Africa",
    "Latin America",
    "South Asia",
    "Southern Europe",
    "the Middle East",
    "East Africa",
    "Oceania",
)


class _TopicTables(BaseModel):
    topics: Annotated[dict[str, Literal["test", "train"]], Field(min_length=1)]


def read_source(source: str) -> tuple[Iterator[SourceItem], SourceNotes]:
    """Return given events and calls for new ones as items, and notes on their files.

    Args:
        source: folder of factual events, the word `topics` for ELKEN's own topics, or a file of
            topics; several are separated by commas.

    Raises:
        BadData: a file cannot be read, or a topic has no split.
    """
    notes = SourceNotes(source)
    items: list[SourceItem] = []
    for name in source.split(","):
        path = Path(name.strip()).expanduser()
        if path.is_dir():
            items += _given_events(path, notes)
        else:
            items += _calls(TOPICS_FILE if name.strip() == SHIPPED_TOPICS else path, notes)
    return iter(items), notes


def _given_events(folder: Path, notes: SourceNotes) -> Iterator[SourceItem]:
    """Yield the events of ELKEN's files in a folder that have factual questions."""
    files = [folder / name for name in (TEST, TRAIN) if (folder / name).is_file()]
    if not files:
        raise BadData(
            f"'{folder}' has neither {TEST} nor {TRAIN}: name a folder of factual events that "
            "emend build elken made, or ELKEN's own."
        )
    for path in files:
        notes.files[path.name] = sha256(path)
        # checks the rows, with errors that name row and field
        read_events(path, "Build it again with emend build elken.")
        for row in read_json(path, links=True):
            if row["fact"].get("qas") or row["fact"].get("local_qas"):
                fields = {"topic": row["event_type"], "split": path.stem, "event": row["event"]}
                yield SourceItem(row["event"], {**fields, "row": row})
            else:
                notes.leave_out("events without factual questions")


def _calls(path: Path, notes: SourceNotes) -> Iterator[SourceItem]:
    """Yield a call for each pair of a region and a topic of a file."""
    topics = read_topics(path)
    notes.files[path.name] = sha256(path)
    for region in REGIONS:
        for topic, split in topics.items():
            fields = {"topic": topic, "split": split, "region": region}
            yield SourceItem(f"{topic}, {region}", fields)


def read_topics(path: Path) -> dict[str, Literal["test", "train"]]:
    """Return the topics of a TOML file with their splits.

    Raises:
        BadData: the file cannot be read, or a topic has no split.
    """
    remedy = (
        f"Name ELKEN's with --from {SHIPPED_TOPICS}, or give a TOML file with a table "
        "[topics] of lines such as "
    )
    tables = read_tables(path, _TopicTables, "the topics", f'{remedy}Business = "test".')
    topics: dict[str, Literal["test", "train"]] = tables.topics
    return topics


def events_of(item: KeptItem) -> str:
    """Return the events of a call, one per line."""
    return "\n".join(event["event"] for event in item.result["events"])


def write_rows(
    items: Sequence[KeptItem], sources: Sequence[dict[str, Any]], folder: Path
) -> BenchmarkFiles:
    """Write ELKEN's test file and training file.

    Factual events are written even if no tendency question about them was kept.
    """
    kept_items = {item.fields["event"]: item for item in items if "event" in item.fields}
    rows: list[tuple[str, dict[str, Any]]] = []
    for fields in sources:
        if "event" in fields:
            item = kept_items.get(fields["event"])
            events = item.result["events"] if item else []
            scopes = _scopes(events[0]) if events else {name: [] for name in _SCOPES}
            rows.append((fields["split"], {**fields["row"], "tendency": scopes}))
    for call in items:
        if "event" not in call.fields:
            new = [_row(call.fields["topic"], event) for event in call.result["events"]]
            rows += [(call.fields["split"], row) for row in new]
    has_facts = any("event" in fields for fields in sources)
    blocks = "fact,tendency_m,tendency_g" if has_facts else "tendency_m,tendency_g"
    return write_splits(folder, rows, blocks)


def drop_duplicates(
    items: Sequence[KeptItem], recipe: str, language: str
) -> tuple[list[KeptItem], tuple[FilterCount, ...]]:
    """Drop new events that are similar to an earlier one of their topic, or equal to any earlier
    one.

    Recipe `best` also drops events that are similar in meaning, if there is an embedding for the
    language. Factual events are never dropped.
    """
    factual = [item for item in items if "event" in item.fields]
    items, counts = _drop_repeated_events(
        [item for item in items if "event" not in item.fields], recipe, language
    )
    return [*factual, *items], counts


def _drop_repeated_events(
    items: Sequence[KeptItem], recipe: str, language: str
) -> tuple[list[KeptItem], tuple[FilterCount, ...]]:
    if not items:
        return [], ()
    embedding = meaning_embedding(language) if recipe == "best" else None
    rejects = (
        "An event shares too many words with an event of another call about the topic (ROUGE-1 "
        "above 0.4)."
    )
    items, count = _drop_near(items, "duplicate_in_topic", rejects, find_duplicates)
    if embedding is None:
        return items, (count,)
    rejects = (
        "An event is similar in meaning to an event of another call about the topic (MiniLM, "
        "cosine above 0.72)."
    )
    items, meant = _drop_near(
        items, "same_meaning_in_topic", rejects, lambda texts: find_same_meaning(texts, embedding)
    )
    return items, (count, meant)


class _TopicEvent(NamedTuple):
    """Event with the position of its item, and its topic and split."""

    item: int
    topic: tuple[str, str]
    fields: dict[str, Any]

    @property
    def text(self) -> str:
        return str(self.fields["event"])


def _drop_near(
    items: Sequence[KeptItem],
    name: str,
    rejects: str,
    find: Callable[[Sequence[str]], Mapping[int, int]],
) -> tuple[list[KeptItem], FilterCount]:
    """Return the items without the events that `find` drops, and the count of the filter.

    Events with the text of an earlier one are dropped too, and so are items without events.
    """
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
    outcomes = {str(index): [index not in dropped] for index in range(len(events))}
    return thinned, count_filter(name, outcomes, len(dropped), rejects)


def _near_in_topics(
    events: Sequence[_TopicEvent], find: Callable[[Sequence[str]], Mapping[int, int]]
) -> set[int]:
    topics: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, event in enumerate(events):
        topics[event.topic].append(index)
    near: set[int] = set()
    for indices in topics.values():
        texts = [events[index].text for index in indices]
        near.update(indices[position] for position in find(texts))
    return near


def _repeated(events: Sequence[_TopicEvent]) -> set[int]:
    """Return the positions of events with the same text as an earlier one of any topic."""
    first: dict[str, int] = {}
    return {
        index
        for index, event in enumerate(events)
        if first.setdefault(fold_text(event.text), index) != index
    }


def _row(topic: str, event: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "event_type": topic,
        "event": event["event"],
        "fact": {"qas": [], "local_qas": []},
        "tendency": _scopes(event),
    }


def _scopes(event: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    return {name: list(map(_question, event[scope])) for name, scope in _SCOPES.items()}


_SCOPES = {"qas": "in_scope", "local_qas": "out_of_scope"}


def _question(question: dict[str, Any]) -> dict[str, Any]:
    fields = {"question": question["question"], "candidate": candidate_of(question["options"])}
    return {**fields, "answer": question["answer"]}
