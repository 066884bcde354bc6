"""Measurement of retrieval over conversations, each with its own memory, by the evidence of its
questions; no language model is needed.

Evidence recall is the share of a question's evidence among the first k hits. nDCG is the discounted
gain of the ranking divided by that of the ideal ranking, in which all evidence comes first
(Järvelin and Kekäläinen 2002). Both are measured by turn and by session, as in LongMemEval.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from time import process_time
from typing import NamedTuple, cast

from pydantic import Field

from emend.evals.case import Case
from emend.evals.config.measure_config import RetrievalConfig
from emend.evals.data.benchmarks.registry import BENCHMARKS, is_built_folder
from emend.evals.data.conversations.benchmark import ConversationBenchmark
from emend.evals.data.conversations.corrections import CorrectionCount
from emend.evals.data.facts.fact_formats import is_fact_file
from emend.evals.evaluate.resources import load_benchmark
from emend.evals.measure.large_clusters import interval_of_large, with_interval
from emend.evals.measure.retrieval import CHUNK, Factory, TimedEmbedding
from emend.evals.metrics.estimate import Estimate, estimate
from emend.evals.metrics.expected_answers import count_tokens
from emend.evals.metrics.paired import Pair, Paired, compare_pairs
from emend.memory.edit import FrozenModel
from emend.memory.embeddings.embed import load_embedding
from emend.memory.errors import BadData, BadSettings
from emend.memory.paths import cache_folder
from emend.memory.probe import Probe
from emend.memory.registry import nearest
from emend.memory.retrieval.base import Hit, Retriever, search_probe
from emend.memory.retrieval.compose import load_retriever
from emend.memory.retrieval.conversations.turns import TurnOrder
from emend.memory.retrieval.exact import ExactCorpus, QueryVectors
from emend.memory.retrieval.registry import RETRIEVERS
from emend.memory.store.rows import make_entries

# Default strategy.
STRATEGY = "conversation"
ALL_KINDS = "all"
# Cutoffs k of recall@k.
CUTS = (5, 10, 20)
MAIN = "recall@10"
# Default context budget in tokens, counted by the same rule for all systems.
BUDGET = 1000
IN_BUDGET = "recall_in_budget"
# Number of retrieved turns, from which sessions are ranked and budgets filled.
DEPTH = 100
FIGURES = (
    *(f"recall@{k}" for k in CUTS),
    "ndcg@10",
    "all@10",
    "session_recall@5",
    "session_ndcg@5",
    IN_BUDGET,
    "newer_first",
)


def figure_names(budgets: Sequence[int]) -> list[str]:
    """Return the names of the figures; several budgets have a figure such as `recall_in_500`
    each.
    """
    names: list[str] = []
    for name in FIGURES:
        names += budget_names(budgets) if name == IN_BUDGET else [name]
    return names


def budget_names(budgets: Sequence[int]) -> list[str]:
    """Return the name of the recall within each budget."""
    if len(budgets) < 2:
        return [IN_BUDGET]
    return [f"recall_in_{budget}" for budget in budgets]


class ConversationRow(FrozenModel):
    """Figures of a strategy on one kind of question, from 0 to 1, with intervals over
    conversations.

    `figures` has an estimate for each of `figure_names` that applies to the kind: `newer_first`
    applies only to updates for which both statements are known. `ms` is the mean CPU time of a
    search in milliseconds, without the embedding.
    """

    strategy: str
    kind: str
    n: int
    figures: dict[str, Estimate]
    ms: float


class PairedRow(FrozenModel):
    """Paired comparison of a strategy with the first one on the questions of one kind, by
    recall@10.
    """

    strategy: str
    against: str
    kind: str
    result: Paired


class ConversationReport(FrozenModel):
    """Rows by kind and strategy, and a description of the searched data."""

    benchmark: str
    embedding: str
    conversations: int
    turns: int
    skipped: int
    """Number of questions without evidence."""
    budgets: tuple[int, ...] = (BUDGET,)
    rows: tuple[ConversationRow, ...]
    pairs: tuple[PairedRow, ...] = ()
    corrections: CorrectionCount | None = None
    build_ms: dict[str, float] = Field(default={})
    """Mean CPU time for indexing a conversation in milliseconds, without the embedding, by
    strategy."""


class _Outcome(NamedTuple):
    conversation: str
    kind: str
    values: dict[str, float | None]
    seconds: float


def measure_conversations(
    config: RetrievalConfig, benchmark: ConversationBenchmark
) -> ConversationReport:
    """Measure the strategies on all questions that have evidence, each searched in its own
    conversation.

    Raises:
        BadSettings: a strategy is unknown, or an option is only for other benchmarks.
        BadData: no question has evidence, or the files are malformed.
    """
    if config.calibrate is not None or config.keep is not None:
        raise BadSettings(
            f"--calibrate and --keep have no effect with {config.benchmark}: leave them out."
        )
    if unknown := [name for name in config.settings if name not in benchmark.settings]:
        raise BadSettings(
            f"{config.benchmark} has no setting '{unknown[0]}': "
            f"{nearest(unknown[0], list(benchmark.settings))}"
        )
    factories = {name: load_retriever(name) for name in config.strategies or (STRATEGY,)}
    cases = list(benchmark.cases(benchmark.settings[0], config.limit, config.seed))
    probes = [probe for case in cases for probe in case.probes]
    searchable = sum(bool(probe.edit_ids) for probe in probes)
    if not searchable:
        raise BadData(
            f"{config.benchmark}: none of {len(probes)} questions has evidence: choose "
            "another option."
        )
    embedding = TimedEmbedding(
        load_embedding(config.embedding, cache_folder("vectors")), process_time
    )
    budgets = tuple(dict.fromkeys(config.budget)) or (BUDGET,)
    outcomes: dict[str, list[_Outcome]] = {name: [] for name in factories}
    built = dict.fromkeys(factories, 0.0)
    for case in cases:
        for name, results, seconds in _search_case(case, factories, embedding, budgets):
            outcomes[name] += results
            built[name] += seconds
    return ConversationReport(
        benchmark=config.benchmark,
        embedding=embedding.identity,
        conversations=len(cases),
        turns=sum(len(case.edits) for case in cases),
        skipped=len(probes) - searchable,
        budgets=budgets,
        rows=tuple(_rows(outcomes, figure_names(budgets))),
        pairs=tuple(_pairs(outcomes)),
        corrections=benchmark.corrections if config.corrections else None,
        build_ms={name: round(seconds / len(cases) * 1e3, 1) for name, seconds in built.items()},
    )


def load_conversations(config: RetrievalConfig) -> ConversationBenchmark | None:
    """Load the benchmark if it is a conversation benchmark; return None for other benchmarks.

    Raises:
        EmendError: the benchmark cannot be loaded.
    """
    if is_built_folder(config.benchmark) or is_fact_file(config.benchmark):
        return None
    factory: object = BENCHMARKS.load(config.benchmark)
    if not (isinstance(factory, type) and issubclass(factory, ConversationBenchmark)):
        return None
    benchmark, _ = load_benchmark(config.benchmark, config.data, config.options_with_corrections)
    return cast(ConversationBenchmark, benchmark)


def _search_case(
    case: Case, factories: Mapping[str, Factory], embedding: TimedEmbedding, budgets: Sequence[int]
) -> Iterator[tuple[str, list[_Outcome], float]]:
    """Yield each strategy with its outcomes on a conversation and the seconds that indexing
    took.
    """
    entries = [entry for edit in case.edits for entry in make_entries(edit)]
    entries.sort(key=lambda entry: entry.id)
    corpus = ExactCorpus(
        entries, embedding.documents([entry.text for entry in entries]), QueryVectors(embedding)
    )
    order = TurnOrder(entries)
    sessions = {
        entry.edit_id: session for entry, session in zip(entries, order.sessions, strict=True)
    }
    probes = [probe for probe in case.probes if probe.edit_ids]
    for name, factory in factories.items():
        embedded, start = embedding.seconds, process_time()
        with RETRIEVERS.plugin_errors(name):
            retriever = factory(corpus)
        built = process_time() - start - (embedding.seconds - embedded)
        results = []
        for number, probe in enumerate(probes):
            if number % CHUNK == 0:
                corpus.embed([each.retrieval_query for each in probes[number : number + CHUNK]])
            results.append(_search(case.id, retriever, probe, sessions, embedding, budgets))
        yield name, results, built


def _search(
    conversation: str,
    retriever: Retriever,
    probe: Probe,
    sessions: Mapping[str, str],
    embedding: TimedEmbedding,
    budgets: Sequence[int],
) -> _Outcome:
    embedded, start = embedding.seconds, process_time()
    hits = search_probe(retriever, probe, DEPTH)
    seconds = process_time() - start - (embedding.seconds - embedded)
    return _Outcome(
        conversation, probe.kind, values_of(probe, hits, sessions, budgets), max(0.0, seconds)
    )


def values_of(
    probe: Probe, hits: Sequence[Hit], sessions: Mapping[str, str], budgets: Sequence[int]
) -> dict[str, float | None]:
    """Return a value for each of `figure_names` for one question; None for figures that do not
    apply.

    Args:
        probe: a question with evidence.
        hits: retrieved entries, best first.
        sessions: session of each turn.
        budgets: context budgets in tokens.
    """
    ranked = list(dict.fromkeys(hit.entry.edit_id for hit in hits))
    gold = set(probe.edit_ids)
    ranked_sessions = list(dict.fromkeys(sessions[turn] for turn in ranked))
    gold_sessions = {sessions[turn] for turn in gold if turn in sessions}
    values: dict[str, float | None] = {f"recall@{k}": recall(ranked[:k], gold) for k in CUTS}
    for name, budget in zip(budget_names(budgets), budgets, strict=True):
        values[name] = recall(list(_within(hits, budget)), gold)
    return values | {
        "ndcg@10": ndcg(ranked[:10], gold, 10),
        "all@10": float(gold <= set(ranked[:10])),
        "session_recall@5": recall(ranked_sessions[:5], gold_sessions),
        "session_ndcg@5": ndcg(ranked_sessions[:5], gold_sessions, 5),
        "newer_first": newer_first(probe, ranked),
    }


def recall(ranked: Sequence[str], gold: set[str]) -> float:
    """Return the share of gold items that are in the ranking."""
    return len(gold.intersection(ranked)) / len(gold)


def ndcg(ranked: Sequence[str], gold: set[str], k: int) -> float:
    """Return the discounted gain of gold in the first k of a ranking, divided by the maximum
    possible gain.
    """
    gain = sum(1 / math.log2(rank + 1) for rank, name in enumerate(ranked[:k], 1) if name in gold)
    return gain / sum(1 / math.log2(rank + 1) for rank in range(1, min(k, len(gold)) + 1))


def newer_first(probe: Probe, ranked: Sequence[str]) -> float | None:
    """Return 1.0 if a turn with the new statement of an update is ranked before all with the
    outdated one, else 0.0.

    None for questions that are not about an update, and if a turn has both statements. A statement
    that is not retrieved ranks behind all others.
    """
    newer, outdated = set(probe.newer_ids), set(probe.outdated_ids)
    if not newer or not outdated or newer & outdated:
        return None
    positions = {turn: position for position, turn in enumerate(ranked)}
    first = min(positions.get(turn, len(ranked)) for turn in newer)
    second = min(positions.get(turn, len(ranked)) for turn in outdated)
    return float(first < second)


def _within(hits: Sequence[Hit], budget: int) -> Iterator[str]:
    """Yield the turns that fit into a budget together, best first, up to the first that does not
    fit.
    """
    left = budget
    for hit in hits:
        left -= count_tokens(hit.entry.text)
        if left < 0:
            return
        yield hit.entry.edit_id


def _rows(
    outcomes: Mapping[str, Sequence[_Outcome]], names: Sequence[str]
) -> Iterator[ConversationRow]:
    for kind, (name, results) in product(_kinds(outcomes), outcomes.items()):
        chosen = _of_kind(results, kind)
        seconds = sum(outcome.seconds for outcome in chosen)
        ms = round(seconds / len(chosen) * 1e3, 3)
        yield ConversationRow(
            strategy=name, kind=kind, n=len(chosen), figures=_figures(chosen, names), ms=ms
        )


def _figures(outcomes: Sequence[_Outcome], names: Sequence[str]) -> dict[str, Estimate]:
    """Return an estimate of each figure over the questions to which it applies."""
    figures = {}
    for name in names:
        scored = [outcome for outcome in outcomes if outcome.values[name] is not None]
        if scored:
            owners = [outcome.conversation for outcome in scored]
            values = [outcome.values[name] for outcome in scored]
            figures[name] = with_interval(estimate(values, owners), values, owners)
    return figures


def _pairs(outcomes: Mapping[str, Sequence[_Outcome]]) -> Iterator[PairedRow]:
    """Yield the comparison of each further strategy with the first."""
    (first, base), *others = outcomes.items()
    for kind, (name, results) in product(_kinds(outcomes), others):
        both = zip(_of_kind(base, kind), _of_kind(results, kind), strict=True)
        pairs = [Pair(a.conversation, kind, a.values[MAIN], b.values[MAIN]) for a, b in both]
        result = _paired(compare_pairs(pairs), pairs)
        yield PairedRow(strategy=name, against=first, kind=kind, result=result)


def _paired(result: Paired, pairs: Sequence[Pair]) -> Paired:
    """Return the comparison with Student's interval if conversations have many questions."""
    gaps = [pair.b - pair.a for pair in pairs if pair.a is not None and pair.b is not None]
    owners = [pair.case for pair in pairs if pair.a is not None and pair.b is not None]
    ends = interval_of_large(gaps, owners)
    if ends is None:
        return result
    return result.model_copy(update={"low": max(-1.0, ends[0]), "high": min(1.0, ends[1])})


def _kinds(outcomes: Mapping[str, Iterable[_Outcome]]) -> list[str]:
    kinds = dict.fromkeys(outcome.kind for results in outcomes.values() for outcome in results)
    return [ALL_KINDS, *sorted(kinds)]


def _of_kind(outcomes: Iterable[_Outcome], kind: str) -> list[_Outcome]:
    return [outcome for outcome in outcomes if kind in (ALL_KINDS, outcome.kind)]
