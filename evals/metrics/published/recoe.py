"""ReCoE's scores: exact match, the named option, correct_flip, and perplexities of facts.

The definitions are in section 3.1 of arXiv 2401.17585. The paper says "exact match" and publishes
no code, so that the normalisation is ours: `text.normalise`, aliases, numbers in words or digits
alike, and one notation of lists. Our choices about perplexity are described in `Effectiveness`.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from difflib import SequenceMatcher
from functools import lru_cache

from emend.agents.parsing.passages import sentences
from emend.evals.metrics.scores import NO_BASELINE, NO_TEXT, AnswerReading, ProbeScores
from emend.evals.metrics.scoring.base import Output, ReasonedScorer
from emend.evals.metrics.text.contains import read_contains
from emend.evals.metrics.text.exact import normalise
from emend.memory.probe import Answer, Probe
from emend.memory.retrieval.tokens import whole
from emend.memory.typography import fold_typography
from emend.memory.values.text import value_text

# Replaces a list of options that the reply repeats.
_LISTED = "\N{HORIZONTAL ELLIPSIS}"
_PAIR = re.compile(r" and | or ")
_NAME = re.compile(r"(?<=\s)[A-Z][\w'-]*")
_GLUE = re.compile(r"\s*(?:,|,? and |,? or |&)\s*$")
_AND = re.compile(r",?\s*(?:and|or|&)\s+$")
_BULLETS = "-*\u2022 0123456789.)"


def read_option(
    passage: str, golds: Sequence[str], rivals: Iterable[str], question: str
) -> AnswerReading:
    """Return whether a passage names a gold answer as its answer, by the rules of `contains`.

    A repeated list of options ("Which of Anguilla, Kosovo and Sudan has ...") is not an answer. If
    the question itself names the gold answer among others, the gold must be the first of these
    names in the passage, must not be joined with another one, and the passage must not discuss the
    options one by one.
    """
    rivals = list(rivals)
    rest = _without_list(passage, question, [*golds, *rivals])
    reading = read_contains(rest, golds, rivals, question)
    if not reading.right or not any(whole(gold).search(question) for gold in golds):
        return reading
    start, end = min(
        (hit.span() for gold in golds for hit in whole(gold).finditer(rest)), default=(0, 0)
    )
    words = {word for gold in golds for word in gold.split()}
    others = {name for name in _NAME.findall(question) if name not in words}
    places = [hit.start() for name in others for hit in whole(name).finditer(rest)]
    places += [
        hit.start() for hit in re.finditer(_LISTED, rest) if _AND.match(rest[hit.end() : start])
    ]
    if any(place < start or _GLUE.match(rest[end:place]) for place in places):
        return reading._replace(right=False, rule="another option comes before it or beside it")
    starts = {
        name
        for line in sentences(rest)
        for name in (*others, *golds)
        if line.lstrip(_BULLETS).startswith(name)
    }
    if len(starts) > 1:
        return reading._replace(right=False, rule="the options are gone through one by one")
    return reading


def _without_list(passage: str, question: str, names: Sequence[str]) -> str:
    """Return the passage with a placeholder for the options it repeats from the question.

    If the question's list has commas, the repeated one must have some too, since names may contain
    "and" (Bosnia and Herzegovina).
    """
    reply, listed = (
        re.sub(r", (and|or) ", r" \1 ", fold_typography(text)) for text in (passage, question)
    )
    match = SequenceMatcher(None, reply, listed, autojunk=False).find_longest_match()
    shared = reply[match.a : match.a + match.size]
    between = shared
    for name in names:
        between = between.replace(name, "")
    is_list = "," in between if "," in listed else bool(_PAIR.search(between))
    if is_list:
        return reply.replace(shared, f" {_LISTED} ")
    return reply


OUTPUTS = ("pre_edit", "correct_flip")
# Counterparts of `OUTPUTS` by the rule of `contains`.
CONTAINS_OUTPUTS = ("pre_edit_contains", "correct_flip_contains")
# `correct_flip` over the records that no other record contradicts.
CLEAN = "correct_flip_clean"
EFFECTIVE = "effective"

_SIGN = re.compile(r"^[-\u2212] (?=\w)")
_BETWEEN = re.compile(r"\s*[,;]\s*(?:and\s+)?|\s+and\s+")


def number(text: str) -> int | None:
    """Parse a whole number in digits or in English words; None for other text.

    >>> number("minus twenty-one"), number("1,204"), number("two moons")
    (-21, 1204, None)
    """
    tokens = value_text(_SIGN.sub("-", text.strip())).tokens
    is_number = len(tokens) == 1 and tokens[0].kind == "number" and "." not in tokens[0].form
    if is_number:
        return int(tokens[0].form)
    return None


@lru_cache(maxsize=65536)
def canonical(text: str) -> str:
    """Return the canonical form of an answer.

    A number becomes digits, a list its items, and any other text is normalised.

    >>> canonical("Negative three."), canonical("The Alps; Ural, and Jura"), canonical("Yes.")
    ('-3', 'alps, ural, jura', 'yes')
    """
    line = normalise(text)
    if (value := number(line)) is not None:
        return str(value)
    return ", ".join(item for part in _BETWEEN.split(line) if (item := normalise(part)))


def matches(reply: str, answers: Iterable[str]) -> bool:
    """Return whether the reply is one of the answers; an empty reply is not."""
    form = canonical(reply)
    return bool(form) and any(form == canonical(answer) for answer in answers)


def read_match(reply: str, answers: Iterable[str]) -> AnswerReading:
    """Return whether the reply is one of the answers, with the rule that decided."""
    if matches(reply, answers):
        return AnswerReading(True, canonical(reply), "the first line is one of the answers")
    return AnswerReading(False, canonical(reply), "the first line is another text")


def shared_forms(answers: Iterable[str], others: Iterable[str]) -> set[str]:
    """Return the canonical forms that both sets of answers share, such as "3" for -3 and for 3.

    A reply in such a form cannot be attributed to one of the sets.
    """
    return {canonical(answer) for answer in answers} & {canonical(answer) for answer in others}


def originals(probe: Probe) -> tuple[str, ...]:
    """Return the original answer, which is the probe's rival, and its aliases."""
    if probe.rival is not None:
        return (probe.rival, *probe.rival_aliases)
    return probe.rival_aliases


