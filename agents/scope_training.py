"""Training the embedding form of the scope classifier: which pairs it learns from, its weights and its threshold."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from emend.agents.scope import PRIOR, EmbeddingScope, Floats, Pairs, Scope, sigmoid
from emend.memory.edit import content_id
from emend.memory.embed import Embedding
from emend.memory.errors import BadData

HARD, EASY = 8, 3
"""Texts that a question is not about: so many of the nearest, and so many at random."""
RIDGE = 1.0
"""How strongly each weight is held to where it was before training; for those of single dimensions that is 0."""
ROUNDS, CG_ROUNDS, FOLDS = 30, 60, 5
CLOSE = 1e-3
"""A step, a relative error, or a gain in log-likelihood over all pairs, that is small enough to stop at."""


@dataclass(frozen=True)
class ScopeExample:
    """A question, and the place of the text that it is about among the texts; None when it is about none of them.

    `beside` is the text that an out-of-scope question was written for; it is the hardest one to tell it from. With
    `alone` nothing is known of the question and the other texts, and it is decided on that one.
    """

    question: str
    about: int | None
    beside: int | None = None
    alone: bool = False


class Decision(NamedTuple):
    """The text that a question is most probably about, how probably, and whether that decides it right.

    Right is the own text at or above the threshold, or, where there is none, nothing (ELKEN's selector accuracy).
    """

    place: int
    probability: float
    right: bool


class Trained(NamedTuple):
    """A classifier, and its decisions on its own questions by weights that had not seen them, in their order."""

    scope: EmbeddingScope
    held_out: list[Decision]


def train_scope(
    texts: Sequence[str],
    examples: Sequence[ScopeExample],
    embedding: Embedding,
    spec: str = "lexical",
    seed: int = 0,
) -> Trained:
    """A classifier from examples; its threshold is the best on questions that the weights had not seen.

    The weights are those of a logistic regression with a Gaussian prior around `PRIOR`, so a few examples move it a
    little; with none it is the prior.

    Raises:
        BadData: an example is about a text that is not there.
    """
    for example in examples:
        if example.about is not None and not 0 <= example.about < len(texts):
            raise BadData(f"question {example.question!r} is about text {example.about}, and there are {len(texts)}.")
    scope = EmbeddingScope(embedding, spec, trained_on=content_id(list(texts), [vars(one) for one in examples]))
    if not examples:
        return Trained(scope, [])
    table = _Table(Pairs(embedding, texts), examples, seed)
    folds = np.random.default_rng(seed).integers(FOLDS, size=max(len(texts), 1))
    fold_of = np.asarray([folds[place] for place in table.homes])
    weights = fit(*table.pairs(np.ones(len(examples), bool)))
    best = [(0, 0.0)] * len(examples)
    for fold in np.unique(fold_of):
        without = fit(*table.pairs(fold_of != fold), start=weights)
        for row in np.flatnonzero(fold_of == fold):
            best[row] = table.decided(int(row), without)
    threshold = choose_threshold(best, examples)
    held_out = [judged(*one, threshold, example) for one, example in zip(best, examples, strict=True)]
    return Trained(replace(scope, weights=weights, threshold=threshold), held_out)


class _Table:
    """The features of every example, computed once: words of all pairs, vectors of all questions."""

    def __init__(self, pairs: Pairs, examples: Sequence[ScopeExample], seed: int) -> None:
        self.measured, self.examples = pairs, examples
        self.asked = pairs.embedding.queries([example.question for example in examples])
        self.rng = np.random.default_rng(seed)
        self.chosen = [self._places(example, row) for row, example in enumerate(examples)]
        self.homes = [next((p for p in (e.about, e.beside) if p is not None), 0) for e in examples]

    def _places(self, example: ScopeExample, row: int) -> list[int]:
        if example.alone and example.beside is not None:
            return [example.beside]
        near = np.argsort(-(self.measured.vectors @ self.asked[row]), kind="stable")[:HARD].tolist()
        count = len(self.measured.vectors)
        far = self.rng.integers(count, size=min(EASY, count)).tolist()
        own = [place for place in (example.about, example.beside) if place is not None]
        return list(dict.fromkeys([*own, *near, *far]))

    def pairs(self, rows: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Features and labels of the chosen pairs of these examples."""
        kept = np.flatnonzero(rows)
        none = self._features(0, [])  # of no pair, so that no example at all leaves the prior
        features = np.concatenate([none, *(self._features(int(row), self.chosen[row]) for row in kept)])
        labels = [place == self.examples[int(row)].about for row in kept for place in self.chosen[int(row)]]
        return features, np.asarray(labels, np.float32)

    def decided(self, row: int, weights: Floats) -> tuple[int, float]:
        """The most probable of all texts, and how probable it is."""
        looked_at = self.chosen[row] if self.examples[row].alone else None
        scores = sigmoid(self._features(row, looked_at) @ weights)
        best = int(scores.argmax())
        return best if looked_at is None else looked_at[best], float(scores[best])

    def _features(self, row: int, places: Sequence[int] | None) -> Floats:
        of_words = self.measured.lexicon.features(self.examples[row].question)
        return self.measured.joined(self.asked[row], of_words, places)


def fit(features: Floats, labels: Floats, ridge: float = RIDGE, start: Floats | None = None) -> Floats:
    """Weights of a logistic regression by Newton's method, held to the prior.

    Args:
        features: shape (pairs, features).
        labels: 1 in scope, 0 out of it; shape (pairs,).
        ridge: how strongly.
        start: weights to begin with; the end does not depend on them, the loss being convex.
    """
    prior = np.zeros(features.shape[1])
    prior[: len(PRIOR)] = PRIOR
    weights = prior.copy() if start is None else start.astype(np.float64)

    def loss(at: NDArray[np.float64]) -> float:
        odds = (features @ at.astype(np.float32)).astype(np.float64)
        return float(np.sum(np.logaddexp(0, odds) - labels * odds) + ridge / 2 * np.sum((at - prior) ** 2))

    now = loss(weights)
    for _ in range(ROUNDS):
        told = sigmoid(features @ weights.astype(np.float32))
        slope = (features.T @ (told - labels)).astype(np.float64) + ridge * (weights - prior)
        step = _solve(features, told * (1 - told), ridge, slope)
        while (after := loss(weights - step)) > now and np.abs(step).max() > CLOSE:
            step /= 2  # a full step may overshoot far from the end
        if after > now - CLOSE * max(1.0, now * CLOSE):
            break
        weights, now = weights - step, after
    return weights.astype(np.float32)


def _solve(features: Floats, spread: Floats, ridge: float, slope: NDArray[np.float64]) -> NDArray[np.float64]:
    """Newton's step, by conjugate gradients: the matrix of all products is never made."""
    diagonal = ((features**2).T @ spread).astype(np.float64) + ridge
    step, left = np.zeros_like(slope), slope.copy()
    way = left / diagonal
    size = left @ way
    enough = CLOSE**2 * size
    for _ in range(CG_ROUNDS):
        if size <= enough:
            break
        bent = (features.T @ (spread * (features @ way.astype(np.float32)))).astype(np.float64) + ridge * way
        length = size / (way @ bent)
        step, left = step + length * way, left - length * bent
        ahead = left / diagonal
        before, size = size, left @ ahead
        way = ahead + size / before * way
    return step


def choose_threshold(best: Sequence[tuple[int, float]], examples: Sequence[ScopeExample]) -> float:
    """The threshold with the most right decisions; of equally good ones the middle of the widest stretch.

    Args:
        best: the most probable text of each question, and its probability.
        examples: the questions.
    """
    scores = np.asarray([probability for _, probability in best])
    own = np.asarray([place == example.about for (place, _), example in zip(best, examples, strict=True)])
    meant = np.asarray([example.about is not None for example in examples])
    order = np.argsort(scores, kind="stable")
    # With the cut behind the first n, those are left alone, which is right where none is meant.
    right = np.concatenate([[0], np.cumsum(~meant[order])]) + np.concatenate([np.cumsum(own[order][::-1])[::-1], [0]])
    edges = np.concatenate([[0.0], scores[order], [1.0]])
    widths = np.where(right == right.max(), edges[1:] - edges[:-1], -1.0)
    at = int(widths.argmax())
    return float((edges[at] + edges[at + 1]) / 2)


def judged(place: int, probability: float, threshold: float, example: ScopeExample) -> Decision:
    """The decision that follows from the most probable text."""
    chosen = place if probability >= threshold else None
    return Decision(place, probability, chosen == example.about)


def decisions(
    scope: Scope,
    texts: Sequence[str],
    examples: Sequence[ScopeExample],
    candidates: Sequence[Sequence[int]] | None = None,
) -> list[Decision]:
    """How a classifier decides questions over these texts.

    Args:
        scope: the classifier.
        texts: what the questions may be about.
        examples: the questions.
        candidates: for each question the places of the texts that are looked at; None for all.
    """
    found: list[Decision] = []
    over_all = scope.over(texts) if candidates is None else None
    for row, example in enumerate(examples):
        places = range(len(texts)) if candidates is None else candidates[row]
        if not len(places):
            found.append(Decision(-1, 0.0, example.about is None))
            continue
        asked = over_all or scope.over([texts[place] for place in places])
        scores = asked(example.question)
        best = int(scores.argmax())
        found.append(judged(int(places[best]), float(scores[best]), scope.threshold, example))
    return found


def examples_of(told: Sequence[tuple[str, str, bool]]) -> tuple[list[str], list[ScopeExample]]:
    """Texts and examples from triples of a question, the text shown with it, and whether it is about that text."""
    texts = list(dict.fromkeys(text for _, text, _ in told))
    places = {text: place for place, text in enumerate(texts)}
    return texts, [_example(question, places[text], inside) for question, text, inside in told]


def _example(question: str, place: int, inside: bool) -> ScopeExample:
    return ScopeExample(question, place) if inside else ScopeExample(question, None, place, alone=True)
