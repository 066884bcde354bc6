"""Perplexity of texts that no edit is about, before and under edits of weights.

Each editor that changes weights is measured on the same texts, without a prompt. `costs.jsonl` keeps the negative
log-likelihood of every text in nats, so that a report can give an interval.
"""

import logging
import tomllib
from collections.abc import Callable, Sequence
from math import log
from pathlib import Path
from typing import Any

from emend.agents.scoring import ScoringModel
from emend.evals.log.lines import BROKEN_RATIO, COSTS, PERPLEXITY, PERPLEXITY_BEFORE
from emend.evals.log.records import read_lines
from emend.evals.run.units import EditorPass
from emend.memory.edit import Edit, FrozenModel, content_id
from emend.memory.errors import BadData, EmendError, MissingData, RunRefused
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
    """Measure each text, or say why that is impossible."""
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


class Perplexity:
    """Measures the editors of one run that change weights, and writes what it measured to the log.

    Args:
        model: the model under test.
        texts: the texts; empty to measure nothing.
        write: takes the lines of `costs.jsonl`.
        unedited_measured: whether the run folder has the unedited model's, see `check_texts`.
    """

    def __init__(
        self, model: Any, texts: Sequence[str], write: Callable[[dict[str, Any]], None], unedited_measured: bool
    ) -> None:
        self._model, self._texts, self._write = model, texts, write
        self._unedited_measured = unedited_measured
        self._unedited = TextLikelihoods()
        self._warned = set[str]()

    def measure_unedited(self, editor_pass: EditorPass) -> None:
        """Measure the unedited model, once for all editors; called while no edit is applied."""
        if self._texts and editor_pass.editor.needs_weights and not self._unedited_measured:
            self._unedited_measured = True
            self._unedited = self._measure({"act": PERPLEXITY_BEFORE, "texts": _texts_id(self._texts)})

    def measure_edited(self, editor_pass: EditorPass, new: Sequence[Edit], active_edits: int) -> None:
        """Measure the model after `new` edits were applied, so that `active_edits` are in all."""
        if self._texts and editor_pass.editor.needs_weights and new:
            edits = content_id("edited", [edit.id for edit in new])
            line = {"act": PERPLEXITY, **editor_pass.labels, "edits": edits, "standing": active_edits}
            self._warn(editor_pass.name, self._measure(line))

    def _measure(self, line: dict[str, Any]) -> TextLikelihoods:
        measured = text_likelihoods(self._model, self._texts)
        self._write(line | measured.model_dump())
        return measured

    def _warn(self, editor: str, edited: TextLikelihoods) -> None:
        """Log once for each editor that the perplexity more than doubled; the report says it of all edits."""
        before, now = self._unedited.nats_per_token, edited.nats_per_token
        if before is not None and now is not None and now - before > log(BROKEN_RATIO) and editor not in self._warned:
            self._warned.add(editor)
            logging.getLogger(__name__).warning(
                "%s: perplexity of held-out texts more than doubled: nats per token %.3g -> %.3g", editor, before, now
            )


def check_texts(folder: Path, texts: Sequence[str]) -> bool:
    """Return whether the run folder has the unedited model's perplexity.

    Raises:
        RunRefused: earlier measurements in the folder are of other texts.
    """
    lines, now = read_lines(folder, COSTS), _texts_id(texts)
    before = [line["texts"] for line in lines if line.get("act") == PERPLEXITY_BEFORE]
    if texts and any(earlier != now for earlier in before):
        raise RunRefused(
            f"the held-out texts of the run in '{folder}' were others ({before[0]}, now {now}): give the same "
            "--perplexity-text, or another --out folder."
        )
    return bool(before)


def _texts_id(texts: Sequence[str]) -> str:
    return content_id("held out", texts)
