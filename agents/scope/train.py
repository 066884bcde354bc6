"""Training of a scope classifier on the questions of a benchmark: weights and threshold."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from emend.agents.scope.base import Floats, embed_corpus, sigmoid
from emend.agents.scope.examples import Decision, ScopeExample, choose_threshold, decide
from emend.agents.scope.features import PairFeatures
from emend.agents.scope.logistic import FEATURES, Form, LogisticScope, question_vectors
from emend.memory.edit import content_id
from emend.memory.embeddings.embed import Embedding
from emend.memory.errors import BadData

# Number of nearest texts paired with a question in training, besides its own.
NEAR = 10
# An embedding of at most this many dimensions is a sentence encoder's.
DENSE = 1024
# Inverse strength of the penalty on the weights of the question's vector, scaled to unit variance;
# that of the other weights is 1. Values between 0.0005 and 0.005 give the same results on ELKEN's
# held-out event types.
GATE = 0.005
FOLDS = 5


class Rows(NamedTuple):
    """Training pairs: features of shape (pairs, features), labels and weights of shape (pairs,)."""

    features: Floats
    labels: NDArray[np.bool_]
    weights: Floats


class TrainedScope(NamedTuple):
    """A classifier, and cross-validated decisions on its training questions, in order."""

    scope: LogisticScope
    held_out: list[Decision]


def train_scope(
    texts: Sequence[str],
    examples: Sequence[ScopeExample],
    embedding: Embedding,
    spec: str = "lexical",
    seed: int = 0,
    groups: Sequence[str] = (),
) -> TrainedScope:
    """Train a classifier on examples; its threshold is the best one in cross-validation.

    With a sentence encoder, the inputs are the shipped classifier's features and the vector of the
    question without names, since the type of question determines whether an edit can answer it.

    Args:
        texts: the texts that questions may be about.
        examples: the questions, in scope and out of it.
        embedding: the encoder.
        spec: its name for `load_embedding`.
        seed: random seed.
        groups: one per text: texts of one group, and their questions, are in the same fold. Empty:
            each text alone.

    Raises:
        BadData: the index of an example is out of range, or there are not enough of them.
    """
    _check_examples(examples, len(texts))
    questions = [example.question for example in examples]
    vectors = question_vectors(embedding, questions)
    form: Form = "relevance" if vectors.shape[1] <= DENSE else "embedding"
    scale = (GATE * vectors.shape[1]) ** 0.5
    vectors = vectors * scale if form == "relevance" else vectors[:, :0]
    embedding.queries(questions)  # fill the cache in one batch
    features = FEATURES[form](embed_corpus(texts, embedding), embedding)
    blocks = [
        weigh_rows(features, example.question, example.about, example.candidates)
        for example in examples
    ]
    weights = _fit(blocks, examples, vectors)
    weights[1 + len(features.names) :] *= scale
    folds = _folds(examples, groups or list(map(str, range(len(texts)))), seed)
    best = _cross_validated(features, blocks, vectors, examples, folds)
    threshold = choose_threshold(best, examples)
    trained_on = content_id(list(texts), [vars(example) for example in examples])
    scope = LogisticScope(embedding, spec, form, weights, threshold, trained_on=trained_on)
    return TrainedScope(
        scope, [decide(*top, threshold, each) for top, each in zip(best, examples, strict=True)]
    )


def _check_examples(examples: Sequence[ScopeExample], texts: int) -> None:
    """Reject questions about texts that do not exist.

    Raises:
        BadData: an index is out of range; names the first.
    """
    for example in examples:
        if not all(0 <= position < texts for position in example.about):
            raise BadData(
                f"question {example.question!r} is about {example.about}, but there are only "
                f"{texts} texts."
            )


def _cross_validated(
    features: PairFeatures,
    blocks: Sequence[Rows],
    vectors: Floats,
    examples: Sequence[ScopeExample],
    fold_of: NDArray[np.int_],
) -> list[tuple[int, float]]:
    """Return the most probable text of each question and its probability, with weights from the
    other folds.

    The probability is 0 if the other folds have too few examples.
    """
    best = [(0, 0.0)] * len(examples)
    for fold in np.unique(fold_of):
        others = np.flatnonzero(fold_of != fold)
        try:
            weights = _fit(
                [blocks[int(n)] for n in others],
                [examples[int(n)] for n in others],
                vectors[others],
            )
        except BadData:
            continue
        bias, linear, gate = np.split(weights, [1, 1 + len(features.names)])
        for n in map(int, np.flatnonzero(fold_of == fold)):
            places = examples[n].candidates
            scores = sigmoid(
                features(examples[n].question, places) @ linear + bias + vectors[n] @ gate
            )
            place = int(scores.argmax())
            best[n] = (place if places is None else places[place], float(scores[place]))
    return best


def _fit(blocks: Sequence[Rows], examples: Sequence[ScopeExample], vectors: Floats) -> Floats:
    """Fit weights that rank the texts of a question and, with vectors, a gate over the best text's
    log-odds and the question's vector.

    The gate is trained on questions out of scope, and on those in scope whose best text is correct.
    """
    weights = fit_rows(blocks)
    if not vectors.shape[1]:
        return weights
    best, chosen = [], []
    for n, (block, example) in enumerate(zip(blocks, examples, strict=True)):
        odds = block.features @ weights[1:] + weights[0]
        place = int(odds.argmax())
        if block.labels[place] or not example.about:
            best.append(Rows(odds[[place], None], block.labels[[place]], np.ones(1, np.float32)))
            chosen.append(n)
    bias, factor, *gate = fit_rows(best, vectors[chosen])
    return np.asarray([bias + factor * weights[0], *(factor * weights[1:]), *gate], np.float32)


def _folds(examples: Sequence[ScopeExample], groups: Sequence[str], seed: int) -> NDArray[np.int_]:
    """Return the fold of each example, the same for all texts of a group; groups are assigned in
    random order.
    """
    names = list(dict.fromkeys(groups))
    order = np.random.default_rng(seed).permutation(len(names))
    fold_of = {names[int(at)]: place % FOLDS for place, at in enumerate(order)}
    return np.asarray([fold_of[groups[example.home]] for example in examples])


def weigh_rows(
    features: PairFeatures, question: str, about: Sequence[int], places: Sequence[int] | None = None
) -> Rows:
    """Return training pairs of a question with its own and its nearest other texts, among all texts
    or those at `places`.

    Each own text has weight 1; the others share a total weight of 1, decreasing with rank, so that
    an out-of-scope question counts as much as one about a text.
    """
    scores = features.scores(question)
    indices = np.arange(len(scores)) if places is None else np.asarray(places)
    ranks = np.argsort(np.argsort(-scores[indices], kind="stable"), kind="stable")
    relevant = np.isin(indices, about)
    chosen = relevant | (ranks < NEAR)
    labels, weights = relevant[chosen], 1 / (1 + ranks[chosen])
    weights[labels] = 0.0
    weights /= max(weights.sum(), 1e-9)
    weights[labels] = 1.0
    return Rows(features(question, places)[chosen], labels, weights.astype(np.float32))


def fit_rows(blocks: Sequence[Rows], vectors: Floats | None = None) -> Floats:
    """Fit bias and weights of a logistic regression on standardised features; `vectors` has one row
    per block, or none.

    Raises:
        BadData: all pairs have the same label.
    """
    from sklearn.linear_model import LogisticRegression

    if len({bool(label) for block in blocks for label in block.labels}) < 2:
        raise BadData(
            "training a scope classifier needs questions with and without a relevant edit."
        )
    features, labels, weights = (
        np.concatenate(parts).astype(np.float64) for parts in zip(*blocks, strict=True)
    )
    mean = np.average(features, axis=0, weights=weights)
    spread = np.average((features - mean) ** 2, axis=0, weights=weights) ** 0.5 + 1e-3
    columns = (features - mean) / spread
    if vectors is not None:
        columns = np.hstack(
            [columns, np.repeat(vectors, [len(block.labels) for block in blocks], axis=0)]
        )
    fitted = LogisticRegression(max_iter=2000).fit(columns, labels > 0, sample_weight=weights)
    linear, gate = np.split(fitted.coef_[0], [len(mean)])
    bias = fitted.intercept_[0] - linear @ (mean / spread)
    return np.asarray([bias, *(linear / spread), *gate], np.float32)
