"""Cross-validate the weights of the strategy `conversation`, over the conversations of a benchmark.

    python -m scripts.benchmarks.bench_conversation_weights --data LOCOMO [--benchmark locomo] [--embedding minilm]

The score of a turn is linear in the weights. For each conversation, weights are chosen on all others, one weight after
the other among GRID from equal ones on, by the mean evidence recall@10 of their questions, and are then measured on the
conversation that was left out. Beside them stand the shipped weights. Printed are the folds, the weights that each
chose, and the recall of all questions by kind. The constants that are no settings (names, the prior of turns) are the
shipped ones, and the order of updates is left out. What a user's message inherits from the previous one is not linear,
so that figures for chats with an assistant are approximate.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from emend.evals.case import Case
from emend.evals.config.measure_config import RetrievalConfig
from emend.evals.measure.conversations import load_conversations
from emend.evals.measure.large_clusters import with_interval
from emend.evals.metrics.estimate import estimate
from emend.memory.embeddings.embed import Embedding, load_embedding
from emend.memory.errors import BadSettings
from emend.memory.paths import cache_folder
from emend.memory.retrieval.conversations.conversation import (
    DATES,
    DENSE,
    NEAR,
    RELATED,
    SESSION,
    SPEAKER,
    WIDE,
    Conversation,
)
from emend.memory.retrieval.exact import ExactCorpus, QueryVectors
from emend.memory.store.rows import make_entries

SHIPPED = {
    "near": NEAR,
    "wide": WIDE,
    "dense": DENSE,
    "related": RELATED,
    "dates": DATES,
    "session": SESSION,
    "speaker": SPEAKER,
}
NAMES = tuple(SHIPPED)
GRID = (0.0, 0.15, 0.3, 0.45, 0.6, 0.8, 1.0, 1.4, 2.0)
# Weight of everything at the beginning of a search, and the number of times that each weight is tried anew.
FIRST, ROUNDS = 0.5, 3
HITS = 10
Floats = NDArray[np.float32]


class WeightedQuestion(NamedTuple):
    """A question with its kind, the scores of every turn without weights and by weight, and the turns of its evidence.

    Shapes: base (turns,), parts (weights, turns), evidence (turns,).
    """

    conversation: str
    kind: str
    base: Floats
    parts: Floats
    evidence: NDArray[np.bool_]
    size: int

    def recall(self, weights: Floats) -> float:
        """The share of the evidence among the ten best turns."""
        scores = self.base + weights @ self.parts
        count = min(HITS, len(scores))
        best = np.argsort(-scores, kind="stable")[:count]
        return float(self.evidence[best].sum()) / self.size


def questions_of(case: Case, embedding: Embedding) -> Iterator[WeightedQuestion]:
    """Yield the questions of a conversation that have evidence."""
    entries = sorted((entry for edit in case.edits for entry in make_entries(edit)), key=lambda entry: entry.id)
    vectors = embedding.documents([entry.text for entry in entries])
    corpus = ExactCorpus(entries, vectors, QueryVectors(embedding))
    probes = [probe for probe in case.probes if probe.edit_ids]
    corpus.embed([probe.retrieval_query for probe in probes])
    nothing = dict.fromkeys(NAMES, 0.0)
    plain = Conversation(corpus, **nothing, newest=False)
    single = [Conversation(corpus, **(nothing | {name: 1.0}), newest=False) for name in NAMES]
    for probe in probes:
        base = plain.scores(probe.retrieval_query)
        parts = [each.scores(probe.retrieval_query) - base for each in single]
        gold = {*probe.edit_ids}
        evidence = np.array([entry.edit_id in gold for entry in entries])
        yield WeightedQuestion(
            case.id, probe.kind, base.astype(np.float32), np.array(parts, np.float32), evidence, len(gold)
        )


def mean_recall(questions: Sequence[WeightedQuestion], weights: Floats) -> float:
    """The mean recall of questions under weights."""
    return float(np.mean([question.recall(weights) for question in questions]))


def choose(questions: Sequence[WeightedQuestion]) -> Floats:
    """The weights of GRID that are best on questions, found one after the other."""
    weights = np.full(len(NAMES), FIRST, np.float32)
    best = mean_recall(questions, weights)
    for position in [*range(len(NAMES))] * ROUNDS:
        for value in GRID:
            changed = weights.copy()
            changed[position] = value
            if (figure := mean_recall(questions, changed)) > best:
                best, weights = figure, changed
    return weights


def folds(questions: Sequence[WeightedQuestion]) -> Iterator[tuple[str, Floats]]:
    """By conversation, the weights that are chosen on all others."""
    for name in dict.fromkeys(question.conversation for question in questions):
        yield name, choose([question for question in questions if question.conversation != name])


def figure(questions: Sequence[WeightedQuestion], weights: Mapping[str, Floats]) -> str:
    """The mean recall in percent with its interval over conversations, each under weights of its own."""
    values: list[float | None] = [question.recall(weights[question.conversation]) for question in questions]
    owners = [question.conversation for question in questions]
    result = with_interval(estimate(values, owners), values, owners).scaled(100)
    interval = "" if result.low is None else f" [{result.low:.1f}, {result.high:.1f}]"
    return f"{result.mean:.1f}{interval}"


def print_tables(questions: Sequence[WeightedQuestion]) -> None:
    """Print the folds and the recall by kind in Markdown."""
    shipped = np.array([*SHIPPED.values()], np.float32)
    chosen = dict(folds(questions))
    print(f"| left out | questions | shipped | refitted | {' | '.join(NAMES)} |\n|{' --- |' * (len(NAMES) + 4)}")
    for name, weights in chosen.items():
        own = [question for question in questions if question.conversation == name]
        figures = (f"{100 * mean_recall(own, each):.1f}" for each in (shipped, weights))
        values = (f"{weight:.2f}" for weight in weights)
        print(f"| {name} | {len(own)} | {' | '.join(figures)} | {' | '.join(values)} |")
    by_kind = defaultdict(list, {"all": [*questions]})
    for question in questions:
        by_kind[question.kind].append(question)
    print("\n| kind | questions | shipped | refitted |\n| --- | --- | --- | --- |")
    for kind, own in by_kind.items():
        both = (figure(own, dict.fromkeys(chosen, shipped)), figure(own, chosen))
        print(f"| {kind} | {len(own)} | {' | '.join(both)} |")


def main() -> None:
    """Read the conversations, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benchmark", default="locomo")
    parser.add_argument("--data", required=True)
    parser.add_argument("--embedding", default="minilm")
    options = parser.parse_args()
    benchmark = load_conversations(RetrievalConfig(benchmark=options.benchmark, data=options.data))
    if benchmark is None:
        raise BadSettings(f"{options.benchmark} has no conversations: name locomo or beam.")
    embedding = load_embedding(options.embedding, cache_folder("vectors"))
    cases = benchmark.cases(benchmark.settings[0], None, 0)
    print_tables([question for case in cases for question in questions_of(case, embedding)])


if __name__ == "__main__":
    main()
