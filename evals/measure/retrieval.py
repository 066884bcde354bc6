"""Measurement of retrieval strategies on a benchmark's probes, without a language model."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, get_args

from pydantic import Field

from emend.evals.case import Case
from emend.evals.config.measure_config import RetrievalConfig
from emend.evals.data.benchmarks.rows import ASKED_BY_OTHER
from emend.evals.evaluate.resources import load_benchmark
from emend.evals.evaluate.units import without_repeats
from emend.evals.metrics.estimate import estimate
from emend.memory.edit import Edit, FrozenModel
from emend.memory.embeddings.embed import Embedding, Vectors, embedding_notes, load_embedding
from emend.memory.errors import BadData, BadSettings
from emend.memory.paths import cache_folder
from emend.memory.probe import Probe
from emend.memory.registry import nearest
from emend.memory.retrieval.base import Corpus, Hit, Retriever, search_probe
from emend.memory.retrieval.compose import load_retriever
from emend.memory.retrieval.registry import RETRIEVERS
from emend.memory.retrieval.threshold import Sign, calibrate, confidence


class RetrievalRow(FrozenModel):
    """Results of a strategy on one kind of probe; proportions from 0 to 1.

    A query hits at k if one of the first k entries belongs to a relevant edit. Nothing should be
    retrieved for a probe out of scope: `hit@1`, `hit@5` and `mrr` of its row are all the proportion
    of probes with no retrieved entry, and `false_hits` is 1 minus this. `low` and `high` bound
    `hit@1` with 95 % confidence (bootstrap over cases). `ms` is the mean time of a search in
    milliseconds, without the embedding.
    """

    strategy: str
    kind: str
    n: int
    hit_at_1: float = Field(serialization_alias="hit@1")
    hit_at_5: float = Field(serialization_alias="hit@5")
    mrr: float
    low: float | None = None
    high: float | None = None
    ms: float
    in_scope: bool = Field(default=True, exclude=True)

    @property
    def false_hits(self) -> float | None:
        """Proportion of out-of-scope probes for which anything was retrieved; None in scope."""
        if self.in_scope:
            return None
        return 1 - self.hit_at_1


class ThresholdRow(FrozenModel):
    """Effect of a calibrated threshold on one kind of probe out of scope.

    `least` is the threshold on the strategy's `score` or `lead`, calibrated on `right` correct
    first hits; `false_hits` is the proportion of the n probes of `kind` that still retrieve
    something.
    """

    strategy: str
    by: Sign
    least: float
    right: int
    kind: str
    n: int
    false_hits: float
    low: float | None
    high: float | None


class RetrievalReport(FrozenModel):
    """Rows by kind and strategy, thresholds, and a description of the searched memory."""

    benchmark: str
    setting: str
    embedding: str
    edits: int
    entries: int
    skipped: int
    """Number of in-scope probes that do not name their relevant edit."""
    rows: tuple[RetrievalRow, ...]
    thresholds: tuple[ThresholdRow, ...] = ()
    keep: float = 0.95
    notes: tuple[str, ...] = ()
    """Notes of the embedding about the texts."""
    """Proportion of correct first hits that the thresholds keep."""


# Strategy that a run uses by default.
DEFAULT = "default"
# Number of retrieved entries; a relevant entry further down counts 0 in the mean reciprocal rank
# (MRR@10).
DEPTH = 10
# Default proportion of correct first hits that a threshold keeps.
KEEP = 0.95
SIGNS: tuple[Sign, ...] = get_args(Sign)
# Number of queries embedded at once; less than the cache of a view, so that all strategies reuse
# them.
CHUNK = 256

Factory = Callable[[Corpus], Retriever]


class _Query(NamedTuple):
    case: str
    probe: Probe

    @property
    def group(self) -> tuple[str, bool]:
        """Kind of the probe, and True if it is in scope."""
        return self.probe.kind, self.probe.in_scope


class _Outcome(NamedTuple):
    case: str
    rank: int
    """Rank of the first relevant entry, from 1; 0 if none was retrieved."""
    any: bool
    confidence: dict[Sign, float]
    """Confidence of the strategy in its first hit; empty without hits."""
    seconds: float


class TimedEmbedding:
    """Embedding that adds up the seconds spent on queries.

    Args:
        inner: the embedding that does the work.
        clock: returns seconds.
    """

    def __init__(self, inner: Embedding, clock: Callable[[], float] = time.perf_counter) -> None:
        self._inner, self._clock = inner, clock
        self.identity = inner.identity
        self.seconds = 0.0

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes of the inner embedding on the texts that it got."""
        return embedding_notes(self._inner)

    def documents(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of documents from the inner embedding."""
        return self._inner.documents(texts)

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of queries from the inner embedding, and add the time to `seconds`."""
        start = self._clock()
        try:
            return self._inner.queries(texts)
        finally:
            self.seconds += self._clock() - start


def measure_retrieval(config: RetrievalConfig) -> list[RetrievalReport]:
    """Return a report per setting, for the strategies on all probes, with the edits of all cases in
    one memory.

    Raises:
        BadSettings: a name is unknown, the limit is invalid, or the kind to calibrate on does not
            exist.
        BadData: no probe can be used. Also any error of loading the benchmark or the embedding.
    """
    if config.keep is not None and config.calibrate is None:
        raise BadSettings(
            f"--keep {config.keep:g} needs --calibrate with a kind of probe: add it, or leave "
            "--keep out."
        )
    return [_measure_setting(config, setting) for setting in config.settings or (None,)]


def _measure_setting(config: RetrievalConfig, setting: str | None) -> RetrievalReport:
    """Return the report on one setting; None for the benchmark's first."""
    retrievers = {name: load_retriever(name) for name in config.strategies or (DEFAULT,)}
    settings = (setting,) if setting else ()
    benchmark, (chosen,) = load_benchmark(
        config.benchmark, config.data, config.benchmark_options, settings
    )
    cases = list(without_repeats(benchmark.cases(chosen, config.limit, config.seed)))
    queries, skipped = _queries(cases)
    if not queries:
        raise BadData(
            f"{config.benchmark}, {chosen}: none of {skipped} probes names its relevant edit or "
            "is out of scope: choose another setting or option, or a higher limit."
        )
    edits = {edit.id: edit for case in cases for edit in case.edits}
    embedding = TimedEmbedding(load_embedding(config.embedding, cache_folder("vectors")))
    outcomes, entries = _search_all(list(edits.values()), queries, retrievers, embedding)
    keep = KEEP if config.keep is None else config.keep
    return RetrievalReport(
        benchmark=config.benchmark,
        setting=chosen,
        embedding=embedding.identity,
        edits=len(edits),
        entries=entries,
        skipped=skipped,
        rows=tuple(_rows(queries, outcomes)),
        thresholds=tuple(_thresholds(queries, outcomes, config.calibrate, keep))
        if config.calibrate
        else (),
        keep=keep,
        notes=embedding.notes,
    )


def _queries(cases: Iterable[Case]) -> tuple[list[_Query], int]:
    """Return the probes to search for, and the number of probes whose relevant edit is not named or
    in another case.
    """
    queries, skipped = [], 0
    for case in cases:
        for probe in case.probes:
            if not probe.prompt:
                # the probability of ReCoE's facts is measured; a search would repeat the question's
                continue
            if (probe.in_scope and not probe.edit_ids) or ASKED_BY_OTHER in probe.tags:
                skipped += 1
                continue
            queries.append(_Query(case.id, probe))
    return queries, skipped


def _search_all(
    edits: Sequence[Edit],
    queries: Sequence[_Query],
    factories: Mapping[str, Factory],
    encoder: TimedEmbedding,
) -> tuple[dict[str, list[_Outcome]], int]:
    """Return the outcomes of all queries by strategy, and the number of entries in the memory."""
    from emend.memory.store.chroma import ChromaMemory

    with ChromaMemory(None, encoder, superseding="time") as memory:  # as in a run
        memory.add(edits)
        view = memory.view()
        retrievers = {
            name: _warm_up(name, factory, view, queries[0].probe)
            for name, factory in factories.items()
        }
        outcomes: dict[str, list[_Outcome]] = {name: [] for name in retrievers}
        for start in range(0, len(queries), CHUNK):
            chunk = queries[start : start + CHUNK]
            view.embed([query.probe.retrieval_query for query in chunk])
            for name, retriever in retrievers.items():
                outcomes[name] += [_search(retriever, query, encoder) for query in chunk]
        return outcomes, memory.count()


def _warm_up(name: str, factory: Factory, view: Corpus, first: Probe) -> Retriever:
    """Return the strategy after one search, so that its lazy indexing is not timed."""
    with RETRIEVERS.plugin_errors(name):
        retriever = factory(view)
    search_probe(retriever, first, DEPTH)
    return retriever


def _search(retriever: Retriever, query: _Query, encoder: TimedEmbedding) -> _Outcome:
    embedded, start = encoder.seconds, time.perf_counter()
    hits = search_probe(retriever, query.probe, DEPTH)[:DEPTH]
    seconds = time.perf_counter() - start - (encoder.seconds - embedded)
    sure: dict[Sign, float] = {by: confidence(hits, by) for by in SIGNS} if hits else {}
    return _Outcome(
        query.case, _rank(hits, query.probe.edit_ids), bool(hits), sure, max(0.0, seconds)
    )


def _rank(hits: Sequence[Hit], gold: Sequence[str]) -> int:
    return next((rank for rank, hit in enumerate(hits, start=1) if hit.entry.edit_id in gold), 0)


def _rows(
    queries: Sequence[_Query], outcomes: Mapping[str, Sequence[_Outcome]]
) -> Iterator[RetrievalRow]:
    """Yield rows by kind in order of first appearance, kinds in scope first."""
    for kind, in_scope in sorted(
        dict.fromkeys(query.group for query in queries), key=lambda group: not group[1]
    ):
        places = [i for i, query in enumerate(queries) if query.group == (kind, in_scope)]
        for strategy, results in outcomes.items():
            yield _row(strategy, kind, in_scope, [results[place] for place in places])


def _row(strategy: str, kind: str, in_scope: bool, outcomes: Sequence[_Outcome]) -> RetrievalRow:
    ranks = [outcome.rank if in_scope else int(not outcome.any) for outcome in outcomes]
    main = estimate([float(rank == 1) for rank in ranks], [outcome.case for outcome in outcomes])
    return RetrievalRow(
        strategy=strategy,
        kind=kind,
        n=len(outcomes),
        hit_at_1=sum(rank == 1 for rank in ranks) / len(outcomes),
        hit_at_5=sum(0 < rank <= 5 for rank in ranks) / len(outcomes),
        mrr=sum(1 / rank for rank in ranks if rank) / len(outcomes),
        low=main.low,
        high=main.high,
        ms=round(sum(outcome.seconds for outcome in outcomes) / len(outcomes) * 1e3, 4),
        in_scope=in_scope,
    )


def _thresholds(
    queries: Sequence[_Query], outcomes: Mapping[str, Sequence[_Outcome]], kind: str, keep: float
) -> Iterator[ThresholdRow]:
    """Yield the thresholds of each strategy and sign, applied to each kind of out-of-scope
    probe.
    """
    groups = dict.fromkeys(query.group for query in queries)
    if (kind, True) not in groups:
        known = [name for name, in_scope in groups if in_scope]
        raise BadSettings(
            f"no probes of kind '{kind}' in scope to calibrate on: {nearest(kind, known)}"
        )
    for strategy, results in outcomes.items():
        by_group: dict[tuple[str, bool], list[_Outcome]] = {group: [] for group in groups}
        for query, outcome in zip(queries, results, strict=True):
            by_group[query.group].append(outcome)
        correct = [outcome for outcome in by_group[kind, True] if outcome.rank == 1]
        for by in SIGNS if correct else ():
            least = calibrate([outcome.confidence[by] for outcome in correct], keep)
            for name, in_scope in groups:
                if not in_scope:
                    yield _threshold(strategy, by, least, len(correct), name, by_group[name, False])


def _threshold(
    strategy: str, by: Sign, least: float, right: int, kind: str, outcomes: Sequence[_Outcome]
) -> ThresholdRow:
    passed = [
        float(bool(outcome.confidence) and outcome.confidence[by] >= least) for outcome in outcomes
    ]
    share = estimate(passed, [outcome.case for outcome in outcomes])
    return ThresholdRow(
        strategy=strategy,
        by=by,
        least=least,
        right=right,
        kind=kind,
        n=len(outcomes),
        false_hits=sum(passed) / len(passed),
        low=share.low,
        high=share.high,
    )
