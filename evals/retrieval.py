"""Measures retrieval strategies on a benchmark's probes without a language model."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pydantic import Field

from emend.evals.case import Case
from emend.evals.manifest import RunConfig
from emend.evals.metrics.estimate import estimate
from emend.evals.parts import load_benchmark
from emend.evals.units import without_repeats
from emend.memory.edit import Edit, Word
from emend.memory.embed import Embedding, Vectors, load_embedding
from emend.memory.errors import BadData
from emend.memory.retrieval.base import Corpus, Hit, Retriever
from emend.memory.retrieval.compose import load_retriever

DEFAULT = "default"
"""Stands for the strategy that a run uses unless it is told otherwise."""
DEPTH = 10
"""So many entries are asked for: what lies deeper counts 0 in the mean reciprocal rank (MRR@10)."""
CHUNK = 256  # queries embedded at once; fewer than a view keeps, so that all strategies find them embedded

Factory = Callable[[Corpus], Retriever]


class RetrievalRow(Word):
    """One strategy on one kind of probe; shares lie in 0..1.

    A query hits at k if one of the first k entries is of an edit that bears on it. Probes out of scope have no right
    entry: their row holds only `false_hits`, the share for which anything was returned. `low` and `high` bound
    `hit@1`, or `false_hits`, with 95 % confidence (bootstrap over cases). `ms` is the mean time of a search in
    milliseconds, without the time that the embedding took.
    """

    strategy: str
    kind: str
    n: int
    hit_at_1: float | None = Field(default=None, serialization_alias="hit@1")
    hit_at_5: float | None = Field(default=None, serialization_alias="hit@5")
    mrr: float | None = None
    low: float | None = None
    high: float | None = None
    ms: float
    false_hits: float | None = None


class RetrievalReport(Word):
    """What was measured where: the rows, by kind and then strategy, and what the memory held."""

    benchmark: str
    setting: str
    embedding: str
    default: str
    """The strategy that `default` stands for."""
    edits: int
    entries: int
    skipped: int
    """Probes in scope that do not say which edit bears on them."""
    rows: tuple[RetrievalRow, ...]


class _Query(NamedTuple):
    case: str
    kind: str
    in_scope: bool
    text: str
    gold: frozenset[str]


class _Found(NamedTuple):
    case: str
    rank: int
    """Of the first right entry, from 1; 0 if there was none."""
    any: bool
    seconds: float


class TimedEmbedding:
    """An embedding that adds up the seconds spent on queries.

    Args:
        inner: what embeds.
    """

    def __init__(self, inner: Embedding) -> None:
        self._inner = inner
        self.identity = inner.identity
        self.seconds = 0.0

    def documents(self, texts: Sequence[str]) -> Vectors:
        """As the inner embedding."""
        return self._inner.documents(texts)

    def queries(self, texts: Sequence[str]) -> Vectors:
        """As the inner embedding, timed."""
        began = time.perf_counter()
        try:
            return self._inner.queries(texts)
        finally:
            self.seconds += time.perf_counter() - began


def measure_retrieval(
    benchmark: str,
    strategies: Sequence[str] = (DEFAULT,),
    *,
    data: str | None = None,
    setting: str | None = None,
    embedding: str = "auto",
    limit: int | None = None,
    seed: int = 0,
    options: Mapping[str, str] | None = None,
) -> RetrievalReport:
    """The strategies on all probes of a benchmark's cases, the edits of all cases being in one memory.

    Args:
        benchmark: its name, or `module:attr`.
        strategies: retrievers, or chains of them (`a>b`), or `default`; what is given twice counts once.
        data: the benchmark's folder.
        setting: what is stored; None is the benchmark's first setting.
        embedding: as in `load_embedding`.
        limit: so many cases.
        seed: of the sample that `limit` takes.
        options: of the benchmark.

    Raises:
        BadSettings: an unknown name, or an impossible limit.
        BadData: no probe can be used. And whatever loading the benchmark or the embedding raises.
    """
    config = RunConfig(
        benchmark=benchmark,
        data=data,
        options=dict(options or {}),
        settings=(setting,) if setting else (),
        editors=("rag",),
        embedding=embedding,
        limit=limit,
        seed=seed,
    )
    default = config.retriever
    factories = {name: load_retriever(default if name == DEFAULT else name) for name in strategies}
    source, (chosen,) = load_benchmark(config)
    cases = list(without_repeats(source.cases(chosen, limit, seed)))
    queries, skipped = _queries(cases)
    if not queries:
        raise BadData(
            f"{benchmark}, {chosen}: none of {skipped} probes says which edit bears on it, nor that none does; "
            "choose another setting or option, or a higher limit."
        )
    edits = {edit.id: edit for case in cases for edit in case.edits}
    encoder = TimedEmbedding(load_embedding(embedding))
    found, entries = _measure(list(edits.values()), queries, factories, encoder)
    return RetrievalReport(
        benchmark=benchmark,
        setting=chosen,
        embedding=encoder.identity,
        default=default,
        edits=len(edits),
        entries=entries,
        skipped=skipped,
        rows=tuple(_rows(queries, found)),
    )


def _queries(cases: Iterable[Case]) -> tuple[list[_Query], int]:
    """What can be asked, and the number of probes in scope without a right entry."""
    queries, skipped = [], 0
    for case in cases:
        for probe in case.probes:
            if probe.in_scope and not probe.edit_ids:
                skipped += 1
                continue
            queries.append(_Query(case.id, probe.kind, probe.in_scope, probe.asked, frozenset(probe.edit_ids)))
    return queries, skipped


def _measure(
    edits: Sequence[Edit],
    queries: Sequence[_Query],
    factories: Mapping[str, Factory],
    encoder: TimedEmbedding,
) -> tuple[dict[str, list[_Found]], int]:
    """For each strategy what each query found, in order; and the number of entries in the memory."""
    from emend.memory.chroma import ChromaMemory

    with ChromaMemory(None, encoder) as memory:
        memory.add(edits)
        view = memory.view()
        retrievers = {name: factory(view) for name, factory in factories.items()}
        found: dict[str, list[_Found]] = {name: [] for name in retrievers}
        for retriever in retrievers.values():
            retriever.search(queries[0].text, DEPTH)  # what is made at the first search is in no time
        for start in range(0, len(queries), CHUNK):
            chunk = queries[start : start + CHUNK]
            view.embed([query.text for query in chunk])
            for name, retriever in retrievers.items():
                found[name] += [_search(retriever, query, encoder) for query in chunk]
        return found, memory.count()


def _search(retriever: Retriever, query: _Query, encoder: TimedEmbedding) -> _Found:
    embedded, began = encoder.seconds, time.perf_counter()
    hits = retriever.search(query.text, DEPTH)[:DEPTH]
    seconds = time.perf_counter() - began - (encoder.seconds - embedded)
    return _Found(query.case, _rank(hits, query.gold), bool(hits), max(0.0, seconds))


def _rank(hits: Sequence[Hit], gold: frozenset[str]) -> int:
    return next((rank for rank, hit in enumerate(hits, start=1) if hit.entry.edit_id in gold), 0)


def _rows(queries: Sequence[_Query], found: Mapping[str, Sequence[_Found]]) -> Iterator[RetrievalRow]:
    """Kinds in order of first appearance, those in scope first."""
    kinds = sorted(dict.fromkeys((query.kind, query.in_scope) for query in queries), key=lambda kind: not kind[1])
    for kind, in_scope in kinds:
        places = [i for i, query in enumerate(queries) if (query.kind, query.in_scope) == (kind, in_scope)]
        for strategy, all_found in found.items():
            yield _row(strategy, kind, in_scope, [all_found[place] for place in places])


def _row(strategy: str, kind: str, in_scope: bool, found: Sequence[_Found]) -> RetrievalRow:
    cases = [one.case for one in found]
    main = estimate([float(one.rank == 1 if in_scope else one.any) for one in found], cases)
    ms = sum(one.seconds for one in found) / len(found) * 1e3
    row = RetrievalRow(strategy=strategy, kind=kind, n=len(found), low=main.low, high=main.high, ms=round(ms, 4))
    if not in_scope:
        return row.model_copy(update={"false_hits": main.mean})
    shares = {
        "hit_at_1": main.mean,
        "hit_at_5": sum(0 < one.rank <= 5 for one in found) / len(found),
        "mrr": sum(1 / one.rank for one in found if one.rank) / len(found),
    }
    return row.model_copy(update=shares)
