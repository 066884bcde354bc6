"""Scorers of replies: by match, by what a passage asserts, by equivalence and by nearness."""

from functools import cache
from typing import TYPE_CHECKING

from emend.evals.metrics.scores import NO_RIVAL, NO_TEXT, AnswerReading, ProbeScores
from emend.evals.metrics.scoring.base import Output, ReasonedScorer, Result, Scorer
from emend.evals.metrics.text.choices import parse_choice
from emend.evals.metrics.text.contains import read_abstention, read_all_parts, read_contains
from emend.evals.metrics.text.exact import (
    normalise,
    read_exact,
    read_strict,
    rouge_l,
)
from emend.evals.metrics.text.rouge_recall import rouge_recall
from emend.memory.errors import BadSettings, MissingExtra
from emend.memory.probe import Answer, Probe

if TYPE_CHECKING:
    from emend.evals.metrics.equivalence.scorer import EquivalenceScorer
    from emend.memory.embeddings.embed import Embedding

# Bound of the band on each side of the threshold of `equivalence` within which answers are
# unscored.
LARGEST_BAND = 0.5


def passage_of(answer: Answer) -> str:
    """Return the sentences of a reply that answer."""
    if answer.passage is None:
        return answer.text or ""
    return answer.passage


def read_passage_for(probe: Probe, passage: str) -> AnswerReading:
    """Return whether a passage asserts a gold answer, or each of them where the probe wants all, by
    the rules of `contains`.
    """
    golds, rivals = golds_of(probe), rivals_of(probe)
    if not golds:
        return AnswerReading(False, "", "the probe has no gold answer")
    if not probe.all_golds:
        return read_contains(passage, golds, rivals, probe.prompt)
    return read_all_parts(passage, golds, rivals, probe.prompt)


def golds_of(probe: Probe) -> list[str]:
    """Return the right answers of a probe that are texts."""
    return [gold for gold in probe.gold if gold]


def _has_several_parts(probe: Probe) -> bool:
    """Return whether a right answer is several golds together."""
    return probe.all_golds and len(probe.gold) > 1


def rivals_of(probe: Probe) -> list[str]:
    """Return the wrong answers that a probe names: its rival and its choices."""
    return [name for name in (probe.rival, *probe.choices) if name]


class ExactMatch(Scorer):
    """1.0 when the normalised answer is a gold one."""

    outputs = (Output("em", is_right=True, reads="answer"),)
    protocol = "exact"

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> Result:
        """Compare the answer with the gold ones."""
        return read_exact(answer.text or "", probe.gold)


class ValueMatch(Scorer):
    """1.0 when the answer and a gold one are one value: a number, a date, a name."""

    outputs = (Output("em", is_right=True, reads="answer"),)
    protocol = "exact"

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> Result:
        """Compare the values."""
        return read_exact(answer.text or "", probe.gold, as_values=True)


class StrictMatch(Scorer):
    """1.0 when the answer, with its final full stop if it has one, is a gold answer letter by
    letter.
    """

    outputs = (Output("strict", reads="answer"),)
    protocol = "exact"

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> Result:
        """Compare the texts."""
        return read_strict(answer.exact_text or answer.text or "", probe.gold)


class Contains(Scorer):
    """1.0 when the passage that answers asserts a gold answer as whole words, and no rival or other
    choice.

    An answer that is a gold one, such as a text of several sentences, contains it whatever its
    sentences deny.
    """

    outputs = (Output("contains", is_right=True, reads="passage"),)
    protocol = "contains"

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> Result:
        """Read the passage."""
        whole = read_exact(answer.text or "", probe.gold)
        if whole.right and not _has_several_parts(probe):
            return whole
        return read_passage_for(probe, passage_of(answer))


class RougeL(Scorer):
    """Longest common subsequence of words with the nearest gold text, as F1."""

    outputs = (Output("rouge_l"),)
    protocol = "rouge_l"

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> Result:
        """Compare with each gold text."""
        return max(rouge_l(answer.text or "", gold) for gold in probe.gold)


class RougeRecall(Scorer):
    """Recall of the nearest gold text by ROUGE-L, as UnKEBench publishes it."""

    outputs = (Output("rouge_recall"),)
    protocol = "rouge_recall"

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> Result:
        """Compare with each gold text."""
        return max(rouge_recall(answer.text or "", gold) for gold in probe.gold)


class Similarity(Scorer):
    """The highest cosine of the answer and a gold one by all-MiniLM-L6-v2, as UnKEBench's BERT
    score.
    """

    outputs = (Output("similarity"),)
    protocol = "similarity"

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> Result:
        """Encode the texts."""
        try:
            first, *others = _encoder().documents([answer.text or "", *probe.gold])  # unit vectors
        except MissingExtra as error:
            return str(error)
        return float(max(first @ other for other in others))


