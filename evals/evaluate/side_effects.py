"""Measurement of ability and perplexity, before and under edits that change weights.

`costs.jsonl` keeps the negative log-likelihood of every text in nats, so that a report can compute
an interval.
"""

import logging
import tomllib
from collections.abc import Callable, Sequence
from math import isfinite, log
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emend.agents.scoring import ScoringModel, is_local
from emend.evals.evaluate.ability import AbilityTask
from emend.evals.evaluate.units import EditorPass
from emend.evals.log.lines import BROKEN_RATIO, COSTS, PERPLEXITY, PERPLEXITY_BEFORE
from emend.evals.log.records import read_lines
from emend.memory.edit import Edit, FrozenModel, content_id
from emend.memory.errors import BadData, EmendError, MissingData, RunRefused, reason_of
from emend.memory.files import read_file

if TYPE_CHECKING:
    from emend.editors.drift import ModelState


SHIPPED = Path(__file__).parent / "held_out.toml"
NO_TEXTS = "none"


class TextLikelihoods(FrozenModel):
    """Negative log-likelihoods in nats and token counts of texts, or why they are missing."""

    nats: tuple[float, ...] = ()
    tokens: tuple[int, ...] = ()
    unscored: str = ""

    @property
    def nats_per_token(self) -> float | None:
        """Logarithm of the perplexity of all texts; None without texts."""
        return sum(self.nats) / sum(self.tokens) if self.tokens else None


def load_texts(name: str | None, benchmark: Any, seed: int) -> tuple[str, ...]:
    """Return held-out texts from a file with one text per line.

    None uses the benchmark's own texts or else shipped English texts, and `none` uses no texts.

    Raises:
        MissingData: there is no such file.
        BadData: the file has no text.
    """
    if name == NO_TEXTS:
        return ()
    if name is None and hasattr(benchmark, "held_out"):
        return tuple(benchmark.held_out(seed))
    if name is None:
        return tuple(tomllib.loads(SHIPPED.read_text(encoding="utf-8"))["texts"])
    file = Path(name).expanduser()
    try:
        content = read_file(file, links=True).decode("utf-8-sig")
    except FileNotFoundError as error:
        raise MissingData(
            f"no file '{file}' of held-out texts: name one with one text per line, or {NO_TEXTS}."
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise BadData(
            f"'{file}' cannot be read: {reason_of(error)}. Write held-out texts in UTF-8, "
            "one per line."
        ) from error
    texts = tuple(line.strip() for line in content.splitlines() if line.strip())
    if not texts:
        raise BadData(f"'{file}' has no text: write one per line, or name {NO_TEXTS}.")
    return texts


def text_likelihoods(model: Any, texts: Sequence[str]) -> TextLikelihoods:
    """Measure each text, or give the reason why not; without texts, measure nothing."""
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
    """Measures perplexity, drift and abilities under editors that change weights, and logs them.

    Args:
        model: the model under test.
        texts: held-out texts; empty to measure no perplexity.
        tasks: abilities to measure.
        write: receives the lines of `costs.jsonl`.
        unedited_measured: whether the run folder has the unedited model's measurements, see
            `check_texts`.
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
        """Measure the unedited model once for all editors; call while no edit is applied."""
        if not self._measures(editor_pass):
            return
        if self._state is None and editor_pass.mode.kind in ("sequential", "all"):
            self._state = self._model_state()
        if not self._unedited_measured:
            self._unedited_measured = True
            self._unedited = self._measure(
                {"act": PERPLEXITY_BEFORE, "texts": _texts_id(self._texts)}, True
            )

    def measure_edited(
        self, editor_pass: EditorPass, new: Sequence[Edit], active_edits: int, thorough: bool = True
    ) -> None:
        """Measure the model after `new` edits were applied, with `active_edits` edits in total.

        Drift and abilities take longer, and are only measured if `thorough`.
        """
        if self._measures(editor_pass) and new:
            edits = content_id("edited", [edit.id for edit in new])
            line = {
                "act": PERPLEXITY,
                **editor_pass.labels,
                "edits": edits,
                "standing": active_edits,
            }
            if thorough and self._state is not None:
                from emend.editors.drift import drift_between

                now = self._model_state()
                drift = drift_between(self._state, now)._asdict() if now else {}
                # the drift of a broken model is not finite
                line |= {name: value for name, value in drift.items() if isfinite(value)}
            self._warn(editor_pass.name, self._measure(line, thorough))

    def _model_state(self) -> "ModelState | None":
        if not is_local(self._model):
            return None
        # imported here, so that a run of an API model does not import torch
        from emend.editors.drift import model_state

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
        """Warn once per editor that the perplexity more than doubled; reports cover all edits."""
        before, now = self._unedited.nats_per_token, edited.nats_per_token
        if (
            before is not None
            and now is not None
            and now - before > log(BROKEN_RATIO)
            and editor not in self._warned
        ):
            self._warned.add(editor)
            logging.getLogger(__name__).warning(
                "%s: perplexity of held-out texts more than doubled: nats per token %.3g -> %.3g",
                editor,
                before,
                now,
            )


def check_texts(folder: Path, texts: Sequence[str]) -> bool:
    """Return True if the run folder has measurements of the unedited model.

    Raises:
        RunRefused: earlier measurements in the folder are of other texts.
    """
    lines, now = read_lines(folder, COSTS), _texts_id(texts)
    before = [line["texts"] for line in lines if line.get("act") == PERPLEXITY_BEFORE]
    if texts and any(earlier != now for earlier in before):
        raise RunRefused(
            f"the held-out texts of the run in '{folder}' were others ({before[0]}, now {now}): "
            "give the same --perplexity-text, or another --out folder."
        )
    return bool(before)


def _texts_id(texts: Sequence[str]) -> str:
    return content_id("held out", texts)
