"""Scorers by name: each turns an answer into numbers, or into the reason why a number is missing."""

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from emend.agents.parsing.abstention import abstains
from emend.agents.parsing.passages import without_question
from emend.evals.metrics import paper_scores
from emend.evals.metrics.agents import score_memory
from emend.evals.metrics.recoe import contains_flip, correct_flip, effectiveness
from emend.evals.metrics.scores import (
    NNM_EPS,
    NO_BASELINE,
    NO_PROBABILITIES,
    NO_RIVAL,
    NO_TEXT,
    ProbeScores,
    Scorer,
    difference,
    magnitude,
    original_magnitude,
    original_success,
    score_construction,
    success,
)
from emend.evals.metrics.text import asserts, exact_match, normalise, parse_choice, parse_truth, rouge_l, strict_match
from emend.memory.embeddings.embed import Embedding, load_embedding
from emend.memory.errors import BadSettings, MissingExtra
from emend.memory.probe import Answer, Probe
from emend.memory.registry import nearest


class Ask(NamedTuple):
    """Request to the model for a probe's scorers: a generated text, and the log-probabilities of `targets`."""

    text: bool
    targets: tuple[str, ...]


def _text_scorer(output: str, metric: Callable[[Probe, Answer, str], float | str]) -> Scorer:
    """A scorer of one output that needs a text; the metric gives a number, or the reason why there is none."""

    def scorer(probe: Probe, answer: Answer, before: Answer | None) -> ProbeScores:
        value = NO_TEXT if answer.text is None else metric(probe, answer, answer.text)
        return ProbeScores({}, {output: value}) if isinstance(value, str) else ProbeScores({output: value}, {})

    return scorer


def _likelihood_scorer(**outputs: Callable[[float, float], float]) -> Scorer:
    """A scorer by the log-probabilities of the gold answer and the rival, in that order."""

    def scorer(probe: Probe, answer: Answer, before: Answer | None) -> ProbeScores:
        gold, rival, why = _pair(probe, answer)
        if why:
            return ProbeScores({}, dict.fromkeys(outputs, why))
        return ProbeScores({name: metric(gold, rival) for name, metric in outputs.items()}, {})

    return scorer


def score_teacher_forced(probe: Probe, answer: Answer, before: Answer | None) -> ProbeScores:
    """`token_accuracy`: share of the gold answer's tokens that are the most probable ones after the tokens before.

    EasyEdit's accuracy (Wang et al. 2024), in which the model is given the right tokens so far and not its own.
    """
    if not answer.log_probs:
        return ProbeScores({}, {"token_accuracy": NO_PROBABILITIES})
    if not answer.greedy_tokens:
        return ProbeScores({}, {"token_accuracy": "the model does not say which tokens are the most probable ones"})
    return ProbeScores({"token_accuracy": answer.greedy_tokens[0] / answer.target_tokens[0]}, {})


def score_wrong_before(probe: Probe, answer: Answer, before: Answer | None) -> ProbeScores:
    """`right_before`: 1.0 when the unedited model's answer is right by the first protocol of the probe's that says so.

    A magnitude says it by its sign, a token accuracy by 1.
    """
    if before is None:
        return ProbeScores({}, {"right_before": NO_BASELINE})
    others = probe.model_copy(update={"scorers": tuple(name for name in probe.scorers if name in RIGHT)})
    for name, value in score(others, before).values.items():
        if name in RIGHT_OUTPUTS:
            return ProbeScores({"right_before": float(value == 1.0)}, {})
    return ProbeScores({}, {"right_before": f"the unedited model: {NO_TEXT}"})


def _contains(probe: Probe, answer: Answer, text: str) -> float:
    """1.0 when the passage that answers asserts a gold answer as whole words, and no rival or other choice.

    An answer that is a gold one, such as a text of several sentences, contains it whatever its sentences deny.
    """
    return float(exact_match(text, probe.gold) or _names_gold(probe, _passage(answer)))


def _passage(answer: Answer) -> str:
    return (answer.text or "") if answer.passage is None else answer.passage


