"""Scorers of answers about conversations: Emend's own, and those that their benchmarks publish."""

from functools import cache
from typing import TYPE_CHECKING

from emend.agents.judging.event_order import events_of, order_scores
from emend.evals.metrics.scores import ProbeScores
from emend.evals.metrics.scoring.base import Output, ReasonedScorer, Result, Scorer
from emend.evals.metrics.text.locomo_f1 import locomo_f1
from emend.memory.errors import MissingExtra
from emend.memory.probe import Answer, Probe

if TYPE_CHECKING:
    from emend.memory.embeddings.embed import Embedding

# Cosine from which on two texts are one event in BEAM's code.
SAME_EVENT = 0.65
NO_ORDER = "fewer than two events to order"
NO_GOLD = "the question has no published answer"
# Kind of the questions whose answer names all of gold.
SET = "set"


class ConversationAnswer(ReasonedScorer):
    """`correct` and the costs of the context, see `metrics.expected_answers.score_expected`."""

    outputs = (Output("correct", protocol="contains", reads="passage"),)

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> ProbeScores:
        """Score the answer and its evidence."""
        from emend.evals.metrics.expected_answers import (  # lazily: the rules of abstention
            ExpectedAnswer,
            WrongText,
            score_expected,
        )

        expected = ExpectedAnswer(
            prompt=probe.prompt,
            gold=probe.gold,
            wrong=tuple(WrongText(text, "other") for text in probe.choices),
            abstains=probe.abstains,
            names_all=probe.kind == SET,
            all_golds=probe.all_golds,
        )
        return score_expected(expected, answer, probe.edit_ids)


class LoCoMoF1(Scorer):
    """`locomo_f1`: LoCoMo's F1, and its rule for adversarial questions."""

    outputs = (Output("locomo_f1"),)

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> Result:
        """Compare the words of the whole answer with those of gold."""
        if probe.kind != "adversarial" and probe.abstains:
            return NO_GOLD
        return locomo_f1(probe.kind, answer.text or "", probe.gold[0])


class EventOrder(Scorer):
    """`event_order`: BEAM's tau-b times F1, with events compared by a sentence encoder."""

    outputs = (Output("event_order"), Output("event_f1"), Output("event_tau"))

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> Result:
        """Match the events of the answer with the rubric's, and compare their order."""
        right = list(probe.rubric)
        if not right:
            return "the question has no rubric"
        try:
            matches = match_events(right, events_of(answer.text or ""))
        except MissingExtra as error:
            return str(error)
        scores = order_scores(len(right), matches)
        values = {"event_order": scores.score, "event_f1": scores.f1, "event_tau": scores.tau}
        return {name: NO_ORDER if value is None else value for name, value in values.items()}


def match_events(right: list[str], events: list[str]) -> list[int | None]:
    """By event the nearest right one, if its cosine is at least `SAME_EVENT` and no event before
    has it.

    Raises:
        MissingExtra: the encoder is not installed.
    """
    if not events:
        return []
    vectors = _encoder().documents([*right, *events])
    matched: set[int] = set()
    matches: list[int | None] = []
    for cosines in vectors[len(right) :] @ vectors[: len(right)].T:
        nearest = int(cosines.argmax())
        is_new = cosines[nearest] >= SAME_EVENT and nearest not in matched
        matches.append(nearest if is_new else None)
        if is_new:
            matched.add(nearest)
    return matches


@cache
def _encoder() -> "Embedding":
    from emend.memory.embeddings.embed import load_embedding  # lazily: numpy

    return load_embedding("minilm")
