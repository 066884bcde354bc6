"""Measures retrieval strategies on a benchmark's probes without a language model."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, get_args

from emend.evals.case import Case
from emend.evals.components.retrieval_rows import RetrievalReport, RetrievalRow, ThresholdRow
from emend.evals.log.config import RunConfig
from emend.evals.metrics.estimate import estimate
from emend.evals.runner.components import load_benchmark
from emend.evals.runner.units import without_repeats
from emend.memory.edit import Edit
from emend.memory.embeddings.embed import Embedding, Vectors, load_embedding
from emend.memory.errors import BadData, BadSettings
from emend.memory.paths import cache_folder
from emend.memory.probe import Probe
from emend.memory.registry import nearest
from emend.memory.retrieval.base import Corpus, Hit, Retriever, search_probe
from emend.memory.retrieval.compose import load_retriever
from emend.memory.retrieval.registry import retriever_errors
from emend.memory.retrieval.threshold import Sign, calibrate, confidence

DEFAULT = "default"
"""The strategy that a run uses unless it is told otherwise."""
DEPTH = 10
"""So many entries are asked for: what lies deeper counts 0 in the mean reciprocal rank (MRR@10)."""
KEEP = 0.95
"""The share of right first hits that a threshold keeps, unless another is told."""
SIGNS: tuple[Sign, ...] = get_args(Sign)
CHUNK = 256  # queries embedded at once; fewer than a view keeps, so that all strategies find them embedded

Factory = Callable[[Corpus], Retriever]


class _Query(NamedTuple):
    case: str
    probe: Probe

    @property
    def group(self) -> tuple[str, bool]:
        """Kind, and whether the probe is in scope."""
        return self.probe.kind, self.probe.in_scope


class _Found(NamedTuple):
    case: str
    rank: int
    """Of the first right entry, from 1; 0 if there was none."""
    any: bool
    sure: dict[Sign, float]
    """How sure the strategy was of its first hit; empty without hits."""
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
    calibrate_on: str | None = None,
    keep: float = KEEP,
) -> RetrievalReport:
    """The strategies on all probes of a benchmark's cases, the edits of all cases being in one memory.

    Args:
        benchmark: its name, or `module:attr`.
        strategies: retrievers, or chains of them (`a>b`); what is given twice counts once.
        data: the benchmark's folder.
        setting: what is stored; None is the benchmark's first setting.
        embedding: as in `load_embedding`.
        limit: so many cases.
        seed: of the sample that `limit` takes.
        options: of the benchmark.
        calibrate_on: a kind of probe in scope on whose right hits thresholds are found; None finds none.
        keep: share of those hits that a threshold keeps.

    Raises:
        BadSettings: an unknown name, an impossible limit, or no such kind to calibrate on.
        BadData: no probe can be used. And whatever loading the benchmark or the embedding raises.
    """
    config = RunConfig(
        benchmark=benchmark,
        data=data,
        benchmark_options=dict(options or {}),
        settings=(setting,) if setting else (),
        editors=("rag",),
        embedding=embedding,
        limit=limit,
        seed=seed,
    )
    factories = {name: load_retriever(name) for name in strategies}
    source, (chosen,) = load_benchmark(config)
    cases = list(without_repeats(source.cases(chosen, limit, seed)))
    queries, skipped = _queries(cases)
    if not queries:
        raise BadData(
            f"{benchmark}, {chosen}: none of {skipped} probes says which edit bears on it, nor that none does; "
            "choose another setting or option, or a higher limit."
        )
    edits = {edit.id: edit for case in cases for edit in case.edits}
    encoder = TimedEmbedding(load_embedding(embedding, cache_folder("vectors")))
    found, entries = _measure(list(edits.values()), queries, factories, encoder)
    return RetrievalReport(
        benchmark=benchmark,
        setting=chosen,
        embedding=encoder.identity,
        edits=len(edits),
        entries=entries,
        skipped=skipped,
        rows=tuple(_rows(queries, found)),
        thresholds=tuple(_thresholds(queries, found, calibrate_on, keep)) if calibrate_on else (),
        keep=keep,
    )


def _queries(cases: Iterable[Case]) -> tuple[list[_Query], int]:
    """What can be asked, and the number of probes in scope without a right entry."""
    queries, skipped = [], 0
    for case in cases:
        for probe in case.probes:
            if not probe.prompt:
                continue  # ReCoE's facts are measured, not asked, and would be searched by their question again
            if probe.in_scope and not probe.edit_ids:
                skipped += 1
                continue
            queries.append(_Query(case.id, probe))
    return queries, skipped


def _measure(
    edits: Sequence[Edit],
    queries: Sequence[_Query],
    factories: Mapping[str, Factory],
    encoder: TimedEmbedding,
) -> tuple[dict[str, list[_Found]], int]:
    """For each strategy what each query found, in order; and the number of entries in the memory."""
    from emend.memory.store.chroma import ChromaMemory

    with ChromaMemory(None, encoder, superseding="time") as memory:  # as in a run
        memory.add(edits)
        view = memory.view()
        retrievers = {name: _made(name, factory, view, queries[0].probe) for name, factory in factories.items()}
        found: dict[str, list[_Found]] = {name: [] for name in retrievers}
        for start in range(0, len(queries), CHUNK):
            chunk = queries[start : start + CHUNK]
            view.embed([query.probe.retrieval_query for query in chunk])
            for name, retriever in retrievers.items():
                found[name] += [_search(retriever, query, encoder) for query in chunk]
        return found, memory.count()


def _made(name: str, factory: Factory, view: Corpus, first: Probe) -> Retriever:
    """The strategy, once searched: what is made at the first search is in no time."""
    with retriever_errors(name):
        retriever = factory(view)
    with retriever_errors(name, first.retrieval_query):
        search_probe(retriever, first, DEPTH)
    return retriever


def _search(retriever: Retriever, query: _Query, encoder: TimedEmbedding) -> _Found:
    embedded, began = encoder.seconds, time.perf_counter()
    hits = search_probe(retriever, query.probe, DEPTH)[:DEPTH]
    seconds = time.perf_counter() - began - (encoder.seconds - embedded)
    sure: dict[Sign, float] = {by: confidence(hits, by) for by in SIGNS} if hits else {}
    return _Found(query.case, _rank(hits, query.probe.edit_ids), bool(hits), sure, max(0.0, seconds))


def _rank(hits: Sequence[Hit], gold: Sequence[str]) -> int:
    return next((rank for rank, hit in enumerate(hits, start=1) if hit.entry.edit_id in gold), 0)


def _rows(queries: Sequence[_Query], found: Mapping[str, Sequence[_Found]]) -> Iterator[RetrievalRow]:
    """Kinds in order of first appearance, those in scope first."""
    for kind, in_scope in sorted(dict.fromkeys(query.group for query in queries), key=lambda group: not group[1]):
        places = [i for i, query in enumerate(queries) if query.group == (kind, in_scope)]
        for strategy, all_found in found.items():
            yield _row(strategy, kind, in_scope, [all_found[place] for place in places])


def _row(strategy: str, kind: str, in_scope: bool, found: Sequence[_Found]) -> RetrievalRow:
    ranks = [one.rank if in_scope else int(not one.any) for one in found]
    main = estimate([float(rank == 1) for rank in ranks], [one.case for one in found])
    return RetrievalRow(
        strategy=strategy,
        kind=kind,
        n=len(found),
        hit_at_1=sum(rank == 1 for rank in ranks) / len(found),
        hit_at_5=sum(0 < rank <= 5 for rank in ranks) / len(found),
        mrr=sum(1 / rank for rank in ranks if rank) / len(found),
        low=main.low,
        high=main.high,
        ms=round(sum(one.seconds for one in found) / len(found) * 1e3, 4),
        in_scope=in_scope,
    )


def _thresholds(
    queries: Sequence[_Query], found: Mapping[str, Sequence[_Found]], kind: str, keep: float
) -> Iterator[ThresholdRow]:
    """Of each strategy and sign, on each kind of probe out of scope."""
    groups = dict.fromkeys(query.group for query in queries)
    if (kind, True) not in groups:
        known = [name for name, in_scope in groups if in_scope]
        raise BadSettings(f"no probes of kind '{kind}' in scope to calibrate on: {nearest(kind, known)}")
    for strategy, all_found in found.items():
        by_group: dict[tuple[str, bool], list[_Found]] = {group: [] for group in groups}
        for query, one in zip(queries, all_found, strict=True):
            by_group[query.group].append(one)
        right = [one for one in by_group[kind, True] if one.rank == 1]
        for by in SIGNS if right else ():
            least = calibrate([one.sure[by] for one in right], keep)
            for name, in_scope in groups:
                if not in_scope:
                    yield _threshold(strategy, by, least, len(right), name, by_group[name, False])


def _threshold(strategy: str, by: Sign, least: float, right: int, kind: str, found: Sequence[_Found]) -> ThresholdRow:
    passed = [float(bool(one.sure) and one.sure[by] >= least) for one in found]
    share = estimate(passed, [one.case for one in found])
    return ThresholdRow(
        strategy=strategy,
        by=by,
        least=least,
        right=right,
        kind=kind,
        n=len(found),
        false_hits=sum(passed) / len(passed),
        low=share.low,
        high=share.high,
    )