class EquivalentAnswer(Scorer):
    """1.0 when the trained scorer finds that the passage means a gold answer, and it gives no
    rival.

    Args:
        band: half the width of the probabilities around the threshold that are left unscored.

    Raises:
        BadSettings: the band is not a number from 0 to below 0.5.
    """

    outputs = (Output("equivalence", is_right=True, reads="passage"),)
    protocol = "equivalence"

    def __init__(self, band: str = "0") -> None:
        if not is_band(band):
            raise BadSettings(
                f"equivalence:{band}: give a band from 0 to below 0.5, such as equivalence:0.1."
            )
        self.band = float(band)

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> Result:
        """Return the verdict; the reason where the probability is within the band."""
        from emend.evals.metrics.equivalence.scorer import THRESHOLD, decide  # lazily: numpy

        golds = golds_of(probe)
        if not golds:
            return "the probe has no gold answer"
        whole = read_exact(answer.text or "", golds)
        if whole.right and not _has_several_parts(probe):
            return whole
        if probe.all_golds:
            golds = [", ".join(golds)]
        scorer = _equivalence_scorer()
        probability = scorer.probability(probe.prompt, golds, passage_of(answer), rivals_of(probe))
        verdict = decide(probability, band=self.band)
        rule = f"probability {probability:.2f}, threshold {THRESHOLD:.2f}"
        if verdict is None:
            return f"equivalence is undecided: {rule}"
        if probability == 0.0:
            rule = "nothing is said, or a rival"
        return AnswerReading(verdict, "", rule)


def is_band(text: str) -> bool:
    """Return whether a text is a band of `equivalence`."""
    try:
        return 0 <= float(text) < LARGEST_BAND
    except ValueError:
        return False


@cache
def _equivalence_scorer() -> "EquivalenceScorer":
    from emend.evals.metrics.equivalence.scorer import load_equivalence  # lazily: numpy

    try:
        return load_equivalence(_encoder())
    except MissingExtra:
        return load_equivalence()


@cache
def _encoder() -> "Embedding":
    from emend.memory.embeddings.embed import load_embedding  # lazily: numpy

    return load_embedding("cut:minilm")  # as UnKEBench's code has it


class Choice(Scorer):
    """1.0 when the one choice that the text names is the gold one; no number when it names none or
    several.
    """

    outputs = (Output("choice", is_right=True, protocol="exact", reads="answer"),)

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> Result:
        """Find the choice that is named."""
        golds = {normalise(gold) for gold in probe.gold}
        if not any(normalise(choice) in golds for choice in probe.choices):
            return f"gold '{probe.gold[0]}' is none of the choices"
        named, rule = parse_choice(answer.text or "", probe.choices, probe.prompt)
        if named is None:
            return rule
        return AnswerReading(normalise(named) in golds, named, rule)


class Abstention(Scorer):
    """1.0 when the passage that answers says that the answer is not known or stated, and gives none
    all the same.
    """

    outputs = (Output("abstains", reads="passage"),)

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> Result:
        """Read the passage."""
        return read_abstention(passage_of(answer), probe.prompt)


class Fluency(Scorer):
    """CounterFact's fluency: weighted entropy of the bigrams and trigrams of prompt and reply."""

    outputs = (Output("fluency", share=False),)

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> Result:
        """Compute the entropy."""
        from emend.evals.metrics.published.counterfact import fluency

        return fluency(f"{probe.prompt} {answer.text}")


class Generation(ReasonedScorer):
    """`generated`, for a model without probabilities: the reply's first line names the gold answer
    and not its rival.

    A reply that names neither, or both, fails, as a tie of probabilities does. Where there are
    probabilities nothing is scored: there their comparison is the measure.
    """

    outputs = (Output("generated", protocol="contains", reads="answer"),)
    needs = ("either",)

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> Result:
        """Find the answer that is named."""
        if answer.log_probs:
            return ProbeScores({}, {})
        if answer.text is None or probe.rival is None:
            if answer.text is None:
                return NO_TEXT
            return NO_RIVAL
        named, rule = parse_choice(answer.text, (probe.gold[0], probe.rival))
        return AnswerReading(named == probe.gold[0], named or "", rule)


class Judged(Scorer):
    """No number until a judge has read the answer."""

    outputs = (Output("judged", protocol="judge"),)

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> Result:
        """Wait for the judge."""
        return "awaits a judge"


class JudgedSame(Judged):
    """No number until a judge has read the answer beside the unedited model's."""

    needs = ("text", "baseline")

    def missing(self, probe: Probe, answer: Answer, before: Answer | None) -> str:
        """Return the reason if there is no text: the judge looks for the other answer itself."""
        if answer.text is None:
            return NO_TEXT
        return ""


class JudgedEquivalence(Judged):
    """No number until a judge has said whether the answer means the right one."""

    outputs = (Output("equivalent", is_right=True),)
    protocol = "judge"
