"""Check of weight edits while they are applied: whether they took, and whether neighbours turned to the new object."""

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from math import ceil
from typing import Any

from emend.memory.edit import Edit, FrozenModel
from emend.memory.errors import EmendError

MAX_EDITS = 32
"""Edits checked of those that are applied together, spread over them."""
NEIGHBOURS = 4
"""Other subjects in an edit's prompt."""
OTHER_SUBJECTS = ("Italy", "Brazil", "London", "Microsoft", "Isaac Newton", "Beethoven")
"""Subjects of neighbouring prompts where the run has too few others."""
Pair = tuple[str, str]


class EditOutcome(FrozenModel):
    """Numbers of edits that were checked and that took, and of neighbouring prompts and those that turned.

    An edit took if its new object is more probable after its own prompt than the old one or, without an old one, is the
    most probable continuation. A neighbour turned if the new object is its most probable continuation, and was not
    before.
    """

    checked: int
    took: int
    neighbours: int
    turned: int


class EditCheck:
    """Asks one model about edits before and while they are applied, in batches.

    Args:
        model: a chat model; of one without local weights (`lm`) nothing is measured.
    """

    def __init__(self, model: Any) -> None:
        lm = getattr(model, "lm", None)
        self._lm: Any = lm if hasattr(lm, "log_probs") else None
        self._neighbours: dict[str, list[Pair]] = {}
        """By id of an edit, the neighbouring prompts that the model does not continue with the new object."""
        self._warned = set[Pair]()

    def prepare(self, edits: Sequence[Edit], others: Iterable[Edit]) -> None:
        """Choose the edits to check and ask their neighbours; call it while the model is unedited.

        Args:
            edits: to be applied, together or one after another.
            others: edits that are not; their subjects make neighbouring prompts.
        """
        self._neighbours = {}
        chosen = _spread([edit for edit in edits if _has_prompt(edit)])
        if self._lm is None or not chosen:
            return
        edited = {edit.subject for edit in edits}
        others = [edit for edit in others if edit.subject and edit.subject not in edited]
        pairs = {edit.id: _pairs(edit, others, edited) for edit in chosen}
        with suppress(EmendError):  # an edit that cannot be scored fails elsewhere, with its reason
            says = self._most_probable([pair for each in pairs.values() for pair in each])
            self._neighbours = {name: [pair for pair in each if not says[pair]] for name, each in pairs.items()}

    def measure(self, editor: str, edits: Sequence[Edit]) -> EditOutcome | None:
        """Measure those of the applied edits that were chosen, and warn; None if there is nothing to measure."""
        chosen = [edit for edit in edits if edit.id in self._neighbours]
        if not chosen:
            return None
        pairs = [pair for edit in chosen for pair in self._neighbours[edit.id]]
        try:
            says, took = self._most_probable(pairs), self._took(chosen)
        except EmendError:
            return None
        turned = sum(says[pair] for pair in pairs)
        outcome = EditOutcome(checked=len(chosen), took=sum(took), neighbours=len(pairs), turned=turned)
        if not all(took):
            failed = next(edit for edit, success in zip(chosen, took, strict=True) if not success)
            self.warn(editor, "took", f"an edit did not take: {failed.cloze[:80]!r} -> {failed.target_new!r}")
        if outcome.turned:
            prompt, target = next(pair for pair in pairs if says[pair])
            self.warn(editor, "turned", f"a neighbouring prompt turned to the new object: {prompt[:80]!r}, {target!r}")
        return outcome

    def warn(self, editor: str, kind: str, text: str) -> None:
        """Log a warning, once for each editor and kind; the report counts them."""
        if (editor, kind) not in self._warned:
            self._warned.add((editor, kind))
            logging.getLogger(__name__).warning("%s: %s", editor, text)

    def _took(self, edits: Sequence[Edit]) -> list[bool]:
        rivals = [(edit.cloze, target) for edit in edits for target in (edit.target_new, edit.target_true) if target]
        scores = self._scores(rivals)
        return [
            scores[edit.cloze, edit.target_new].log_prob > scores[edit.cloze, edit.target_true].log_prob
            if edit.target_true
            else _is_greedy(scores[edit.cloze, edit.target_new])
            for edit in edits
        ]

    def _most_probable(self, pairs: Sequence[Pair]) -> dict[Pair, bool]:
        return {pair: _is_greedy(score) for pair, score in self._scores(pairs).items()}

    def _scores(self, pairs: Sequence[Pair]) -> dict[Pair, Any]:
        """The score of each target after its prompt."""
        distinct = list(dict.fromkeys(pairs))
        return dict(zip(distinct, self._lm.log_probs(distinct), strict=True)) if distinct else {}


def _is_greedy(score: Any) -> bool:
    return bool(score.greedy_tokens == score.target_tokens)


def _has_prompt(edit: Edit) -> bool:
    return bool(edit.subject and edit.subject.strip() and edit.prompt.count("{}") == 1 and edit.target_new.strip())


def _spread(edits: Sequence[Edit]) -> Sequence[Edit]:
    return edits[:: max(1, ceil(len(edits) / MAX_EDITS))]


def _pairs(edit: Edit, others: Sequence[Edit], edited: set[str]) -> list[Pair]:
    """Neighbouring prompts with the new object: first those of other edits with the same prompt."""
    alike = [each.subject for each in others if each.prompt == edit.prompt]
    subjects = dict.fromkeys([*alike, *(name for name in OTHER_SUBJECTS if name not in edited)])
    subjects.pop(edit.target_new, None)
    return [(edit.prompt.replace("{}", name), edit.target_new) for name in list(subjects)[:NEIGHBOURS]]