class CorrectFlip(ReasonedScorer):
    """Scorer of edits that flip a correct original answer to the new answer.

    `pre_edit` says whether the unedited model gave the original answer, and `correct_flip` whether
    the edited one gives the new answer. As in the paper, `correct_flip` is computed over the probes
    that the unedited model answered correctly; others are unscored with the reason. A probe is also
    unscored if the two answers share a canonical form, since it cannot show a flip. For a probe
    without the tag `contested`, `correct_flip_clean` repeats the value.
    """

    outputs = (
        Output("pre_edit", protocol="exact"),
        Output("correct_flip", protocol="exact", reads="answer"),
        Output(CLEAN, protocol="exact"),
    )
    needs = ("text", "baseline")
    scores_unedited = True

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> ProbeScores:
        """Look at both answers."""
        scores = _flip(
            probe,
            answer,
            before,
            OUTPUTS,
            lambda text, golds, _: read_match(text.text or "", golds),
        )
        if not probe.tags.get("contested"):
            if "correct_flip" in scores.values:
                scores.values[CLEAN] = scores.values["correct_flip"]
            if "correct_flip" in scores.unscored:
                scores.unscored[CLEAN] = scores.unscored["correct_flip"]
        return scores


class ContainsFlip(ReasonedScorer):
    """`pre_edit_contains` and `correct_flip_contains`: the flip by the rule of `contains`.

    Chat models answer in sentences, which the paper's exact match never counts as right.
    """

    outputs = (
        Output("pre_edit_contains", protocol="contains"),
        Output("correct_flip_contains", protocol="contains", reads="passage"),
    )
    needs = ("text", "baseline")
    scores_unedited = True

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> ProbeScores:
        """Look at both answers."""

        def read(reply: Answer, golds: Sequence[str], rivals: Sequence[str]) -> AnswerReading:
            passage = (reply.text or "") if reply.passage is None else reply.passage
            whole_line = read_match(reply.text or "", golds)
            if whole_line.right:
                return whole_line
            return read_option(passage, golds, rivals, probe.prompt)

        return _flip(probe, answer, before, CONTAINS_OUTPUTS, read)


