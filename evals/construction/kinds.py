"""Kinds of benchmarks that can be built, with the functions that read sources and write files."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emend.evals.config.build_config import BuildConfig
from emend.evals.construction.card import LIMITS, FilterCount
from emend.evals.construction.registry import CONSTRUCTIONS
from emend.evals.construction.sources import (
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
from emend.evals.construction.sources.stored_items import (
    KeptItem,
    SourceItem,
    SourceNotes,
    read_items,
)
from emend.evals.data.benchmarks.registry import BenchmarkFiles
from emend.graphs.construction.pipeline import Pipeline
from emend.graphs.execution import Graph
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest


@dataclass(frozen=True)
class BuildKind:
    """A kind of benchmark.

    Attributes:
        read: returns an iterator over the items of a source and notes on the source, which are
            complete only when the iterator is exhausted.
        write: writes the kept items into a folder; its second argument are the fields of all items
            of the source.
        text: returns the text that was written for an item.
        limits: limitations of the benchmark, printed on its card.
        deduplicate: drops near-duplicate items, given recipe and language, and counts them.
        prepare: composes the items by rules into the benchmark folder, and returns their file;
            None if the items are not composed by rules.
        result: returns the result of a composed item if no model is used.
        check: runs checks on the finished folder of composed items.
        relation: returns the relation of an item, if the card shows the share of each relation.
        drop_question: returns a result without its separate question; None if the items have no
            separate question.
        pipeline: graph and filters of a kind from another package; the pipelines of the built-in
            kinds are in `CONSTRUCTIONS`.
        summary: one-line description of a kind from another package, for `emend list
            constructions`.
    """

    read: Callable[[str], tuple[Iterator[SourceItem], SourceNotes]]
    write: Callable[[Sequence[KeptItem], Sequence[dict[str, Any]], Path], BenchmarkFiles]
    text: Callable[[KeptItem], str]
    limits: tuple[str, ...] = ()
    deduplicate: Callable[
        [Sequence[KeptItem], str, str], tuple[Sequence[KeptItem], tuple[FilterCount, ...]]
    ] = lambda items, recipe, language: (items, ())
    prepare: Callable[[BuildConfig, Path], Path] | None = None
    result: Callable[[Mapping[str, Any]], dict[str, Any]] = dict
    check: Callable[[Path], list[FilterCount]] = lambda folder: []
    relation: Callable[[KeptItem], str] | None = None
    drop_question: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None
    pipeline: Pipeline | None = None
    summary: str = ""

    def has_question(self, result: Mapping[str, Any]) -> bool:
        """Return whether a result has a question separate from its text."""
        return self.drop_question is not None and self.drop_question(result) != result

    @property
    def graph(self) -> Graph | None:
        """Graph of the pipeline, for drawing."""
        return self.pipeline.graph if self.pipeline else None


KINDS: Mapping[str, BuildKind] = {
    "akew": BuildKind(
        read=akew.read_source,
        write=lambda items, sources, folder: akew.write_rows(items, folder),
        text=lambda item: str(item.result["paragraph"]),
        limits=LIMITS["akew"],
    ),
    "wikiupdate": BuildKind(
        read=wikiupdate.read_source,
        write=lambda items, sources, folder: wikiupdate.write_rows(items, folder),
        text=lambda item: str(item.result["paragraph"]),
        limits=LIMITS["wikiupdate"],
        relation=lambda item: str(item.fields["relation"]),
    ),
    "questions": BuildKind(
        read=questions.read_source,
        write=questions.write_rows,
        text=questions.written_text,
        limits=LIMITS["questions"],
    ),
    "facts": BuildKind(
        read=questions.read_source,
        write=lambda items, sources, folder: fact_graph.write_rows(items, folder),
        text=fact_graph.stated_lines,
        limits=LIMITS["facts"],
    ),
    "chains": BuildKind(
        read=read_items,
        write=lambda items, sources, folder: chains.write_rows(items, folder),
        text=lambda item: "\n".join(item.result["questions"]),
        limits=LIMITS["chains"],
        prepare=chains.prepare_chains,
        result=lambda fields: {"questions": [fields["text"]]},
        check=chains.check_chains,
    ),
    "docter": BuildKind(
        read=docter.read_source,
        write=lambda items, sources, folder: docter.write_rows(items, folder),
        text=lambda item: str(item.result["document"]),
        limits=LIMITS["docter"],
        drop_question=lambda result: {**result, "reasoning": None},
    ),
    "recoe": BuildKind(
        read=read_items,
        write=lambda items, sources, folder: recoe.write_rows(items, folder),
        text=lambda item: str(item.result["question"]),
        limits=LIMITS["recoe"],
        prepare=recoe.prepare_records,
        deduplicate=recoe.drop_contradictions,
        result=lambda fields: {"question": fields["text"]},
    ),
    "elken": BuildKind(
        read=read_items,
        write=lambda items, sources, folder: elken.write_rows(items, folder),
        text=lambda item: str(item.result["event"]),
        limits=LIMITS["elken"],
        prepare=elken.prepare_events,
        result=lambda fields: {"event": fields["text"]},
    ),
    "tendencies": BuildKind(
        read=elken_tendencies.read_source,
        write=elken_tendencies.write_rows,
        text=elken_tendencies.events_of,
        limits=LIMITS["tendencies"],
        deduplicate=elken_tendencies.drop_duplicates,
    ),
}


def build_kind(name: str) -> BuildKind:
    """Return a kind by name: built-in, from an installed package, or `module:attribute`.

    Raises:
        BadSettings: the name is unknown, not trusted, or does not refer to a kind.
    """
    if name in KINDS:
        return KINDS[name]
    if ":" not in name and name not in CONSTRUCTIONS.plugins:
        raise BadSettings(
            f"cannot build '{name}': {nearest(name, [*KINDS, *CONSTRUCTIONS.plugins])}"
        )
    kind = CONSTRUCTIONS.load(name)
    if not isinstance(kind, BuildKind) or not isinstance(kind.pipeline, Pipeline):
        raise BadSettings(
            f"construction '{name}' is not an emend.extend.BuildKind with a pipeline: see "
            "docs/how-to/extend.md for what it needs."
        )
    return kind


def checked_kind(name: str, config: BuildConfig) -> BuildKind:
    """Return a kind by name after checking that source and author are given; composed items need no
    author.

    Raises:
        BadSettings: the source or the author is missing, or the kind is unknown.
    """
    kind = build_kind(name)
    config.require_source(needs_author=kind.prepare is None)
    return kind
