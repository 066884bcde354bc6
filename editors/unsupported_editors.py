"""An editor that cannot apply a setting's edits, in a run that has others: every probe is unscored, with the reason."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from emend.editors.answerers import ScoringAnswerer
from emend.editors.base import Answerer, Editor
from emend.memory.edit import Edit
from emend.memory.errors import NotApplicable
from emend.memory.probe import Answer, Probe


class RefusedEditor:
    """Takes the place of an editor in such a setting; no edit is applied and no model is asked.

    Args:
        editor: whose place it takes; None if it could not be made.
        reason: why no edit can be applied.
    """

    name: ClassVar[str] = "refused"
    needs_weights: ClassVar[bool] = False

    def __init__(self, editor: Editor | None, reason: str) -> None:
        self._editor, self.reason = editor, reason

    @property
    def is_unusable(self) -> bool:
        """True if the editor cannot work with the model, whatever the setting."""
        return self._editor is None

    @property
    def fingerprint(self) -> dict[str, Any]:
        """That of the editor, if it could be made, with the reason."""
        return {**(self._editor.fingerprint if self._editor else {}), "refused": self.reason}

    @contextmanager
    def edit(self, edits: Sequence[Edit]) -> Iterator[Answerer]:
        """Give an answerer that only refuses."""
        yield ScoringAnswerer(self._refuse)

    def _refuse(self, probe: Probe, targets: Sequence[str] | None) -> Answer:
        raise NotApplicable(self.reason)
