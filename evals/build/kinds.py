"""The kinds of benchmarks that can be built: where their items come from, and the files that are written."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emend.evals.build.card import FilterCount
from emend.evals.build.sources import (
    akew,
    chains,
    docter,
    elken,
    elken_tendencies,
    fact_graph,
    questions,
    recoe,
    wikiupdate,
)
from emend.evals.build.sources.stored_items import KeptItem, SourceItem, SourceNotes, read_items
from emend.evals.config.task_config import BuildConfig
from emend.evals.data.benchmarks.registry import BenchmarkFiles
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest


@dataclass(frozen=True)
class BuildKind:
    """A kind of benchmark.

    Attributes:
        read: opens a source by its name: its items, once, and notes on it, complete when the items have been read.
        write: writes the items that are kept into a folder; it also gets the fields of all items of the source.
        text: the text that was written for an item.
        limits: what a user of the benchmark should know.
        thin: drops what repeats other items, by recipe and language, and counts it.
        prepare: composes the items by rules into the benchmark's folder, and returns their file; None for other kinds.
        result: the result of a composed item without a model.
        check: checks of the finished folder of composed items.
    """

    read: Callable[[str], tuple[Iterator[SourceItem], SourceNotes]]
    write: Callable[[Sequence[KeptItem], Sequence[dict[str, Any]], Path], BenchmarkFiles]
    text: Callable[[KeptItem], str]
    limits: tuple[str, ...]
    thin: Callable[[Sequence[KeptItem], str, str], tuple[Sequence[KeptItem], tuple[FilterCount, ...]]] = (
        lambda items, recipe, language: (items, ())
    )
    prepare: Callable[[BuildConfig, Path], Path] | None = None
    result: Callable[[Mapping[str, Any]], dict[str, Any]] = dict
    check: Callable[[Path], list[FilterCount]] = lambda folder: []


KINDS: Mapping[str, BuildKind] = {
    "akew": BuildKind(
        read=akew.read_source,
        write=lambda items, sources, folder: akew.write_rows(items, folder),
        text=lambda item: str(item.result["paragraph"]),
        limits=akew.LIMITS,
    ),
    "wikiupdate": BuildKind(
        read=wikiupdate.read_source,
        write=lambda items, sources, folder: wikiupdate.write_rows(items, folder),
        text=lambda item: str(item.result["paragraph"]),
        limits=wikiupdate.LIMITS,
    ),
    "questions": BuildKind(
        read=questions.read_source,
        write=questions.write_rows,
        text=questions.written_text,
        limits=questions.LIMITS,
    ),
    "facts": BuildKind(
        read=questions.read_source,
        write=lambda items, sources, folder: fact_graph.write_rows(items, folder),
        text=fact_graph.stated_lines,
        limits=fact_graph.LIMITS,
    ),
    "chains": BuildKind(
        read=read_items,
        write=lambda items, sources, folder: chains.write_rows(items, folder),
        text=lambda item: "\n".join(item.result["questions"]),
        limits=chains.LIMITS,
        prepare=chains.prepare_chains,
        result=lambda fields: {"questions": [fields["text"]]},
        check=chains.check_chains,
    ),
    "docter": BuildKind(
        read=docter.read_source,
        write=lambda items, sources, folder: docter.write_rows(items, folder),
        text=lambda item: str(item.result["document"]),
        limits=docter.LIMITS,
    ),
    "recoe": BuildKind(
        read=read_items,
        write=lambda items, sources, folder: recoe.write_rows(items, folder),
        text=lambda item: str(item.result["question"]),
        limits=recoe.LIMITS,
        prepare=recoe.prepare_records,
        result=lambda fields: {"question": fields["text"]},
    ),
    "elken": BuildKind(
        read=read_items,
        write=lambda items, sources, folder: elken.write_rows(items, folder),
        text=lambda item: str(item.result["event"]),
        limits=elken.LIMITS,
        prepare=elken.prepare_events,
        result=lambda fields: {"event": fields["text"]},
    ),
    "tendencies": BuildKind(
        read=elken_tendencies.read_source,
        write=lambda items, sources, folder: elken_tendencies.write_rows(items, folder),
        text=elken_tendencies.events_of,
        limits=elken_tendencies.LIMITS,
        thin=elken_tendencies.drop_duplicates,
    ),
}


def build_kind(name: str) -> BuildKind:
    """The kind of that name.

    Raises:
        BadSettings: it is unknown.
    """
    if name not in KINDS:
        raise BadSettings(f"cannot build '{name}': {nearest(name, list(KINDS))}")
    return KINDS[name]
