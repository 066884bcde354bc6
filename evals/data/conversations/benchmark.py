"""Base class of conversation benchmarks: cases with dated turns, corrections of gold, and the
metrics of a stream.
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from emend.editors.base import Demonstration
from emend.evals.case import Case
from emend.evals.data.benchmarks.base import FileBenchmark
from emend.evals.data.conversations.conversation import (
    DatedConversation,
    check_conversation,
    conversation_case,
)
from emend.evals.data.conversations.corrections import (
    CorrectionCount,
    Corrections,
    read_corrections,
)

# Option with the file of a published audit of the gold answers.
CORRECTIONS = "corrections"


class ConversationBenchmark(FileBenchmark):
    """A benchmark whose cases are conversations, each with its own memory: turns are edits,
    questions are probes.
    """

    settings: ClassVar[tuple[str, ...]] = ("turns",)
    wording: ClassVar[str] = "messages"
    mode: ClassVar[str] = "single"
    has_texts = False
    has_conversations: ClassVar[bool] = True
    """True if retrieval is measured within each conversation separately."""

    def __init__(self, data: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        super().__init__(data, options)
        file = self.options.get(CORRECTIONS, "")
        self._audit = read_corrections(Path(file).expanduser()) if file else Corrections(())

    @abstractmethod
    def _read(self) -> Iterable[tuple[DatedConversation, str]]:
        """Return the conversations, with file and record for errors."""

    @cached_property
    def conversations(self) -> list[DatedConversation]:
        """The conversations with corrections applied.

        Raises:
            BadData: a file or the corrections are malformed; the error names position and field.
        """
        checked = [
            self._audit.apply(check_conversation(each, where)) for each, where in self._read()
        ]
        return [each for each in checked if each.questions]

    @property
    def corrections(self) -> CorrectionCount:
        """Numbers of answers that the audit corrected or left out."""
        len(self.conversations)  # reads the conversations and applies the audit
        return self._audit.total

    def _build(self, setting: str, limit: int | None, seed: int) -> Iterator[Case]:
        return islice(map(conversation_case, self.conversations), limit)

    def _from_rows(self, setting: str, seed: int, count: int) -> Iterable[Demonstration]:
        return ()

    def _choices(self) -> list[str]:
        """Return the definition's choices, and the number of corrected answers."""
        if self._audit.entries:
            corrected = [self.corrections.sentence]
        else:
            corrected = []
        return [*super()._choices(), *corrected]

    def _counts(self) -> dict[str, Any]:
        questions = [question for each in self.conversations for question in each.questions]
        counts = {
            "conversations": len(self.conversations),
            "turns": sum(len(each.messages) for each in self.conversations),
            "questions": dict(sorted(Counter(question.kind for question in questions).items())),
            "without evidence": sum(not question.evidence for question in questions),
        }
        return counts | (
            {CORRECTIONS: self.corrections.model_dump()} if self._audit.entries else {}
        )
