"""Tendency events: a call for each topic and region as an item, and the rows of ELKEN's files."""

import json
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import TypeAdapter, ValidationError

from emend.evals.build.card import FilterCount, count_filter
from emend.evals.build.elken.files import TEST, TRAIN
from emend.evals.build.source_items import KeptItem, SourceItem, SourceNotes
from emend.evals.data.benchmarks.built import BenchmarkFiles
from emend.evals.data.benchmarks.files import sha256
from emend.graphs.construction.filters.duplicates import find_duplicates
from emend.graphs.construction.tendencies import candidate_of
from emend.memory.errors import BadData
from emend.memory.files import read_input, replace_file
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
    "Near duplicates are looked for within a topic, by shared words alone.",
)
_TOPICS = TypeAdapter(dict[str, Literal["test", "train"]])


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
    try:
        topics = _TOPICS.validate_python(tomllib.loads(read_input(path).decode("utf-8")).get("topics"))
    except (OSError, ValueError, ValidationError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise BadData(
            f"cannot read the topics '{path}': {reason}. Name ELKEN's with --from {SHIPPED_TOPICS}, or give a TOML "
            'file with a table [topics] of lines such as Business = "test".'
        ) from error
    if not topics:
        raise BadData(f"'{path}' has no topic: give lines such as Business = \"test\" in its table [topics].")
    return topics


def events_of(item: KeptItem) -> str:
    """The events of a call, one in each line."""
    return "\n".join(event["event"] for event in item.result["events"])


def write_rows(items: Sequence[KeptItem], folder: Path) -> BenchmarkFiles:
    """Write ELKEN's test file and that for training, without near duplicates among the events of a topic."""
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in _placed_events(items):
        if not event.is_duplicate:
            rows[event.split].append(_row(event))
    files = [file for file, split in ((TEST, "test"), (TRAIN, "train")) if rows[split]]
    for file in files:
        content = json.dumps(rows[file.removesuffix(".json")], ensure_ascii=False, indent=1)
        replace_file(folder / file, f"{content}\n".encode())
    options = {"blocks": "tendency_m,tendency_g", "split": files[0].removesuffix(".json")}
    return BenchmarkFiles(benchmark="elken", options=options, files=tuple(files))


def count_duplicates(items: Sequence[KeptItem]) -> tuple[FilterCount, ...]:
    """The near duplicates among all events of a topic, and equal events of several, which `write_rows` leaves out."""
    outcomes = {str(place): not event.is_duplicate for place, event in enumerate(_placed_events(items))}
    rejects = "An event shares too many words with one of another call about its topic (ROUGE-1 above 0.4)."
    return (count_filter("duplicate_in_topic", outcomes, sum(not each for each in outcomes.values()), rejects, ""),)


class _PlacedEvent(NamedTuple):
    """An event with its topic and part of the data, and whether an earlier one is too near to it."""

    topic: str
    split: str
    fields: dict[str, Any]
    is_duplicate: bool


def _placed_events(items: Sequence[KeptItem]) -> Iterator[_PlacedEvent]:
    """The events of all calls by topic; equal ones of different topics are duplicates too."""
    topics: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for item in items:
        topics[item.fields["topic"], item.fields["split"]] += item.result["events"]
    texts: set[str] = set()
    for (topic, split), events in topics.items():
        duplicates = find_duplicates([event["event"] for event in events])
        for place, event in enumerate(events):
            text = fold_text(event["event"])
            yield _PlacedEvent(topic, split, event, place in duplicates or text in texts)
            texts.add(text)


def _row(event: _PlacedEvent) -> dict[str, Any]:
    scopes = {name: [_question(each) for each in event.fields[scope]] for name, scope in _SCOPES.items()}
    return {
        "event_type": event.topic,
        "event": event.fields["event"],
        "fact": {"qas": [], "local_qas": []},
        "tendency": scopes,
    }


_SCOPES = {"qas": "in_scope", "local_qas": "out_of_scope"}


def _question(question: dict[str, Any]) -> dict[str, Any]:
    fields = {"question": question["question"], "candidate": candidate_of(question["options"])}
    return {**fields, "answer": question["answer"]}
