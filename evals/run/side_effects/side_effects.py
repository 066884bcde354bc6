"""Measurement of the model before and under the edits of each editor that changes weights."""

import logging
from collections.abc import Callable, Sequence
from math import isfinite, log
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emend.agents.scoring import is_local
from emend.evals.log.lines import BROKEN_RATIO, COSTS, PERPLEXITY, PERPLEXITY_BEFORE
from emend.evals.log.records import read_lines
from emend.evals.run.side_effects.ability_score import AbilityTask
from emend.evals.run.side_effects.perplexity import TextLikelihoods, text_likelihoods
from emend.evals.run.units import EditorPass
from emend.memory.edit import Edit, content_id
from emend.memory.errors import RunRefused

if TYPE_CHECKING:
    from emend.editors.drift import ModelState


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
