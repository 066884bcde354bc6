"""An editor that cannot apply a setting's edits, in a run that has others: every probe is unscored, with the reason."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NoReturn

from emend.editors.base import Answerer, Editor
from emend.memory.edit import Edit
from emend.memory.errors import NotApplicable
from emend.memory.probe import Probe


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
        yield _Refusing(self.reason)


class _Refusing:
    """Raises `NotApplicable` for every probe."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def answer(self, probe: Probe) -> NoReturn:
        raise NotApplicable(self._reason)

    def find(self, probe: Probe) -> NoReturn:
        raise NotApplicable(self._reason)

    def score(self, probe: Probe, targets: Sequence[str]) -> NoReturn:
        raise NotApplicable(self._reason)
