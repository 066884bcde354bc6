"""Part of a configuration about the scores of answers and of the edited model."""

from typing import NamedTuple

# Scorer that excludes a probe if the unedited model is right (HalluEditBench, Huang et al. 2024).
WRONG_BEFORE = "wrong_before"


class ScoringSpec(NamedTuple):
    """Protocols of a run and its further measurements.

    Attributes:
        protocols: rules that decide if an answer is right; empty for the benchmark's own.
        only_wrong_before: leave out questions about an edit that the unedited model answers
            correctly.
        perplexity_text: file of passages, or `none`; None for the benchmark's, or the built-in one.
        ability: tasks that measure the model's ability before and after edits of its weights.
    """

    protocols: tuple[str, ...] = ()
    only_wrong_before: bool = False
    perplexity_text: str | None = None
    ability: tuple[str, ...] = ()
