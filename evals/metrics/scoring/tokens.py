"""Scorers that compare the tokens of an answer with the most probable ones, given those before."""

from collections.abc import Sequence
from typing import ClassVar

from emend.evals.metrics.scores import NO_BASELINE, NO_PROBABILITIES
from emend.evals.metrics.scoring.base import Need, Output, ReasonedScorer, Result
from emend.memory.probe import Answer, Probe

NO_TOKENS = "the model does not say which tokens are the most probable ones"
OTHER_TOKENS = "the unedited model has another number of tokens there"
# The tokens that UniEdit looks at, and those for a question of yes or no.
TOP, TOP_OF_CHOICES = 5, 1
GENERALITY_CRITERIA = (
    "rephrase",
    "multi_hop",
    "relation_reverse",
    "same_entity",
    "subject_alias",
    "object_alias",
)
LOCALITY_CRITERIA = (
    "multi_hop",
    "same_entity",
    "subject_specificity",
    "relation_specificity",
    "object_specificity",
    "one_to_many",
)
# A token of the right answer, and behind it the most probable ones in its place.
Position = tuple[int, ...]


def positions_of(answer: Answer) -> Sequence[Position] | str:
    """The positions of the first target, or the reason why there are none."""
    if not answer.log_probs:
        return NO_PROBABILITIES
    if not answer.likely_tokens:
        return NO_TOKENS
    return answer.likely_tokens[0]


def share_same(now: Sequence[Position], then: Sequence[Position]) -> float:
    """Share of positions with the same most probable token: EasyEdit's locality.

    >>> share_same([(1, 5, 6), (2, 7, 8)], [(1, 5, 9), (2, 8, 7)])
    0.5
    """
    same = [mine[1] == other[1] for mine, other in zip(now, then, strict=True)]
    return sum(same) / len(same)


def macro_f1(positions: Sequence[Position]) -> float:
    """Mean F1 over all tokens that the right answer or the most probable ones have, as
    scikit-learn's `f1_score` with `average='macro'`.

    >>> macro_f1([(1, 1), (2, 3)])
    0.3333333333333333
    """
    right, likely = zip(*((position[0], position[1]) for position in positions), strict=True)
    scores = [_f1(right, likely, token) for token in {*right, *likely}]
    return sum(scores) / len(scores)


def _f1(right: Sequence[int], likely: Sequence[int], token: int) -> float:
    hits = sum(mine == other == token for mine, other in zip(right, likely, strict=True))
    return 2 * hits / (right.count(token) + likely.count(token))


def share_likely(positions: Sequence[Position], top: int) -> float:
    """Share of the right answer's tokens among the `top` most probable ones: UniEdit's generality.

    >>> share_likely([(1, 5, 1), (2, 7, 8)], 2)
    0.5
    """
    hits = [position[0] in position[1 : top + 1] for position in positions]
    return sum(hits) / len(hits)


def share_still_likely(now: Sequence[Position], then: Sequence[Position], top: int) -> float:
    """Share of positions whose most probable token before is among the `top` of now: UniEdit's
    locality.

    >>> share_still_likely([(1, 5, 6), (2, 7, 8)], [(1, 6, 9), (2, 9, 7)], 2)
    0.5
    """
    pairs = zip(now, then, strict=True)
    hits = [other[1] in mine[1 : top + 1] for mine, other in pairs]
    return sum(hits) / len(hits)


class TokenScorer(ReasonedScorer):
    """Base of the scorers that need the most probable tokens."""

    needs: ClassVar[tuple[Need, ...]] = ("log_probs",)
    compares_tokens: ClassVar[bool] = True

    def targets(self, probe: Probe) -> tuple[str, ...]:
        """The right answer."""
        return (probe.gold[0],)


class SameTokens(TokenScorer):
    """`tokens_same`: share of the answer's positions with the unedited model's token (EasyEdit)."""

    outputs = (Output("tokens_same", agrees_with_unedited=True),)
    needs = ("log_probs", "baseline")

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> Result:
        """Compare the most probable tokens."""
        pair = _both(answer, before)
        if isinstance(pair, str):
            return pair
        return share_same(*pair)


class TokenF1(TokenScorer):
    """`token_f1`: macro-F1 of the most probable tokens with the right ones (WikiBigEdit)."""

    outputs = (Output("token_f1"),)

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> Result:
        """Compare the tokens."""
        positions = positions_of(answer)
        if isinstance(positions, str):
            return positions
        return macro_f1(positions)


class LikelyTarget(TokenScorer):
    """`target_likely`: share of the right tokens among the most probable ones (UniEdit), and the
    same for each criterion that the probe's tags name.
    """

    outputs = (
        Output("target_likely", is_right=True, protocol="teacher_forced"),
        *(Output(f"target_likely_{name}") for name in GENERALITY_CRITERIA),
    )

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> Result:
        """Look for the tokens."""
        positions = positions_of(answer)
        if isinstance(positions, str):
            return _by_criterion("target_likely", GENERALITY_CRITERIA, probe, positions)
        share = share_likely(positions, _top(probe))
        return _by_criterion("target_likely", GENERALITY_CRITERIA, probe, share)


class LikelySame(TokenScorer):
    """`same_likely`: share of the unedited model's tokens among the most probable ones (UniEdit),
    and the same for each criterion that the probe's tags name.
    """

    outputs = (
        Output("same_likely", agrees_with_unedited=True),
        *(Output(f"same_likely_{name}", agrees_with_unedited=True) for name in LOCALITY_CRITERIA),
    )
    needs = ("log_probs", "baseline")

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> Result:
        """Look for the tokens."""
        pair = _both(answer, before)
        if isinstance(pair, str):
            return _by_criterion("same_likely", LOCALITY_CRITERIA, probe, pair)
        share = share_still_likely(*pair, _top(probe))
        return _by_criterion("same_likely", LOCALITY_CRITERIA, probe, share)


def _both(
    answer: Answer, before: Answer | None
) -> tuple[Sequence[Position], Sequence[Position]] | str:
    """The positions of both answers, or the reason why they are not compared."""
    if before is None:
        return NO_BASELINE
    now, then = positions_of(answer), positions_of(before)
    if isinstance(now, str):
        return now
    if isinstance(then, str):
        return f"unedited model: {then}"
    return OTHER_TOKENS if len(now) != len(then) else (now, then)


def _top(probe: Probe) -> int:
    return TOP_OF_CHOICES if probe.choices else TOP


def _by_criterion(
    output: str, criteria: Sequence[str], probe: Probe, value: float | str
) -> dict[str, float | str]:
    """The value of the output, and of those of the probe's criteria."""
    named = [f"{output}_{name}" for name in criteria if probe.tags.get(name)]
    return dict.fromkeys([output, *named], value)
