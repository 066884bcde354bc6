"""Trains the embedding form of the scope classifier: weights and threshold.

Over the lexical embedding a question is compared with several texts and every pair is an example; over a sentence
encoder the gate of `gate` is trained on questions and the text nearest to each.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from emend.agents.scope.examples import Decision, ScopeExample, choose_threshold, decide
from emend.agents.scope.features import PRIOR, EmbeddingScope, Pairs
from emend.agents.scope.gate import NEAR_FEATURES, GatedScope, ScoredTexts, encoder_inputs
from emend.agents.scope.logistic import Floats, fit, sigmoid
from emend.memory.edit import content_id
from emend.memory.embeddings.embed import Embedding
from emend.memory.errors import BadData

HARD, EASY = 8, 3
"""Number of negatives per question: nearest texts, and random ones."""
RIDGE = 1.0
"""Strength of the prior around the untrained weights."""
GATE_RIDGE = 200.0
"""Strength of the gate's prior around 0; between 100 and 400 ELKEN's held-out event types get the same decisions."""
DENSE = 1024
"""An embedding of at most this many dimensions is a sentence encoder's, and gets a gate."""
BATCH = 1024
FOLDS = 5


class TrainedScope(NamedTuple):
    """A classifier, and cross-validated decisions on its training questions, in their order."""

    scope: EmbeddingScope | GatedScope
    held_out: list[Decision]


def train_scope(
    texts: Sequence[str],
    examples: Sequence[ScopeExample],
    embedding: Embedding,
    spec: str = "lexical",
    seed: int = 0,
    groups: Sequence[str] = (),
) -> TrainedScope:
    """A classifier from examples; its threshold is the best one in cross-validation.

    The weights are those of a logistic regression with a Gaussian prior around `PRIOR` (the gate's: around 0); without
    examples they are the prior.

    Args:
        texts: the texts that questions may be about.
        examples: the questions.
        embedding: the encoder.
        spec: its name for `load_embedding`.
        seed: random seed.
        groups: one per text: texts of one group, and their questions, are in the same fold. Empty: each text alone.

    Raises:
        BadData: the index of an example is out of range.
    """
    for example in examples:
        if example.about is not None and not 0 <= example.about < len(texts):
            raise BadData(f"question {example.question!r} is about text {example.about}, and there are {len(texts)}.")
    trained_on = content_id(list(texts), [vars(example) for example in examples])
    untrained = EmbeddingScope(embedding, spec, trained_on=trained_on)
    if not examples:
        return TrainedScope(untrained, [])
    gated = embedding.queries(["?"]).shape[1] <= DENSE
    table = (
        _Gates(ScoredTexts(embedding, texts), examples) if gated else _Table(Pairs(embedding, texts), examples, seed)
    )
    homes = [next((p for p in (e.about, e.beside) if p is not None), 0) for e in examples]
    folds = _folds(groups or [str(place) for place in range(len(texts))], seed)
    fold_of = np.asarray([folds[place] for place in homes])
    weights = table.fitted(np.ones(len(examples), bool))
    best = [(0, 0.0)] * len(examples)
    for fold in np.unique(fold_of):
        without = table.fitted(fold_of != fold, weights)
        for row in np.flatnonzero(fold_of == fold):
            best[row] = table.decided(int(row), without)
    threshold = choose_threshold(best, examples)
    held_out = [decide(*top, threshold, example) for top, example in zip(best, examples, strict=True)]
    if gated:
        return TrainedScope(GatedScope(embedding, spec, weights, threshold, trained_on), held_out)
    return TrainedScope(replace(untrained, weights=weights, threshold=threshold), held_out)


def _folds(groups: Sequence[str], seed: int) -> list[int]:
    """The fold of each text, the same for all texts of a group; groups are assigned in random order."""
    names = list(dict.fromkeys(groups))
    fold_of = {
        names[int(at)]: place % FOLDS for place, at in enumerate(np.random.default_rng(seed).permutation(len(names)))
    }
    return [fold_of[name] for name in groups]


