"""Scores of answers over a stream: right or not by the kind of question, and which wrong answer was given."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from emend.agents.parsing.abstention import abstains
from emend.evals.metrics.scores import NO_TEXT, ProbeScores
from emend.evals.metrics.text import asserts
from emend.memory.probe import Answer, Probe
from emend.memory.retrieval.tokens import whole
from emend.memory.typography import fold_typography

ABSTAINS, REASONS, SET = "abstains", "wrong", "set"
"""Tags of a probe: whether it is right to abstain, the reasons of its `choices` joined by commas; and a kind."""
UNKNOWN = "unknown"
"""Gold of a probe that it is right not to answer."""
STORE = "store"
"""Field of a step with the size of the memory, and how its state compares with gold."""
PLANTED = ("{}", "It is {}.", "The answer is {}.")
MAX_PLANTED = 4
"""Number of wrong answers of a question that are planted."""
BYTES_PER_TOKEN = 4


def count_tokens(text: str) -> int:
    """Tokens of a text by one rule for all systems and models: a token for every four bytes, rounded up."""
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


def is_right(probe: Probe, text: str) -> bool:
    """Return whether a text is the right answer to a question of a stream.

    It is where it abstains and should, names all items of a set and no wrong one, or asserts a gold answer and none of
    the wrong ones.
    """
    if probe.tags.get(ABSTAINS):
        return abstains(text, probe.prompt)
    if probe.kind == SET:
        return _names_all(text, probe.gold) and not _names_any(text, probe.choices)
    return asserts(text, probe.gold, probe.choices, probe.prompt)


def false_acceptance(probe: Probe) -> float | None:
    """The share of wrong answers of a question, each in three wordings, that `is_right` takes; None without any."""
    planted = [form.format(answer) for answer in probe.choices[:MAX_PLANTED] for form in PLANTED]
    return sum(is_right(probe, text) for text in planted) / len(planted) if planted else None


def score_memory(probe: Probe, answer: Answer, before: Answer | None) -> ProbeScores:
    """`correct`, for each reason of a wrong answer whether one is given, false acceptance, and the cost of the context.

    `gives_stale`, `gives_deleted`, `gives_other_user` and `gives_injected` are there where the question has such wrong
    answers; `evidence`, `context_tokens` and `recall_ms` where the system showed what it recalled; `store_*` and
    `state_*` for the first question at a place of the stream.
    """
    values = _costs(answer) | _evidence(probe, answer)
    rate = false_acceptance(probe)
    values |= {} if rate is None else {"false_acceptance": rate}
    if answer.text is None:
        return ProbeScores(values, {"correct": NO_TEXT})
    passage = answer.text if answer.passage is None else answer.passage
    values["correct"] = float(is_right(probe, passage))
    for reason, wrong in _by_reason(probe).items():
        values[f"gives_{reason}"] = float(_gives(probe, passage, wrong))
    return ProbeScores(values, {})


def _evidence(probe: Probe, answer: Answer) -> dict[str, float]:
    """The share of the turns that decide the answer which are in the context, if that has turns at all."""
    turns = {*probe.edit_ids}
    if not turns or not any("hits" in step.update for step in answer.steps):
        return {}
    return {"evidence": len(turns.intersection(answer.retrieved)) / len(turns)}


def _by_reason(probe: Probe) -> dict[str, list[str]]:
    """The wrong answers of a probe by their reason."""
    reasons = str(probe.tags.get(REASONS, "")).split(",")
    by: dict[str, list[str]] = {}
    for reason, value in zip(reasons, probe.choices, strict=False):
        by.setdefault(reason, []).append(value)
    return by


def _gives(probe: Probe, passage: str, wrong: Sequence[str]) -> bool:
    if probe.kind == SET:
        return _names_any(passage, wrong)
    rivals = () if probe.tags.get(ABSTAINS) else probe.gold
    return asserts(passage, wrong, rivals, probe.prompt)


def _costs(answer: Answer) -> dict[str, float]:
    values: dict[str, float] = {}
    for step in answer.steps:
        if "hits" in step.update and "context_tokens" not in values:
            hits: Sequence[dict[str, Any]] = step.update["hits"]
            values["context_tokens"] = float(sum(count_tokens(hit["text"]) for hit in hits))
            values["recall_ms"] = step.ms
        if isinstance(store := step.update.get(STORE), dict):
            values |= {name: float(value) for name, value in store.items() if value is not None}
    return values


def _names_all(text: str, names: Iterable[str]) -> bool:
    return all(_name(name).search(fold_typography(text)) for name in names)


def _names_any(text: str, names: Iterable[str]) -> bool:
    return any(_name(name).search(fold_typography(text)) for name in names)


@lru_cache(maxsize=2**14)
def _name(name: str) -> Any:
    return whole(fold_typography(name), any_case=True)