def _flip(
    probe: Probe,
    answer: Answer,
    before: Answer | None,
    outputs: tuple[str, str],
    read: Callable[[Answer, Sequence[str], Sequence[str]], AnswerReading],
) -> ProbeScores:
    """Compute both outputs; `read` decides whether a reply gives an answer and no rival."""
    known, flip = outputs
    if before is None or before.text is None:
        reason = NO_BASELINE if before is None else f"{NO_BASELINE} for text"
        return ProbeScores({}, dict.fromkeys(outputs, reason))
    right = read(before, originals(probe), probe.gold).right
    values = {known: float(right)}
    if not right:
        return ProbeScores(values, {flip: "the unedited model did not give the original answer"})
    if answer.text is None:
        return ProbeScores(values, {flip: NO_TEXT})
    if shared := shared_forms(probe.gold, originals(probe)):
        reason = f"'{min(shared)}' stands for both the original and the new answer"
        return ProbeScores(values, {flip: reason})
    reading = read(answer, probe.gold, originals(probe))
    return ProbeScores(values | {flip: float(reading.right)}, {}, {flip: reading})


def indicator(before: float, after: float) -> bool:
    """Return whether an edit was effective: min(before, 0) > after (Eq. 1).

    Both values are PPL(counterfactuals) - PPL(facts).

    >>> indicator(4.8, -2.4), indicator(4.8, 1.0), indicator(-5.9, -3.0), indicator(-1.0, -1.0)
    (True, False, False, False)
    """
    return min(before, 0.0) > after


class Effectiveness(ReasonedScorer):
    """The mean perplexities of facts and counterfactuals, and the indicator `effective`.

    The perplexities are computed before and after the edit. The paper does not define "perplexity
    of facts". Here it is exp of the mean negative log-probability (natural log) per token of each
    atomic fact, under the prompt with which the editor would answer (empty for an editor that shows
    nothing), averaged over the facts. `gold` of a probe holds the counterfactuals, and `choices`
    the facts that they replace.
    """

    outputs = (
        Output(EFFECTIVE, protocol="likelihood"),
        Output("ppl_counter_before", higher_is_better=False, share=False),
        Output("ppl_fact_before", higher_is_better=False, share=False),
        Output("ppl_counter", higher_is_better=False, share=False),
        Output("ppl_fact", share=False),
    )
    needs = ("log_probs", "baseline")
    scores_unedited = True

    def targets(self, probe: Probe) -> tuple[str, ...]:
        """All gold facts, and then the facts that they replace."""
        return (*probe.gold, *probe.choices)

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> ProbeScores:
        """Compute the perplexities."""
        values: dict[str, float] = {}
        unscored: dict[str, str] = {}
        sides = ((before, "_before", "the unedited model"), (answer, "", "the model"))
        for reply, when, who in sides:
            means, reason = _perplexities(reply, len(probe.gold), len(probe.choices), who)
            names = (f"ppl_counter{when}", f"ppl_fact{when}")
            values |= dict(zip(names, means, strict=True)) if not reason else {}
            unscored |= dict.fromkeys(names, reason) if reason else {}
        if unscored:
            return ProbeScores(values, unscored | {EFFECTIVE: next(iter(unscored.values()))})
        gaps = [values[f"ppl_counter{when}"] - values[f"ppl_fact{when}"] for _, when, _ in sides]
        return ProbeScores(values | {EFFECTIVE: float(indicator(*gaps))}, {})


def _perplexities(
    answer: Answer | None, golds: int, others: int, who: str
) -> tuple[tuple[float, float], str]:
    """Return the mean perplexities of the first targets and of the rest, and why they are missing.

    The reason is "" if they are not missing.
    """
    none = (0.0, 0.0)
    if answer is None:
        return none, f"{who} was not asked"
    if not answer.log_probs:
        return none, f"{who} gives no probabilities"
    if not len(answer.log_probs) == len(answer.target_tokens) == golds + others:
        return none, f"{who} does not report how many tokens each fact has"
    losses = [-min(p, 0.0) / n for p, n in zip(answer.log_probs, answer.target_tokens, strict=True)]
    if not all(loss < _LARGEST for loss in losses):  # also False for NaN
        return none, f"{who} gives a fact probability 0, so its perplexity is not finite"
    perplexities = [math.exp(loss) for loss in losses]
    return (math.fsum(perplexities[:golds]) / golds, math.fsum(perplexities[golds:]) / others), ""


_LARGEST = 700.0  # exp of more overflows a float
