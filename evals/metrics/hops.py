"""Hop-wise accuracy of stepwise answers (Gu et al. 2024, PokeMQA): a chain is right if the answer
of every hop is, one by one.

A final answer may be right though the steps to it are not, which multi-hop accuracy does not see.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from emend.evals.metrics.scores import NO_TEXT, ProbeScores
from emend.evals.metrics.text.exact import normalise
from emend.memory.probe import Answer

# Outputs: whether every hop's answer is right in order, and the share of the hops that are.
HOPS_RIGHT, HOP_SHARE = "hops_right", "hop_share"
HOP_OUTPUTS = (HOPS_RIGHT, HOP_SHARE)
# Beginning of the kinds of multi-hop questions.
MULTIHOP = "multihop"
# Node in which `mello` fails before it has a hop.
FIRST_NODE = "decompose"


def distinct_golds(hops: Iterable[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    """Return the accepted answers of each hop, each of them once."""
    return tuple(tuple(dict.fromkeys(hop)) for hop in hops)


def hop_answers(answer: Answer) -> list[str] | None:
    """Return the answers of the hops of a graph's last state with hops; None for an editor that
    does not answer in hops.
    """
    updates = [step.update for step in answer.steps]
    hops = next((update["hops"] for update in reversed(updates) if "hops" in update), None)
    if hops is None and all(step.node != FIRST_NODE for step in answer.steps):
        return None
    return [hop_answer(hop) for hop in hops or () if isinstance(hop, Mapping)]


def hop_answer(hop: Mapping[str, Any]) -> str:
    """Return the answer of a hop, or its tentative one if it has none, as in `mello` before a
    check.
    """
    return str(hop.get("answer") or hop.get("tentative") or "")


def with_hops(
    scores: ProbeScores,
    golds: Sequence[Sequence[str]],
    answer: Answer,
    no_answer: bool,
) -> ProbeScores:
    """Return the scores with those of the hops, if there are golds of hops and the editor answers
    in hops.

    Args:
        scores: scores of the answer.
        golds: accepted answers of each hop; empty for a question without them.
        answer: the answer with its steps.
        no_answer: whether no answer could be read from the reply; the hops are unscored for the
            same reason then.
    """
    if not golds:
        return scores
    answers = hop_answers(answer)
    if answers is None:
        return scores
    if no_answer:
        reason = next(iter(scores.unscored.values()), NO_TEXT)
        return scores._replace(unscored=scores.unscored | dict.fromkeys(HOP_OUTPUTS, reason))
    return scores._replace(values=scores.values | score_hops(answers, golds))


def score_hops(answers: Sequence[str], golds: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return `hops_right`, 1 if there are as many answers as hops and each equals an accepted one
    of its hop after normalisation, and `hop_share`, the share of the hops that are right.
    """
    right = [_is_right(*pair) for pair in zip(answers, golds, strict=False)]
    every = len(answers) == len(golds) and all(right)
    return {HOPS_RIGHT: float(every), HOP_SHARE: sum(right) / len(golds)}


def _is_right(answer: str, golds: Sequence[str]) -> bool:
    text = normalise(answer)
    return bool(text) and any(text == normalise(gold) for gold in golds)
