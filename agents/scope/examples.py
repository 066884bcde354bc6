"""Examples for scope classifiers, and a classifier's decisions on them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from emend.agents.scope.base import Scope


@dataclass(frozen=True)
class ScopeExample:
    """A question, and the index of the text that it is about; None when it is about none of them.

    `beside` is the text that an out-of-scope question was written for, the hardest negative. With `alone` nothing is
    known about the question and the other texts, and it is compared with that text only.
    """

    question: str
    about: int | None
    beside: int | None = None
    alone: bool = False


class Decision(NamedTuple):
    """The index of the most probable text for a question, its probability, and whether the decision is correct.

    Correct is the question's text at or above the threshold, or no text if it has none (ELKEN's selector accuracy).
    """

    place: int
    probability: float
    right: bool


def choose_threshold(best: Sequence[tuple[int, float]], examples: Sequence[ScopeExample]) -> float:
    """The threshold with the most correct decisions; of equally good ones the middle of the widest interval.

    Args:
        best: the most probable text of each question, and its probability.
        examples: the questions.
    """
    scores = np.asarray([probability for _, probability in best])
    correct = np.asarray([place == example.about for (place, _), example in zip(best, examples, strict=True)])
    in_scope = np.asarray([example.about is not None for example in examples])
    order = np.argsort(scores, kind="stable")
    # With the cut behind the first n, those get no text, which is correct for questions out of scope.
    rejected = np.concatenate([[0], np.cumsum(~in_scope[order])])
    right = rejected + np.concatenate([np.cumsum(correct[order][::-1])[::-1], [0]])
    edges = np.concatenate([[0.0], scores[order], [1.0]])
    widths = np.where(right == right.max(), edges[1:] - edges[:-1], -1.0)
    at = int(widths.argmax())
    return float((edges[at] + edges[at + 1]) / 2)


def decide(place: int, probability: float, threshold: float, example: ScopeExample) -> Decision:
    """The decision that follows from the most probable text."""
    chosen = place if probability >= threshold else None
    return Decision(place, probability, chosen == example.about)


def decisions(
    scope: Scope,
    texts: Sequence[str],
    examples: Sequence[ScopeExample],
    candidates: Sequence[Sequence[int]] | None = None,
) -> list[Decision]:
    """A classifier's decisions on questions over these texts.

    Args:
        scope: the classifier.
        texts: the texts that the questions may be about.
        examples: the questions.
        candidates: for each question the indices of the texts that it is compared with; None for all.
    """
    out: list[Decision] = []
    over_all = scope.over(texts) if candidates is None else None
    for row, example in enumerate(examples):
        places = range(len(texts)) if candidates is None else candidates[row]
        if not len(places):
            out.append(Decision(-1, 0.0, example.about is None))
            continue
        probabilities = over_all or scope.over([texts[place] for place in places])
        scores = probabilities(example.question)
        best = int(scores.argmax())
        out.append(decide(int(places[best]), float(scores[best]), scope.threshold, example))
    return out


def examples_of(triples: Sequence[tuple[str, str, bool]]) -> tuple[list[str], list[ScopeExample]]:
    """Texts and examples from triples: a question, the text shown with it, and whether it is about that text."""
    texts = list(dict.fromkeys(text for _, text, _ in triples))
    places = {text: place for place, text in enumerate(texts)}
    return texts, [_example(question, places[text], inside) for question, text, inside in triples]


def _example(question: str, place: int, inside: bool) -> ScopeExample:
    return ScopeExample(question, place) if inside else ScopeExample(question, None, place, alone=True)