class _Gates:
    """The text nearest to each example's question, and the gate's features of it."""

    def __init__(self, scored: ScoredTexts, examples: Sequence[ScopeExample]) -> None:
        self.examples = examples
        self.nearest: list[tuple[int, Floats]] = []
        for start in range(0, len(examples), BATCH):
            part = examples[start : start + BATCH]
            scored.corpus.embed(encoder_inputs([example.question for example in part]))
            self.nearest += [scored.nearest(example.question, _candidates(example))[1:] for example in part]

    def fitted(self, rows: NDArray[np.bool_], start: Floats | None = None) -> Floats:
        """The gate's weights; examples whose nearest text is a wrong one are left out, since no gate can help there."""
        about = [example.about for example in self.examples]
        usable = [row for row in np.flatnonzero(rows) if about[row] in (None, self.nearest[row][0])]
        size = len(self.nearest[0][1])
        features = np.asarray([self.nearest[row][1] for row in usable], np.float32).reshape(-1, size)
        labels = np.asarray([about[row] is not None for row in usable], np.float32)
        known = len(NEAR_FEATURES)  # these differ in scale; the vector's dimensions do not
        middle, spread = np.zeros(size, np.float32), np.ones(size, np.float32)
        if usable:
            middle[1:known] = features[:, 1:known].mean(0)
            spread[1:known] = features[:, 1:known].std(0) + 1e-3
        weights = fit((features - middle) / spread, labels, np.zeros(size), GATE_RIDGE) / spread
        weights[0] -= weights @ middle
        return np.asarray(weights, np.float32)

    def decided(self, row: int, weights: Floats) -> tuple[int, float]:
        """The nearest text, and the probability that the question is about it."""
        place, features = self.nearest[row]
        return place, float(sigmoid(features @ weights))


def _candidates(example: ScopeExample) -> list[int] | None:
    """The indices of the texts that an example is compared with; None for all."""
    return [example.beside] if example.alone and example.beside is not None else None


class _Table:
    """The word features of the examples and the vectors of their questions, computed once."""

    def __init__(self, pairs: Pairs, examples: Sequence[ScopeExample], seed: int) -> None:
        self.pairs, self.examples = pairs, examples
        self.vectors = pairs.embedding.queries([example.question for example in examples])
        self.rng = np.random.default_rng(seed)
        self.chosen = [self._places(example, row) for row, example in enumerate(examples)]

    def _places(self, example: ScopeExample, row: int) -> list[int]:
        if (alone := _candidates(example)) is not None:
            return alone
        near = np.argsort(-(self.pairs.vectors @ self.vectors[row]), kind="stable")[:HARD].tolist()
        count = len(self.pairs.vectors)
        far = self.rng.integers(count, size=min(EASY, count)).tolist()
        first = [place for place in (example.about, example.beside) if place is not None]
        return list(dict.fromkeys([*first, *near, *far]))

    def fitted(self, rows: NDArray[np.bool_], start: Floats | None = None) -> Floats:
        """Weights from the chosen pairs of these examples."""
        chosen = np.flatnonzero(rows)
        none = self._features(0, [])  # no pair, so that without any example the prior is left
        features = np.concatenate([none, *(self._features(int(row), self.chosen[row]) for row in chosen)])
        labels = [place == self.examples[int(row)].about for row in chosen for place in self.chosen[int(row)]]
        return fit(features, np.asarray(labels, np.float32), np.asarray(PRIOR), RIDGE, start)

    def decided(self, row: int, weights: Floats) -> tuple[int, float]:
        """The most probable text, and its probability."""
        candidates = _candidates(self.examples[row])
        scores = sigmoid(self._features(row, candidates) @ weights)
        best = int(scores.argmax())
        return best if candidates is None else candidates[best], float(scores[best])

    def _features(self, row: int, places: Sequence[int] | None) -> Floats:
        of_words = self.pairs.lexicon.features(self.examples[row].question)
        return self.pairs.joined(self.vectors[row], of_words, places)
