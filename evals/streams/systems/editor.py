"""Adapter of a memory-based editor to a memory system, with turns as dated texts."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from emend.editors.base import Answerer, ApplyMore, Editor, EditorContext, Sequential
from emend.evals.evaluate.baseline import ask_recorded
from emend.evals.streams.question_probe import question_probe
from emend.evals.streams.turn import StreamQuestion, Turn
from emend.memory.edit import Edit
from emend.memory.errors import BadSettings
from emend.memory.probe import Answer, Form


class EditorSystem:
    """An editor whose edits are the turns so far, and which answers by itself.

    Args:
        name: name of the editor.
        editor: the editor, with its own memory.
        form: prompt form for models that accept both, plain or chat.
    """

    def __init__(self, name: str, editor: Editor, form: Form) -> None:
        self._name, self._editor, self._form = name, editor, form
        self._edits: dict[str, Edit] = {}
        self._new: list[Edit] = []
        self._stack = ExitStack()
        self._answerer: Answerer | None = None
        self._apply_more: ApplyMore | None = None

    def observe(self, turn: Turn) -> None:
        """Add the turn to the edits, which are applied before the next question."""
        if turn.id not in self._edits:
            edit = Edit(id=turn.id, form="document", text=turn.text or " ", time=turn.date or None)
            self._edits[turn.id] = edit
            self._new.append(edit)

    def answer(self, question: StreamQuestion, at: str) -> Answer:
        """Return the editor's answer after applying all turns so far."""
        if self._answerer is None or self._new:
            self._answerer = self._apply()
            self._new = []
        return ask_recorded(self._name, self._answerer, question_probe(question, self._form))

    def _apply(self) -> Answerer:
        """Apply the new turns to a sequential editor, or all turns to another one."""
        if isinstance(self._editor, Sequential):
            if self._apply_more is None:
                self._apply_more = self._stack.enter_context(self._editor.sequence())
            return self._apply_more(self._new)
        self._stack.close()
        return self._stack.enter_context(self._editor.edit(tuple(self._edits.values())))

    def close(self) -> None:
        """Undo the edits."""
        self._stack.close()


def load_editor(name: str, make: Callable[[EditorContext], Any], context: EditorContext) -> Editor:
    """Create an editor for use as a memory system.

    Raises:
        BadSettings: the editor changes the model's weights.
    """
    if getattr(make, "needs_weights", False):
        raise BadSettings(
            f"editor '{name}' changes weights and has no memory: for a stream use one that keeps "
            "edits in a memory, such as rag, or a memory system (emend list systems)."
        )
    editor: Editor = make(context)
    return editor
