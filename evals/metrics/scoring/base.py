"""The base class of scorers: what a scorer needs from an answer, its outputs, and their
computation.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Literal, NamedTuple

from emend.evals.metrics.scores import (
    NO_BASELINE,
    NO_CHOICES,
    NO_PROBABILITIES,
    NO_RIVAL,
    NO_TEXT,
    AnswerReading,
    ProbeScores,
)
from emend.memory.probe import Answer, Probe

# What a scorer needs to give a value.
#
# `text`: the model's reply; `log_probs`: the log-probabilities of `targets`; `log_probs_or_text`:
# those, or the reply of a model that gives none; `either`: whichever the probe's other scorers ask
# for, and else the reply; `baseline`: the unedited model's answer; `rival`, `choices`: those of the
# probe.
Need = Literal["text", "log_probs", "log_probs_or_text", "either", "baseline", "rival", "choices"]
READS_TEXT = frozenset({"text", "log_probs_or_text", "either"})
PREFERS_LOG_PROBS = frozenset({"log_probs", "log_probs_or_text"})
# Maximum length of a reason, which is repeated in every record.
LONGEST_REASON = 1_000
# Largest value, whose square and sums are finite too.
LARGEST = 1e100
# Distance from 0 or 1 that a share may have by rounding.
ROUNDING = 1e-6
# A value of a scorer: a reading of the answer, a number, or a text with the reason why it is
# unscored.
Value = AnswerReading | float | str
# What a scorer returns: one value, or a value for each output by name.
Result = Value | Mapping[str, Value] | ProbeScores


class Output(NamedTuple):
    """One output (a number) of a scorer.

    Attributes:
        name: key in a record's `values`.
        summary: meaning of the number.
        is_right: whether 1 means that the answer is correct, and 0 that it is wrong.
        higher_is_better: whether higher values are better.
        share: whether the number is a share from 0 to 1, which reports show in percent; any other
            value is unscored.
        protocol: the protocol for reading answers, for outputs that no other protocol replaces.
        reads: the text that the output reads, for which `emend trace` shows the reading; empty if
            it reads no text.
        agrees_with_unedited: whether the unedited model has the best value by definition.
    """

    name: str
    summary: str = ""
    is_right: bool = False
    higher_is_better: bool = True
    share: bool = True
    protocol: str = ""
    agrees_with_unedited: bool = False
    reads: Literal["", "answer", "passage"] = ""


class Scorer(ABC):
    """Base class of scorers; a subclass declares its needs and outputs, and scores one answer.

    Example:
        class Brevity(Scorer): outputs = (Output("words", "words of the answer",
            higher_is_better=False, share=False),)

            def score(self, probe, answer, before): return float(len(answer.text.split()))
    """

    outputs: ClassVar[tuple[Output, ...]]
    needs: ClassVar[tuple[Need, ...]] = ("text",)
    """Anything missing leaves all outputs unscored with a reason, and `score` is not called."""
    protocol: ClassVar[str] = ""
    """Protocol of a built-in scorer that the scorers of other protocols may replace."""
    scores_unedited: ClassVar[bool] = False
    """True if an output is about the unedited model alone, so that an unusable answer leaves it
    scored."""

    @abstractmethod
    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> Result:
        """Return the value of the output, or the values of several outputs by name. A text is the
        reason why a value is unscored; a reading counts as 1 if correct, else 0.

        Args:
            probe: the probe that was asked.
            answer: the edited model's answer; its `log_probs` are those of `targets`.
            before: the unedited model's answer; None if `needs` lacks `baseline`.
        """

    def targets(self, probe: Probe) -> tuple[str, ...]:
        """Return the texts whose log-probabilities are requested: the correct answer and its rival;
        none without a rival.
        """
        if probe.rival is None:
            return ()
        return (probe.gold[0], probe.rival)

    def missing(self, probe: Probe, answer: Answer, before: Answer | None) -> str:
        """Return the reason if something that the scorer needs is missing, else ""."""
        textless = self.requires_text and before is not None and before.text is None
        absent = {
            "rival": (probe.rival is None, NO_RIVAL),
            "choices": (not probe.choices, NO_CHOICES),
            "baseline": (before is None or textless, NO_BASELINE),
            "text": (answer.text is None, NO_TEXT),
            "log_probs": (not answer.log_probs, NO_PROBABILITIES),
        }
        for need, (is_absent, reason) in absent.items():
            if is_absent and need in self.needs:
                return reason
        return ""

    def __call__(self, probe: Probe, answer: Answer, before: Answer | None = None) -> ProbeScores:
        """Score one answer; outputs without a value get a reason."""
        reason = self.missing(probe, answer, before)
        return self._scores(reason or self.score(probe, answer, before))

    def _scores(self, result: Result) -> ProbeScores:
        values, unscored = dict[str, float](), dict[str, str]()
        readings = dict[str, AnswerReading]()
        may_be_empty = isinstance(result, ProbeScores)
        if isinstance(result, ProbeScores):
            unscored |= result.unscored
            readings |= result.readings
            result = result.values
        elif not isinstance(result, Mapping):
            result = dict.fromkeys((output.name for output in self.outputs), result)
        shares = {output.name for output in self.outputs if output.share}
        for name, value in result.items():
            if isinstance(value, AnswerReading):
                values[name], readings[name] = float(value.right), value
            elif isinstance(value, str):
                unscored[name] = value[:LONGEST_REASON] or "the scorer gave no reason"
            elif reason := _refusal(value, name in shares):
                unscored[name] = reason
            else:
                number = float(value)
                values[name] = min(max(number, 0.0), 1.0) if name in shares else number
        has_output = any(
            output.name in values or output.name in unscored for output in self.outputs
        )
        if not (has_output or may_be_empty):
            reason = f"the scorer gave none of its outputs, but {list(result)[:5]}"
            unscored |= {output.name: reason for output in self.outputs}
        return ProbeScores(values, unscored, readings)

    @property
    def reads_text(self) -> bool:
        """True if the scorer reads the reply of a model without probabilities."""
        return not READS_TEXT.isdisjoint(self.needs)

    @property
    def requires_text(self) -> bool:
        """True if the scorer reads the reply even if there are log-probabilities."""
        return "text" in self.needs

    @property
    def prefers_log_probs(self) -> bool:
        """True if the scorer uses log-probabilities if the model supports them."""
        return not PREFERS_LOG_PROBS.isdisjoint(self.needs)

    @property
    def compares(self) -> bool:
        """True if the scorer compares with the unedited model's answer."""
        return "baseline" in self.needs

    @property
    def verdict(self) -> Output | None:
        """The output that says whether the answer is correct; None if there is none."""
        return next((output for output in self.outputs if output.is_right), None)


def _refusal(value: float, is_share: bool) -> str:
    """Return the reason why a number cannot be the value of an output; "" if it can."""
    if not math.isfinite(value):
        return f"the scorer gave {value}, which is not a number"
    if is_share and not -ROUNDING <= value <= 1 + ROUNDING:
        return f"the scorer gave {value:g}, which is not a share from 0 to 1"
    if abs(value) > LARGEST:
        return f"the scorer gave {value:g}, which is too large for a mean"
    return ""


class ReasonedScorer(Scorer):
    """Base class of scorers that return their own reasons for missing inputs."""

    def missing(self, probe: Probe, answer: Answer, before: Answer | None) -> str:
        """Return "": `score` gives the reasons."""
        return ""