def _names_gold(probe: Probe, passage: str) -> bool:
    """Return whether a passage asserts a gold answer by the rule of `contains`; False for a probe without one."""
    golds = [gold for gold in probe.gold if gold]
    rivals = [name for name in (probe.rival, *probe.choices) if name]
    return bool(golds) and asserts(passage, golds, rivals, probe.prompt)


def _similarity(probe: Probe, answer: Answer, text: str) -> float | str:
    """The highest cosine of the answer and a gold one by all-MiniLM-L6-v2, as UnKEBench's BERT score."""
    try:
        first, *others = _encoder().documents([text, *probe.gold])  # unit vectors
    except MissingExtra as error:
        return str(error)
    return float(max(first @ other for other in others))


@cache
def _encoder() -> Embedding:
    return load_embedding("minilm")


def _abstains(probe: Probe, answer: Answer, text: str) -> float:
    """1.0 when the passage that answers says that the answer is not known or stated, and gives none all the same."""
    return float(abstains(_passage(answer), probe.prompt))


def _strict(probe: Probe, answer: Answer, text: str) -> float:
    """1.0 when the answer, with its final full stop if it has one, is a gold answer letter by letter."""
    return strict_match(answer.exact_text or text, probe.gold)


def _choice(probe: Probe, answer: Answer, text: str) -> float | str:
    """1.0 when the one choice that the text names is the gold one; no number when it names none or several."""
    golds = {normalise(gold) for gold in probe.gold}
    if not any(normalise(choice) in golds for choice in probe.choices):
        return f"gold '{probe.gold[0]}' is none of the choices"
    named, why = parse_choice(text, probe.choices)
    return why if named is None else float(normalise(named) in golds)


def score_likelihood_code(probe: Probe, answer: Answer, before: Answer | None) -> ProbeScores:
    """`success_code` and `magnitude_code`: as `likelihood`, computed as in DocTER's released code.

    No output where there is nothing to compare; the scorer `likelihood` gives the reason.
    """
    gold, rival, why = _pair(probe, answer)
    if why:
        return ProbeScores({}, {})
    eps = 0.0 if probe.in_scope else NNM_EPS
    return ProbeScores(
        {"success_code": original_success(gold, rival), "magnitude_code": original_magnitude(gold, rival, eps)}, {}
    )


def score_per_token(probe: Probe, answer: Answer, before: Answer | None) -> ProbeScores:
    """`success_token` and `difference_token`: CounterFact's, by the geometric mean of the tokens' probabilities."""
    why = _pair(probe, answer)[2]
    means, uncounted = paper_scores.per_token(answer)
    if why or uncounted:
        return ProbeScores({}, dict.fromkeys(("success_token", "difference_token"), why or uncounted))
    return ProbeScores({"success_token": success(*means[:2]), "difference_token": difference(*means[:2])}, {})


def score_agreement(probe: Probe, answer: Answer, before: Answer | None) -> ProbeScores:
    """`agreement`: 1.0 when the edited model answers as the unedited one.

    Texts are the same if equal after normalisation, if both assert the gold answer by the rule of `contains`, or, for a
    probe without gold, if their passages are equal without the question that they say again; without texts, whether
    the same one of gold and rival is more probable.
    """
    if before is None:
        return ProbeScores({}, {"agreement": NO_BASELINE})
    if None in (answer.text, before.text) and not (answer.log_probs or before.log_probs):
        return ProbeScores({}, {"agreement": NO_TEXT})
    if answer.text is not None and before.text is not None:
        same = normalise(answer.text) == normalise(before.text) or _same_passage(probe, answer, before)
        return ProbeScores({"agreement": float(same)}, {})
    now_gold, now_rival, why = _pair(probe, answer)
    then_gold, then_rival, why_before = _pair(probe, before)
    if why or why_before:
        return ProbeScores({}, {"agreement": why or f"unedited model: {why_before}"})
    same = _order(now_gold, now_rival) == _order(then_gold, then_rival)
    return ProbeScores({"agreement": float(same)}, {})


