"""Examples for scope classifiers, and a classifier's decisions on them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from emend.agents.scope.base import Scope, embed_corpus
from emend.memory.embeddings.embed import LexicalEmbedding


@dataclass(frozen=True)
class ScopeExample:
    """Question with the indices of the texts that it is about, which are empty if it is out of
    scope.

    `beside` is the text for which an out-of-scope question was written. With `alone`, the
    question's relation to other texts is unknown, and it is compared only with that text.
    """

    question: str
    about: tuple[int, ...] = ()
    beside: int | None = None
    alone: bool = False

    @property
    def home(self) -> int:
        """The index of the text whose group the question belongs to."""
        return self.about[0] if self.about else self.beside or 0

    @property
    def candidates(self) -> list[int] | None:
        """The indices of the texts that the question is compared with; None for all."""
        return [self.beside] if self.alone and self.beside is not None else None


class Decision(NamedTuple):
    """The index of the most probable text for a question, its probability, and whether the decision
    is correct.

    A decision is correct if it is one of the question's texts at or above the threshold, or no text
    for a question without texts (ELKEN's selector accuracy).
    """

    place: int
    probability: float
    right: bool


def choose_threshold(best: Sequence[tuple[int, float]], examples: Sequence[ScopeExample]) -> float:
    """Return the threshold with the most correct decisions; among equally good ones, the middle of
    the widest interval.

    Args:
        best: the most probable text of each question, and its probability.
        examples: the questions.
    """
    scores = np.asarray([probability for _, probability in best])
    correct = np.asarray(
        [place in example.about for (place, _), example in zip(best, examples, strict=True)]
    )
    in_scope = np.asarray([bool(example.about) for example in examples])
    order = np.argsort(scores, kind="stable")
    # With the threshold after the first n questions, these get no text, which is correct if they
    # are out of scope.
    rejected = np.concatenate([[0], np.cumsum(~in_scope[order])])
    right = rejected + np.concatenate([np.cumsum(correct[order][::-1])[::-1], [0]])
    edges = np.concatenate([[0.0], scores[order], [1.0]])
    widths = np.where(right == right.max(), edges[1:] - edges[:-1], -1.0)
    at = int(widths.argmax())
    return float((edges[at] + edges[at + 1]) / 2)


def decide(place: int, probability: float, threshold: float, example: ScopeExample) -> Decision:
    """Return the decision for the most probable text."""
    in_scope = probability >= threshold
    return Decision(place, probability, place in example.about if in_scope else not example.about)


def decisions(
    scope: Scope,
    texts: Sequence[str],
    examples: Sequence[ScopeExample],
    candidates: Sequence[Sequence[int]] | None = None,
) -> list[Decision]:
    """Return a classifier's decisions on questions over these texts.

    Args:
        scope: the classifier.
        texts: the texts that the questions may be about.
        examples: the questions.
        candidates: for each question the indices of the texts that it is compared with; None for
            all.
    """
    plain = LexicalEmbedding(1)  # the classifier embeds what it needs
    out: list[Decision] = []
    over_all = scope.over(embed_corpus(texts, plain)) if candidates is None else None
    for row, example in enumerate(examples):
        places = range(len(texts)) if candidates is None else candidates[row]
        if not len(places):
            out.append(Decision(-1, 0.0, not example.about))
            continue
        probabilities = over_all or scope.over(
            embed_corpus([texts[place] for place in places], plain)
        )
        scores = probabilities(example.question)
        best = int(scores.argmax())
        out.append(decide(int(places[best]), float(scores[best]), scope.threshold, example))
    return out


def collect_examples(
    triples: Sequence[tuple[str, str, bool]],
) -> tuple[list[str], list[ScopeExample]]:
    """Convert triples (question, text shown with it, whether it is about that text) to texts and
    examples.
    """
    texts = list(dict.fromkeys(text for _, text, _ in triples))
    places = {text: place for place, text in enumerate(texts)}
    return texts, [
        ScopeExample(question, (places[text],))
        if inside
        else ScopeExample(question, (), places[text], alone=True)
        for question, text, inside in triples
    ]
