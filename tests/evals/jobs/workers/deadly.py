"""An editor that kills its process over one edit, or wherever it is made outside of one process."""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from emend.editors.base import Answerer, EditorContext
from emend.memory.edit import Edit
from tests.evals.toys import ToyEditor


class DeadlyEditor(ToyEditor):
    """Dies over Land5, as if there were too little memory for it."""

    def __init__(self, context: EditorContext) -> None:
        super().__init__(context)
        if os.environ.get("EMEND_TEST_DEADLY_START", str(os.getpid())) != str(os.getpid()):
            os.kill(os.getpid(), signal.SIGKILL)

    @contextmanager
    def edit(self, edits: Sequence[Edit]) -> Iterator[Answerer]:
        if any(edit.subject == "Land5" for edit in edits):
            os.kill(os.getpid(), signal.SIGKILL)
        with super().edit(edits) as answerer:
            yield answerer