def _same_passage(probe: Probe, answer: Answer, before: Answer) -> bool:
    """Return whether the passages of two answers say the same to a reader who looks for the answer only."""
    now, then = _passage(answer), _passage(before)
    if any(probe.gold):
        return _names_gold(probe, now) and _names_gold(probe, then)
    now, then = (normalise(" ".join(without_question(text, probe.prompt).split())) for text in (now, then))
    return bool(now) and now == then


def score_reasoning(probe: Probe, answer: Answer, before: Answer | None) -> ProbeScores:
    """`acc` of a yes/no question as DocTER scores it: the gold one of " true" and " false" is strictly more probable.

    A tie is the code's UNK, which is not correct. The whole word's joint probability is taken where the code takes the
    word's first token; for tokenizers that have both words as one token they are equal. For a model without
    probabilities the text is read instead, `yes` and `no` too (how DocTER read ChatGPT's replies is not published).
    Further outputs: `acc_true` or `acc_false`, the accuracy within the label's own block, and `constant`, the score of
    a model that always says true, because the data's blocks differ in size.
    """
    outputs = ("acc", f"acc_{probe.gold[0]}")
    if not answer.log_probs and answer.text is not None:
        verdict, why = parse_truth(answer.text)
        value = float(verdict == probe.gold[0])
    else:
        gold, rival, why = _pair(probe, answer)
        value = success(gold, rival)
    if why:
        return ProbeScores({}, dict.fromkeys(outputs, why))
    return ProbeScores(dict.fromkeys(outputs, value) | {"constant": float(probe.gold[0] == "true")}, {})


def _awaiting(probe: Probe, answer: Answer, text: str) -> str:
    """No number until a judge has read the answer (out of scope: beside the unedited answer)."""
    return "awaits a judge"


def score_generation(probe: Probe, answer: Answer, before: Answer | None) -> ProbeScores:
    """`generated`, for a model without probabilities: the reply's first line names the gold answer and not its rival.

    A reply that names neither, or both, fails, as a tie of probabilities does. Where there are probabilities nothing is
    scored: there their comparison is the measure.
    """
    if answer.log_probs:
        return ProbeScores({}, {})
    if answer.text is None or probe.rival is None:
        return ProbeScores({}, {"generated": NO_TEXT if answer.text is None else NO_RIVAL})
    named, _ = parse_choice(answer.text, (probe.gold[0], probe.rival))
    return ProbeScores({"generated": float(named == probe.gold[0])}, {})


SCORERS: dict[str, Scorer] = {
    "exact_match": _text_scorer("em", lambda probe, _, text: exact_match(text, probe.gold)),
    "strict_match": _text_scorer("strict", _strict),
    "contains": _text_scorer("contains", _contains),
    "rouge_l": _text_scorer("rouge_l", lambda probe, _, text: max(rouge_l(text, gold) for gold in probe.gold)),
    "similarity": _text_scorer("similarity", _similarity),
    "choice": _text_scorer("choice", _choice),
    "abstention": _text_scorer("abstains", _abstains),
    "likelihood": _likelihood_scorer(success=success, magnitude=magnitude),
    "teacher_forced": score_teacher_forced,
    "equivalence": _text_scorer("equivalent", _awaiting),
    "wrong_before": score_wrong_before,
    "likelihood_code": score_likelihood_code,
    "difference": _likelihood_scorer(difference=difference),
    "per_token": score_per_token,
    "fluency": _text_scorer("fluency", lambda probe, _, text: paper_scores.fluency(f"{probe.prompt} {text}")),
    "agreement": score_agreement,
    "reasoning": score_reasoning,
    "elken_fact": paper_scores.score_elken_fact,
    "elken_fact_same": paper_scores.score_elken_fact_same,
    "elken_option": paper_scores.score_elken_option,
    "elken_option_same": paper_scores.score_elken_option_same,
    "correct_flip": correct_flip,
    "contains_flip": contains_flip,
    "effectiveness": effectiveness,
    "judged": _text_scorer("judged", _awaiting),
    "judged_same": _text_scorer("judged", _awaiting),
    "generation": score_generation,
    "construction": score_construction,
    "memory": score_memory,
}

