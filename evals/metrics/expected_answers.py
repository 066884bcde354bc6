"""Scores of answers with known correct and wrong texts, and of the context that a memory recalled
for them.
"""

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from emend.evals.metrics.scores import NO_TEXT, AnswerReading, ProbeScores
from emend.evals.metrics.text.contains import (
    asserts,
    read_abstention,
    read_all_parts,
    read_contains,
)
from emend.memory.probe import Answer
from emend.memory.retrieval.tokens import whole
from emend.memory.typography import fold_typography

# Gold answer of a question that should not be answered.
UNKNOWN = "unknown"
PLANTED = ("{}", "It is {}.", "The answer is {}.")
# Number of planted wrong answers per question.
MAX_PLANTED = 4
BYTES_PER_TOKEN = 4


def count_tokens(text: str) -> int:
    """Return the approximate number of tokens of a text, independent of the model: one per four
    bytes, rounded up.
    """
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


class WrongText(NamedTuple):
    """A wrong answer, and the reason why a system may give it."""

    value: str
    reason: str = "other"


class ExpectedAnswer(NamedTuple):
    """Correct and wrong answers to a question.

    Attributes:
        prompt: the exact prompt.
        gold: correct answers; with `names_all`, the parts of the single correct answer.
        wrong: known wrong answers.
        abstains: whether abstaining is correct.
        names_all: whether the answer must name all gold items.
        all_golds: whether the answer must assert all parts of gold, see `Probe.all_golds`.
    """

    prompt: str
    gold: tuple[str, ...]
    wrong: tuple[WrongText, ...] = ()
    abstains: bool = False
    names_all: bool = False
    all_golds: bool = False

    @property
    def wrong_values(self) -> tuple[str, ...]:
        """The texts of the wrong answers."""
        return tuple(wrong.value for wrong in self.wrong)

    def read(self, text: str) -> AnswerReading:
        """Return whether a text is correct, with the deciding rule.

        A text is correct if it abstains and should, names all items and no wrong one, or asserts a
        gold answer and no wrong one.
        """
        if self.abstains:
            return read_abstention(text, self.prompt)
        if self.names_all:
            return self._read_items(text)
        if self.all_golds:
            return read_all_parts(text, self.gold, self.wrong_values, self.prompt)
        return read_contains(text, self.gold, self.wrong_values, self.prompt)

    def _read_items(self, text: str) -> AnswerReading:
        """Return whether a text names all items and no wrong one."""
        missing = next((gold for gold in self.gold if not _names_any(text, [gold])), None)
        if missing is not None:
            return AnswerReading(False, missing, "an item is not named")
        other = next((item for item in self.wrong_values if _names_any(text, [item])), None)
        if other is not None:
            return AnswerReading(False, other, "a wrong item is named")
        return AnswerReading(True, ", ".join(self.gold), "all items and no wrong one")

    def gives(self, text: str, wrong: Sequence[str]) -> bool:
        """Return whether a text gives one of these wrong answers."""
        if self.names_all:
            return _names_any(text, wrong)
        rivals = () if self.abstains else self.gold
        return asserts(text, wrong, rivals, self.prompt)

    def false_acceptance(self) -> float | None:
        """The share of wrong answers, in three wordings each, that `is_right` accepts; None without
        any.
        """
        values = self.wrong_values[:MAX_PLANTED]
        planted = [form.format(value) for value in values for form in PLANTED]
        if planted:
            return sum(self.read(text).right for text in planted) / len(planted)
        return None

    def wrong_by_reason(self) -> dict[str, list[str]]:
        """The wrong answers by reason."""
        by_reason: dict[str, list[str]] = {}
        for value, reason in self.wrong:
            by_reason.setdefault(reason, []).append(value)
        return by_reason


def score_expected(
    expected: ExpectedAnswer, answer: Answer, evidence: Collection[str] = ()
) -> ProbeScores:
    """Compute `correct`, which types of wrong answers are given, the false acceptance, and the cost
    of the context.

    `gives_stale`, `gives_deleted`, `gives_other_user` and `gives_injected` exist if the question
    has such wrong answers; `evidence`, `context_tokens` and `recall_ms` if the steps contain the
    recalled context.

    Args:
        expected: the correct and wrong answers.
        answer: the answer to score; unscored without a text.
        evidence: ids of the evidence for the answer.
    """
    values = _context_costs(answer) | _evidence_share(evidence, answer)
    rate = expected.false_acceptance()
    if rate is not None:
        values["false_acceptance"] = rate
    if answer.text is None:
        return ProbeScores(values, {"correct": NO_TEXT})
    passage = answer.text if answer.passage is None else answer.passage
    reading = expected.read(passage)
    values["correct"] = float(reading.right)
    for reason, wrong in expected.wrong_by_reason().items():
        values[f"gives_{reason}"] = float(expected.gives(passage, wrong))
    return ProbeScores(values, {}, {"correct": reading})


def _evidence_share(evidence: Collection[str], answer: Answer) -> dict[str, float]:
    """Return the share of the evidence in the recalled context, if there is one."""
    needed = {*evidence}
    if not needed or not any("hits" in step.update for step in answer.steps):
        return {}
    return {"evidence": len(needed.intersection(answer.retrieved)) / len(needed)}


def _context_costs(answer: Answer) -> dict[str, float]:
    """Return the tokens of the first recalled context, and the time of the recall in
    milliseconds.
    """
    for step in answer.steps:
        if "hits" in step.update:
            hits: Sequence[dict[str, Any]] = step.update["hits"]
            tokens = sum(count_tokens(hit["text"]) for hit in hits)
            return {"context_tokens": float(tokens), "recall_ms": step.ms}
    return {}


def _names_any(text: str, names: Iterable[str]) -> bool:
    return any(_name(name).search(fold_typography(text)) for name in names)


@lru_cache(maxsize=2**14)
def _name(name: str) -> Any:
    return whole(fold_typography(name), any_case=True)
