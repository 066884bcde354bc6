"""Placeholder for an editor that cannot apply a setting's edits; its probes stay unscored."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from emend.editors.answerers import ScoringAnswerer
from emend.editors.base import Answerer, Editor
from emend.memory.edit import Edit
from emend.memory.errors import NotApplicable
from emend.memory.probe import Answer, Probe


class RefusedEditor:
    """Stand-in for an editor that cannot run a setting; it applies no edit and asks no model.

    Args:
        editor: the replaced editor; None if it could not be created.
        reason: why no edit can be applied.
    """

    name: ClassVar[str] = "refused"
    needs_weights: ClassVar[bool] = False

    def __init__(self, editor: Editor | None, reason: str) -> None:
        self._editor, self.reason = editor, reason

    @property
    def is_unusable(self) -> bool:
        """True if the editor cannot work with the model in any setting."""
        return self._editor is None

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The replaced editor's fingerprint, if it could be created, and the reason."""
        return {**(self._editor.fingerprint if self._editor else {}), "refused": self.reason}

    @contextmanager
    def edit(self, edits: Sequence[Edit]) -> Iterator[Answerer]:
        """Yield an answerer that refuses every probe."""
        yield ScoringAnswerer(self._refuse)

    def _refuse(self, probe: Probe, targets: Sequence[str] | None) -> Answer:
        raise NotApplicable(self.reason)