COMPARED = frozenset(
    {
        "agreement",
        "contains_flip",
        "correct_flip",
        "effectiveness",
        "elken_fact_same",
        "elken_option_same",
        "judged_same",
        "wrong_before",
    }
)
"""Scorers that compare with the unedited model's answer to the same probe."""
SCORE_BASELINE = frozenset({"contains_flip", "correct_flip", "effectiveness"})
"""Scorers among them that also score the unedited model alone, whatever the edited one answers."""
RIGHT = ("exact_match", "elken_fact", "contains", "likelihood", "per_token", "teacher_forced", "choice", "reasoning")
RIGHT_OUTPUTS = ("em", "right", "contains", "success", "success_token", "token_accuracy", "choice", "acc")
"""Scorers that say whether an answer is right, and their outputs that do."""
_NEED_PROBABILITIES = {"likelihood", "likelihood_code", "difference", "per_token", "teacher_forced"}
"""Scorers that compare the probabilities of gold and rival, and are unscored without."""
_PREFER_PROBABILITIES = {*_NEED_PROBABILITIES, "reasoning"}
_EITHER = {"generation", "agreement", "wrong_before"}
"""Scorers that read the text, or the probabilities where no other scorer needs a text."""


def ask_of(probe: Probe, scorable: bool) -> Ask:
    """Return the request that gives the probe's scorers what they need, and no more.

    Args:
        probe: the probe; targets are its gold answer and its rival, in this order, or for `effectiveness` all gold
            facts and then all of `choices`.
        scorable: whether the model gives probabilities; without them `reasoning` and `generation` read the text, and
            `likelihood` and `effectiveness` stay unscored.

    Raises:
        BadSettings: a scorer's name is unknown.
    """
    for name in probe.scorers:
        _scorer(name)
    names = set(probe.scorers)
    if scorable and "effectiveness" in names:
        return Ask(False, (*probe.gold, *probe.choices))
    pair = (probe.gold[0], *(() if probe.rival is None else (probe.rival,)))
    if scorable and names & (_PREFER_PROBABILITIES if probe.rival is not None else {"teacher_forced"}):
        return Ask(bool(names - _PREFER_PROBABILITIES - _EITHER), pair)
    return Ask(bool(names - {*_NEED_PROBABILITIES, "effectiveness"}), ())


def score(probe: Probe, answer: Answer, before: Answer | None = None) -> ProbeScores:
    """Run all scorers of the probe on one answer.

    Raises:
        BadSettings: a scorer's name is unknown.
    """
    total = ProbeScores({}, {})
    for name in probe.scorers:
        values, unscored = _scorer(name)(probe, answer, before)
        total.values.update(values)
        total.unscored.update(unscored)
    return total


def _scorer(name: str) -> Scorer:
    if name not in SCORERS:
        raise BadSettings(f"unknown scorer '{name}': {nearest(name, list(SCORERS))}")
    return SCORERS[name]


def without_blank(answer: Answer) -> Answer:
    """The answer, without a text where that is blank: it says nothing, whoever the model is."""
    return (
        answer if answer.text is None or answer.text.strip() else answer.but(text=None, exact_text=None, passage=None)
    )


def _pair(probe: Probe, answer: Answer) -> tuple[float, float, str]:
    """Return the log-probabilities of gold and rival, and the reason if they are missing ("" if not)."""
    if probe.rival is None:
        return 0.0, 0.0, NO_RIVAL
    if not answer.log_probs:
        return 0.0, 0.0, NO_PROBABILITIES
    if len(answer.log_probs) < 2:
        return 0.0, 0.0, f"two log-probabilities expected, {len(answer.log_probs)} came"
    gold, rival = answer.log_probs[:2]
    if math.isnan(gold) or math.isnan(rival):
        return 0.0, 0.0, "a log-probability is not a number"
    return min(gold, 0.0), min(rival, 0.0), ""  # rounding may leave a certain answer a hair above 0


def _order(gold: float, rival: float) -> int:
    return (gold > rival) - (gold < rival)
