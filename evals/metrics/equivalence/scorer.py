"""A trained scorer of free answers: the probability that humans would judge a reply correct."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from emend.evals.metrics.equivalence import phrases
from emend.evals.metrics.equivalence.features import feature_table
from emend.evals.metrics.equivalence.rows import ReadReply, RepliedQuestion
from emend.evals.metrics.equivalence.trees import BoostedTrees, read_weights
from emend.memory.embeddings.embed import Embedding
from emend.memory.values.search import AnswerHit, find_answers

WEIGHTS = Path(__file__).parent
# Minimum probability of a reply that counts as correct; the model card has its false acceptance
# rate.
THRESHOLD = 0.68


@dataclass(frozen=True)
class EquivalenceScorer:
    """Boosted trees on features of question, gold answers and reply.

    Attributes:
        trees: the weights.
        name: name of the weights: `minilm` or `lexical`.
        embedding: the encoder, if the weights use its similarities.
    """

    trees: BoostedTrees
    name: str
    embedding: Embedding | None = None

    def probabilities(self, rows: Sequence[RepliedQuestion]) -> NDArray[np.float64]:
        """Return the probability that each row's reply is correct, shape (len(rows),).

        It is 0 for an empty reply and for one that gives a rival instead of a gold answer.
        """
        if not rows:
            return np.zeros(0)
        _, table = feature_table(rows, self.embedding)
        is_scored = [bool(row.reply.strip()) and not gives_rival(row) for row in rows]
        return np.where(is_scored, self.trees.probabilities(table), 0.0)

    def probability(
        self, question: str, golds: Sequence[str], reply: str, rivals: Sequence[str] = ()
    ) -> float:
        """Return the probability that a reply is correct.

        Args:
            question: the question.
            golds: gold answers: one value in several forms.
            reply: the reply.
            rivals: wrong values, such as the object before an edit.
        """
        row = RepliedQuestion(question, tuple(golds), reply, tuple(rivals))
        return float(self.probabilities([row])[0])


def load_equivalence(embedding: Embedding | None = None) -> EquivalenceScorer:
    """Load the shipped scorer: `minilm` with the encoder that it was trained on, else `lexical`.

    Args:
        embedding: the encoder, usually `load_embedding("auto")`; ignored unless it is MiniLM.
    """
    if embedding is not None:
        trees, entries = read_weights(WEIGHTS / "minilm.json")
        if entries["encoder"] == embedding.identity:
            return EquivalenceScorer(trees, "minilm", embedding)
    return EquivalenceScorer(read_weights(WEIGHTS / "lexical.json")[0], "lexical")


def decide(probability: float, threshold: float = THRESHOLD, band: float = 0.0) -> bool | None:
    """Return the verdict on a reply; None, unscored, within the band around the threshold.

    Args:
        probability: probability that the reply is correct.
        threshold: minimum probability of a correct reply.
        band: half the width of the probability range without a verdict.
    """
    if band and abs(probability - threshold) < band:
        return None
    return probability >= threshold


def gives_rival(row: RepliedQuestion) -> bool:
    """Return whether a reply gives a rival, unless it is denied, past, or within a gold answer.

    >>> row = RepliedQuestion("Who is its head?", ("Ana Rojo",), "Ben Ode", ("Ben Ode",))
    >>> gives_rival(row)
    True
    """
    if not row.rivals:
        return False
    text = ReadReply(row.question, row.reply).text
    golds = list(find_answers(text, row.golds, row.question))
    rivals = find_answers(text, row.rivals, row.question)
    stated = [hit for hit in rivals if not hit.rule == "less precise"]
    return any(_is_stated(text.plain, hit, golds) for hit in stated)


def _is_stated(plain: str, rival: AnswerHit, golds: Sequence[AnswerHit]) -> bool:
    """Return False if a rival is within a gold answer, denied, or past next to a gold answer."""
    if any(gold.start < rival.end and rival.start < gold.end for gold in golds):
        return False
    before = plain[max(0, rival.start - 60) : rival.start]
    return not (golds and phrases.PAST_MENTION.search(before))
