"""Check of applied weight edits: their success, and side effects on other subjects."""

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from math import ceil
from typing import Any

from emend.memory.edit import Edit, FrozenModel
from emend.memory.errors import EmendError

# Maximum number of simultaneously applied edits that are checked, evenly spaced.
MAX_EDITS = 32
# Number of other subjects that are put into an edit's prompt.
NEIGHBOURS = 4
# Subjects for neighbouring prompts if the run has too few others.
OTHER_SUBJECTS = ("Italy", "Brazil", "London", "Microsoft", "Isaac Newton", "Beethoven")
Pair = tuple[str, str]


class EditOutcome(FrozenModel):
    """Counts of checked and successful edits, and of checked and changed neighbouring prompts.

    An edit took if its new object is more probable after its own prompt than the old one or,
    without an old one, is the most probable continuation. A neighbouring prompt turned if the new
    object became its most probable continuation and was not before.
    """

    checked: int
    took: int
    neighbours: int
    turned: int


class EditCheck:
    """Checker that scores edits and neighbouring prompts with one model before and during editing.

    Prompts are scored in batches.

    Args:
        model: a chat model; without local weights (no `lm`) nothing is measured.
    """

    def __init__(self, model: Any) -> None:
        lm = getattr(model, "lm", None)
        self._lm: Any = lm if hasattr(lm, "log_probs") else None
        self._neighbours: dict[str, list[Pair]] = {}
        """Neighbouring prompts, by edit id, that do not have the new object before editing."""
        self._warned = set[Pair]()

    def prepare(self, edits: Sequence[Edit], others: Iterable[Edit]) -> None:
        """Choose the edits to check and score their neighbouring prompts, on the unedited model.

        Args:
            edits: the edits that will be applied, together or one after another.
            others: edits that will not be applied; their subjects fill the neighbouring prompts.
        """
        self._neighbours = {}
        chosen = _spread([edit for edit in edits if _has_prompt(edit)])
        if self._lm is None or not chosen:
            return
        edited = {edit.subject for edit in edits}
        others = [edit for edit in others if edit.subject and edit.subject not in edited]
        pairs = {edit.id: _pairs(edit, others, edited) for edit in chosen}
        with suppress(EmendError):  # an edit that cannot be scored fails later, with its reason
            says = self._most_probable([pair for each in pairs.values() for pair in each])
            for edit_id, of_edit in pairs.items():
                self._neighbours[edit_id] = [pair for pair in of_edit if not says[pair]]

    def measure(self, editor: str, edits: Sequence[Edit]) -> EditOutcome | None:
        """Measure the chosen edits that are applied and log warnings; None if there are none."""
        chosen = [edit for edit in edits if edit.id in self._neighbours]
        if not chosen:
            return None
        pairs = [pair for edit in chosen for pair in self._neighbours[edit.id]]
        try:
            says, took = self._most_probable(pairs), self._took(chosen)
        except EmendError:
            return None
        turned = sum(says[pair] for pair in pairs)
        outcome = EditOutcome(
            checked=len(chosen), took=sum(took), neighbours=len(pairs), turned=turned
        )
        if not all(took):
            failed = next(edit for edit, success in zip(chosen, took, strict=True) if not success)
            self.warn(
                editor,
                "took",
                f"an edit did not take effect: {failed.cloze[:80]!r} -> {failed.target_new!r}",
            )
        if outcome.turned:
            prompt, target = next(pair for pair in pairs if says[pair])
            self.warn(
                editor,
                "turned",
                f"a neighbouring prompt turned to the new object: {prompt[:80]!r}, {target!r}",
            )
        return outcome

    def warn(self, editor: str, kind: str, text: str) -> None:
        """Log a warning once per editor and kind; the report counts these warnings."""
        if (editor, kind) not in self._warned:
            self._warned.add((editor, kind))
            logging.getLogger(__name__).warning("%s: %s", editor, text)

    def _took(self, edits: Sequence[Edit]) -> list[bool]:
        rivals = [
            (edit.cloze, target)
            for edit in edits
            for target in (edit.target_new, edit.target_true)
            if target
        ]
        scores = self._scores(rivals)
        took = []
        for edit in edits:
            new = scores[edit.cloze, edit.target_new]
            if edit.target_true:
                took.append(new.log_prob > scores[edit.cloze, edit.target_true].log_prob)
            else:
                took.append(_is_greedy(new))
        return took

    def _most_probable(self, pairs: Sequence[Pair]) -> dict[Pair, bool]:
        return {pair: _is_greedy(score) for pair, score in self._scores(pairs).items()}

    def _scores(self, pairs: Sequence[Pair]) -> dict[Pair, Any]:
        """Return the score of each pair of prompt and target."""
        distinct = list(dict.fromkeys(pairs))
        return dict(zip(distinct, self._lm.log_probs(distinct), strict=True)) if distinct else {}


def _is_greedy(score: Any) -> bool:
    return bool(score.greedy_tokens == score.target_tokens)


def _has_prompt(edit: Edit) -> bool:
    return bool(
        edit.subject
        and edit.subject.strip()
        and edit.prompt.count("{}") == 1
        and edit.target_new.strip()
    )


def _spread(edits: Sequence[Edit]) -> Sequence[Edit]:
    return edits[:: max(1, ceil(len(edits) / MAX_EDITS))]


def _pairs(edit: Edit, others: Sequence[Edit], edited: set[str]) -> list[Pair]:
    """Return neighbouring prompts with the new object, those that share the prompt first."""
    alike = [each.subject for each in others if each.prompt == edit.prompt]
    subjects = dict.fromkeys([*alike, *(name for name in OTHER_SUBJECTS if name not in edited)])
    subjects.pop(edit.target_new, None)
    return [
        (edit.prompt.replace("{}", name), edit.target_new) for name in list(subjects)[:NEIGHBOURS]
    ]
