"""What a model that gives probabilities is, apart from any library that computes them."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from emend.memory.edit import Word
from emend.memory.errors import BadData
from emend.memory.probe import Usage


class Scores(Word):
    """One joint natural-log probability per target, and what it cost.

    `usage.input_tokens` counts the prompt once and every target; `cut_tokens` is how much of the prompt did not fit.
    """

    log_probs: tuple[float, ...]
    cut_tokens: int = 0
    usage: Usage = Usage()


@runtime_checkable
class ScoringModel(Protocol):
    """A chat model that can also say how probable a given continuation is."""

    def score(self, prompt: str, targets: Sequence[str]) -> Scores:
        """Scores each target as the continuation of the prompt, see `joined`."""
        ...


def joined(prompt: str, target: str) -> str:
    """The text whose tail is scored: prompt, one space, target, as DocTER joins them.

    No space is put after an empty prompt or one that ends in white space, nor before a target that begins with it.

    Raises:
        BadData: the target is empty or blank.
    """
    if not target.strip():
        raise BadData(
            f"target {target!r} after prompt {prompt[-60:]!r} has no tokens: give a target that says something."
        )
    apart = not prompt or prompt[-1].isspace() or target[0].isspace()
    return prompt + ("" if apart else " ") + target
