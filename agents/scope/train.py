"""Training the embedding form of the scope classifier: what it learns from, its weights and its threshold.

Over the lexical embedding a question is compared with some texts, and every pair counts; over a sentence encoder the
gate of `scope_gate` learns from questions and the text nearest to each.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from emend.agents.scope.features import PRIOR, EmbeddingScope, Pairs, Scope
from emend.agents.scope.gate import NEAR_FEATURES, GatedScope, Measured, read_of
from emend.agents.scope.logistic import Floats, fit, sigmoid
from emend.memory.edit import content_id
from emend.memory.embeddings.embed import Embedding
from emend.memory.errors import BadData

HARD, EASY = 8, 3
"""Texts that a question is not about: so many of the nearest, and so many at random."""
RIDGE = 1.0
"""How strongly each weight is held to where it was before training."""
GATE_RIDGE = 200.0
"""The same for the gate's, which start at 0: between 100 and 400 held-out event types of ELKEN's are decided alike."""
DENSE = 1024
"""An embedding of at most so many dimensions is a sentence encoder's, and gets a gate."""
ASKED_AT_ONCE = 1024
FOLDS = 5


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

    scope: EmbeddingScope | GatedScope
    held_out: list[Decision]


def train_scope(
    texts: Sequence[str],
    examples: Sequence[ScopeExample],
    embedding: Embedding,
    spec: str = "lexical",
    seed: int = 0,
    groups: Sequence[str] = (),
) -> Trained:
    """A classifier from examples; its threshold is the best on questions that the weights had not seen.

    The weights are those of a logistic regression with a Gaussian prior around `PRIOR` (the gate's: around 0), so a few
    examples move it a little; with none it is the prior.

    Args:
        texts: what questions may be about.
        examples: the questions.
        embedding: the encoder.
        spec: how `load_embedding` calls it.
        seed: of every draw.
        groups: one per text: texts of one group, and their questions, are held out together. Empty: each by itself.

    Raises:
        BadData: an example is about a text that is not there.
    """
    for example in examples:
        if example.about is not None and not 0 <= example.about < len(texts):
            raise BadData(f"question {example.question!r} is about text {example.about}, and there are {len(texts)}.")
    trained_on = content_id(list(texts), [vars(one) for one in examples])
    untrained = EmbeddingScope(embedding, spec, trained_on=trained_on)
    if not examples:
        return Trained(untrained, [])
    gated = embedding.queries(["?"]).shape[1] <= DENSE
    table = _Gates(Measured(embedding, texts), examples) if gated else _Table(Pairs(embedding, texts), examples, seed)
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
    held_out = [judged(*one, threshold, example) for one, example in zip(best, examples, strict=True)]
    if gated:
        return Trained(GatedScope(embedding, spec, weights, threshold, trained_on), held_out)
    return Trained(replace(untrained, weights=weights, threshold=threshold), held_out)


def _folds(groups: Sequence[str], seed: int) -> list[int]:
    """For each text one of `FOLDS` numbers, the same for all of a group; groups are dealt out in a random order."""
    names = list(dict.fromkeys(groups))
    fold_of = {
        names[int(at)]: place % FOLDS for place, at in enumerate(np.random.default_rng(seed).permutation(len(names)))
    }
    return [fold_of[name] for name in groups]


class _Gates:
    """The text nearest to each example's question, and what the gate knows of it."""

    def __init__(self, measured: Measured, examples: Sequence[ScopeExample]) -> None:
        self.examples = examples
        self.found = []
        for start in range(0, len(examples), ASKED_AT_ONCE):
            part = examples[start : start + ASKED_AT_ONCE]
            measured.corpus.embed(read_of([example.question for example in part]))
            self.found += [measured.nearest(one.question, _looked_at(one))[1:] for one in part]

    def fitted(self, rows: NDArray[np.bool_], start: Floats | None = None) -> Floats:
        """The gate's weights. Where another text than the own one is nearest no gate can help, and none learns."""
        about = [example.about for example in self.examples]
        told = [row for row in np.flatnonzero(rows) if about[row] in (None, self.found[row][0])]
        size = len(self.found[0][1])
        features = np.asarray([self.found[row][1] for row in told], np.float32).reshape(-1, size)
        labels = np.asarray([about[row] is not None for row in told], np.float32)
        known = len(NEAR_FEATURES)  # these differ in scale; the vector's dimensions do not
        middle, spread = np.zeros(size, np.float32), np.ones(size, np.float32)
        if told:
            middle[1:known] = features[:, 1:known].mean(0)
            spread[1:known] = features[:, 1:known].std(0) + 1e-3
        weights = fit((features - middle) / spread, labels, np.zeros(size), GATE_RIDGE) / spread
        weights[0] -= weights @ middle
        return np.asarray(weights, np.float32)

    def decided(self, row: int, weights: Floats) -> tuple[int, float]:
        """The nearest text, and how probably it is meant."""
        place, features = self.found[row]
        return place, float(sigmoid(features @ weights))


def _looked_at(example: ScopeExample) -> list[int] | None:
    """The places of the texts that an example is decided on; None for all."""
    return [example.beside] if example.alone and example.beside is not None else None


class _Table:
    """The features of every example, computed once: words of all pairs, vectors of all questions."""

    def __init__(self, pairs: Pairs, examples: Sequence[ScopeExample], seed: int) -> None:
        self.measured, self.examples = pairs, examples
        self.asked = pairs.embedding.queries([example.question for example in examples])
        self.rng = np.random.default_rng(seed)
        self.chosen = [self._places(example, row) for row, example in enumerate(examples)]

    def _places(self, example: ScopeExample, row: int) -> list[int]:
        if (alone := _looked_at(example)) is not None:
            return alone
        near = np.argsort(-(self.measured.vectors @ self.asked[row]), kind="stable")[:HARD].tolist()
        count = len(self.measured.vectors)
        far = self.rng.integers(count, size=min(EASY, count)).tolist()
        own = [place for place in (example.about, example.beside) if place is not None]
        return list(dict.fromkeys([*own, *near, *far]))

    def fitted(self, rows: NDArray[np.bool_], start: Floats | None = None) -> Floats:
        """Weights from the chosen pairs of these examples."""
        kept = np.flatnonzero(rows)
        none = self._features(0, [])  # of no pair, so that no example at all leaves the prior
        features = np.concatenate([none, *(self._features(int(row), self.chosen[row]) for row in kept)])
        labels = [place == self.examples[int(row)].about for row in kept for place in self.chosen[int(row)]]
        return fit(features, np.asarray(labels, np.float32), np.asarray(PRIOR), RIDGE, start)

    def decided(self, row: int, weights: Floats) -> tuple[int, float]:
        """The most probable of all texts, and how probable it is."""
        looked_at = _looked_at(self.examples[row])
        scores = sigmoid(self._features(row, looked_at) @ weights)
        best = int(scores.argmax())
        return best if looked_at is None else looked_at[best], float(scores[best])

    def _features(self, row: int, places: Sequence[int] | None) -> Floats:
        of_words = self.measured.lexicon.features(self.examples[row].question)
        return self.measured.joined(self.asked[row], of_words, places)


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
