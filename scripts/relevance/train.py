"""Train the scope classifier that `serac` and `crag` use by default over MiniLM.

    python -m scripts.relevance.train --data DATA --out agents/scope/relevance.json

Each question is paired with the texts of three memories: all edits; all but its own, so that nothing is relevant; and
its own alone (out of scope the first edit of its case), so that the classifier does not depend on the number of edits.
In scope and out of it weigh the same, and so does each family.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from emend.agents.scope.base import Floats, embed_corpus
from emend.agents.scope.examples import ScopeExample
from emend.agents.scope.features import RelevanceFeatures
from emend.agents.scope.logistic import LogisticScope
from emend.agents.scope.train import Rows, fit_rows, weigh_rows
from emend.evals.measure.training import ScopeQuestions
from emend.memory.edit import content_id
from emend.memory.embeddings.embed import Embedding, load_embedding
from emend.memory.paths import cache_folder
from scripts.relevance.families import TRAINED_ON, provenance_of, questions_of

SEED = 0
QUESTIONS = 1200
"""Maximum number of questions per memory."""
ABSENT, ALONE = 0.5, 0.5
"""Weights of questions without their edits, relative to those in scope, and of memories of one case's edits."""
TOTAL = 2000.0
"""Sum of all weights, which sets the strength of the penalty on the coefficients."""
FOLDS = 3
GRID = np.arange(0.3, 0.8, 0.005)
FLAT_TOP = 0.003
"""Thresholds whose balanced rate is at most this much below the best are equally good; the lowest is taken."""
LOWER = 0.45
"""Probability from which a passage may be relevant. A tenth of the threshold would let nearly every passage in."""


class Sample(NamedTuple):
    """Training questions of one memory: examples, rows, the fold of each by case, and their features."""

    family: str
    examples: list[ScopeExample]
    rows: list[Rows]
    folds: NDArray[np.int_]
    features: RelevanceFeatures


def sample_of(family: str, pool: ScopeQuestions, embedding: Embedding) -> Sample:
    """The training questions of a memory, with their rows."""
    order = np.random.default_rng(SEED).permutation(len(pool.questions))[:QUESTIONS]
    chosen = [int(n) for n in np.sort(order)]
    examples = [ScopeExample(pool.questions[n], pool.about[n], pool.beside[n]) for n in chosen]
    embedding.queries([example.question for example in examples])  # into the cache in one batch
    features = RelevanceFeatures(embed_corpus(pool.texts, embedding), embedding)
    inside = sum(bool(example.about) for example in examples)
    share = {True: 1 / max(1, inside), False: 1 / max(1, len(examples) - inside)}
    rows = [_merged(example, pool.texts, features, embedding, share[bool(example.about)]) for example in examples]
    names = {case: place for place, case in enumerate(dict.fromkeys(pool.cases))}
    return Sample(family, examples, rows, np.asarray([names[pool.cases[n]] % FOLDS for n in chosen]), features)


def _merged(
    example: ScopeExample, texts: Sequence[str], features: RelevanceFeatures, embedding: Embedding, share: float
) -> Rows:
    """The rows of a question in its three memories."""
    parts = [(1.0, weigh_rows(features, example.question, example.about))]
    if example.about and len(texts) > len(example.about):
        rest = [place for place in range(len(texts)) if place not in example.about]
        parts.append((ABSENT, weigh_rows(features, example.question, (), rest)))
    alone = example.about or (example.beside or 0,)
    few = RelevanceFeatures(embed_corpus([texts[place] for place in alone], embedding), embedding)
    parts.append((ALONE, weigh_rows(few, example.question, range(len(alone)) if example.about else ())))
    columns = zip(*(rows._replace(weights=rows.weights * factor * share) for factor, rows in parts), strict=True)
    return Rows(*(np.concatenate(column) for column in columns))


def fit(samples: Sequence[Sample], without: int | None = None) -> Floats:
    """Bias and weights; `without` leaves out a fold."""
    families = {sample.family for sample in samples}
    totals = {f: sum(float(r.weights.sum()) for s in samples if s.family == f for r in s.rows) for f in families}
    return fit_rows(
        [
            rows._replace(weights=rows.weights * np.float32(TOTAL / len(families) / totals[sample.family]))
            for sample in samples
            for rows, fold in zip(sample.rows, sample.folds, strict=True)
            if fold != without
        ]
    )


def choose_threshold(samples: Sequence[Sample]) -> float:
    """The threshold with the best mean over families of the balanced rate of right decisions, in cross-validation."""
    weights = [fit(samples, without=fold) for fold in range(FOLDS)]
    rates: dict[str, list[Floats]] = {}
    for sample in samples:
        right: dict[bool, list[Floats]] = {True: [], False: []}
        for example, fold in zip(sample.examples, sample.folds, strict=True):
            scores = sample.features(example.question) @ weights[fold][1:] + weights[fold][0]
            best, let_in = int(scores.argmax()), GRID <= 1 / (1 + np.exp(-scores.max()))
            right[bool(example.about)].append(let_in & (best in example.about) if example.about else ~let_in)
        balanced = np.mean([np.mean(part, axis=0) for part in right.values() if part], axis=0)
        rates.setdefault(sample.family, []).append(balanced)
    mean = np.mean([np.mean(family, axis=0) for family in rates.values()], axis=0)
    return float(GRID[mean >= mean.max() - FLAT_TOP][0])


def trained(samples: Sequence[Sample], embedding: Embedding) -> LogisticScope:
    """The classifier of some families."""
    return LogisticScope(embedding, "minilm", "relevance", fit(samples), choose_threshold(samples), LOWER)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the folders mquake and counterfact")
    parser.add_argument("--out", type=Path, required=True, help="file to write")
    given = parser.parse_args()
    embedding = load_embedding("minilm", cache_folder("vectors"))
    questions = [questions_of(target, given.data) for target in TRAINED_ON]
    samples = [sample_of(t.family, each, embedding) for t, each in zip(TRAINED_ON, questions, strict=True)]
    scope = trained(samples, embedding)
    shipped = {
        "about": "scope classifier: logistic regression of a question and a text; python -m scripts.relevance.train",
        "encoder": embedding.identity,
        "weights": dict(zip(("bias", *RelevanceFeatures.names), map(_rounded, scope.weights), strict=True)),
        "threshold": _rounded(scope.threshold),
        "lower": LOWER,
        "trained_on": content_id([each.model_dump(mode="json") for each in questions]),
        "seed": SEED,
        "data": {t.name: provenance_of(t, given.data) | _sizes(q) for t, q in zip(TRAINED_ON, questions, strict=True)},
    }
    given.out.write_text(json.dumps(shipped, indent=1) + "\n", encoding="utf-8")


def _rounded(number: float) -> float:
    return round(float(number), 4)


def _sizes(pool: ScopeQuestions) -> dict[str, int]:
    inside = sum(map(bool, pool.about))
    return {"edits": len(pool.texts), "questions in scope": inside, "out of it": len(pool.about) - inside}


if __name__ == "__main__":
    main()
