"""Perplexity of texts that no edit is about: the texts, and the likelihood of each without a prompt.

`costs.jsonl` keeps the negative log-likelihood of every text in nats, so that a report can give an interval.
"""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from emend.agents.scoring import ScoringModel
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData, EmendError, MissingData
from emend.memory.files import open_file

SHIPPED = Path(__file__).parent / "held_out.toml"
NO_TEXTS = "none"


class TextLikelihoods(FrozenModel):
    """Negative log-likelihood in nats and number of tokens of each text, or why there are none."""

    nats: tuple[float, ...] = ()
    tokens: tuple[int, ...] = ()
    unscored: str = ""

    @property
    def nats_per_token(self) -> float | None:
        """Logarithm of the perplexity of all texts; None without texts."""
        return sum(self.nats) / sum(self.tokens) if self.tokens else None


def load_texts(name: str | None, benchmark: Any, seed: int) -> tuple[str, ...]:
    """Read a file of texts, one a line; None for the benchmark's own or else plain English, `none` for no texts.

    Raises:
        MissingData: there is no such file.
        BadData: it has no text.
    """
    if name == NO_TEXTS:
        return ()
    if name is None and hasattr(benchmark, "held_out"):
        return tuple(benchmark.held_out(seed))
    if name is None:
        return tuple(tomllib.loads(SHIPPED.read_text(encoding="utf-8"))["texts"])
    file = Path(name).expanduser()
    try:
        with open_file(file, links=True) as opened:
            content = opened.read().decode("utf-8-sig")
    except FileNotFoundError as error:
        raise MissingData(f"no file '{file}' of held-out texts: name one with a text a line, or {NO_TEXTS}.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise BadData(f"'{file}' cannot be read: {error}. Write held-out texts in UTF-8, one a line.") from error
    texts = tuple(line.strip() for line in content.splitlines() if line.strip())
    if not texts:
        raise BadData(f"'{file}' has no text: write one a line, or name {NO_TEXTS}.")
    return texts


def text_likelihoods(model: Any, texts: Sequence[str]) -> TextLikelihoods:
    """Measure each text, or say why that is impossible; neither without texts."""
    if not texts:
        return TextLikelihoods()
    if not isinstance(model, ScoringModel):
        return TextLikelihoods(unscored=f"{type(model).__name__} has no log-probabilities")
    try:
        scores = model.score("", texts)
    except EmendError as error:
        return TextLikelihoods(unscored=str(error))
    if not scores.target_tokens:
        return TextLikelihoods(unscored=f"{type(model).__name__} does not report numbers of tokens")
    nats = tuple(-min(value, 0.0) for value in scores.log_probs)
    if not all(value < float("inf") for value in nats):  # also false for NaN
        return TextLikelihoods(unscored="the edited model's log-probabilities are not finite")
    return TextLikelihoods(nats=nats, tokens=scores.target_tokens)
