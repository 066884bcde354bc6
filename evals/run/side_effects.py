"""Measurement of the model before and under the edits of each editor that changes weights: ability and perplexity.

`costs.jsonl` keeps the negative log-likelihood of every text in nats, so that a report can give an interval.
"""

import logging
import tomllib
from collections.abc import Callable, Sequence
from math import isfinite, log
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emend.agents.scoring import ScoringModel, is_local
from emend.evals.log.lines import BROKEN_RATIO, COSTS, PERPLEXITY, PERPLEXITY_BEFORE
from emend.evals.log.records import read_lines
from emend.evals.run.ability import AbilityTask
from emend.evals.run.units import EditorPass
from emend.memory.edit import Edit, FrozenModel, content_id
from emend.memory.errors import BadData, EmendError, MissingData, RunRefused
from emend.memory.files import open_file

if TYPE_CHECKING:
    from emend.editors.drift import ModelState


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


class SideEffects:
    """Measures perplexity, drift and abilities under the editors of a run that change weights, and logs them.

    Args:
        model: the model under test.
        texts: held-out texts; empty to measure no perplexity.
        tasks: abilities to measure.
        write: takes the lines of `costs.jsonl`.
        unedited_measured: whether the run folder has the unedited model's, see `check_texts`.
    """

    def __init__(
        self,
        model: Any,
        texts: Sequence[str],
        tasks: Sequence[AbilityTask],
        write: Callable[[dict[str, Any]], None],
        unedited_measured: bool,
    ) -> None:
        self._model, self._texts, self._tasks, self._write = model, texts, tasks, write
        self._unedited_measured = unedited_measured
        self._unedited = TextLikelihoods()
        self._state: ModelState | None = None
        self._warned = set[str]()

    def measure_unedited(self, editor_pass: EditorPass) -> None:
        """Measure the unedited model, once for all editors; called while no edit is applied."""
        if not self._measures(editor_pass):
            return
        if self._state is None and editor_pass.mode.kind in ("sequential", "all"):
            self._state = self._model_state()
        if not self._unedited_measured:
            self._unedited_measured = True
            self._unedited = self._measure({"act": PERPLEXITY_BEFORE, "texts": _texts_id(self._texts)}, True)

    def measure_edited(
        self, editor_pass: EditorPass, new: Sequence[Edit], active_edits: int, thorough: bool = True
    ) -> None:
        """Measure the model after `new` edits were applied, so that `active_edits` are in all.

        Only a `thorough` measurement has drift and abilities, which take longer.
        """
        if self._measures(editor_pass) and new:
            edits = content_id("edited", [edit.id for edit in new])
            line = {"act": PERPLEXITY, **editor_pass.labels, "edits": edits, "standing": active_edits}
            if thorough and self._state is not None:
                from emend.editors.drift import drift_between

                now = self._model_state()
                drift = drift_between(self._state, now)._asdict() if now else {}
                line |= {name: value for name, value in drift.items() if isfinite(value)}  # a broken model has none
            self._warn(editor_pass.name, self._measure(line, thorough))

    def _model_state(self) -> "ModelState | None":
        if not is_local(self._model):
            return None
        from emend.editors.drift import model_state  # lazily: a run of an API's model imports no torch

        return model_state(self._model, self._texts)

    def _measures(self, editor_pass: EditorPass) -> bool:
        return bool(self._texts or self._tasks) and editor_pass.editor.needs_weights

    def _measure(self, line: dict[str, Any], thorough: bool) -> TextLikelihoods:
        measured = text_likelihoods(self._model, self._texts)
        tasks = self._tasks if thorough else ()
        scores = [score.model_dump() for task in tasks for score in task.measure(self._model)]
        self._write(line | measured.model_dump() | ({"ability": scores} if scores else {}))
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
    """Return whether the run folder has what was measured of the unedited model.

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
