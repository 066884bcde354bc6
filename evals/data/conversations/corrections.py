"""Published audits of gold: wrong answers and evidence, and their corrections.

A file is a JSON list as in github.com/dial481/locomo-audit: `question_id` (`locomo_0_qa1`:
conversation and question, both counted from 0), `question`, `error_type`, `correct_answer` and
`correct_evidence`.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from emend.evals.data.benchmarks.rows import BenchmarkRow, Text, read_unique
from emend.evals.data.conversations.conversation import ConversationQuestion, DatedConversation
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData, MissingData

# Error type of questions with several right answers, which are left out.
AMBIGUOUS = "AMBIGUOUS"
REMEDY = "Give a list of corrections as github.com/dial481/locomo-audit publishes it."


class Correction(BenchmarkRow):
    """The right answer and evidence of a question; a question without a right answer is left
    out.
    """

    question_id: Text
    question: Text
    error_type: str = ""
    correct_answer: str | int | float | None = None
    correct_evidence: tuple[str, ...] = ()

    @property
    def leaves_out(self) -> bool:
        """True if the question has no right answer."""
        return self.error_type == AMBIGUOUS or not str(self.correct_answer or "").strip()


class CorrectionCount(FrozenModel):
    """Numbers of questions with corrected gold, of questions left out, and of entries about other
    conversations.
    """

    entries: int
    corrected: int
    left_out: int
    elsewhere: int
    """Number of entries about questions that are not in the files."""

    @property
    def sentence(self) -> str:
        """The numbers as a sentence for reports."""
        return (
            f"{self.corrected} answers were corrected and {self.left_out} questions left out by "
            f"{self.entries} corrections; {self.elsewhere} are about other conversations"
        )


class Corrections:
    """The entries of an audit.

    Args:
        entries: entries of the audit's file.
    """

    def __init__(self, entries: Iterable[Correction]) -> None:
        self.entries = tuple(entries)
        self._by_question = {
            (entry.question_id, entry.question.strip()): entry for entry in self.entries
        }
        self._left_out = self._corrected = 0

    def apply(self, conversation: DatedConversation) -> DatedConversation:
        """Return the conversation with corrected gold, without the questions that are left out.

        Raises:
            BadData: the evidence of an entry is not a message of the conversation.
        """
        if not self.entries:
            return conversation
        ids = {message.id for message in conversation.messages}
        questions = []
        for question in conversation.questions:
            entry = self._by_question.get((question.position, question.text.strip()))
            if entry is None:
                questions.append(question)
            elif entry.leaves_out:
                self._left_out += 1
            else:
                self._corrected += 1
                questions.append(_corrected(question, entry, ids))
        return conversation.model_copy(update={"questions": tuple(questions)})

    @property
    def total(self) -> CorrectionCount:
        """Numbers of corrections in the conversations to which the entries were applied so far."""
        elsewhere = len(self.entries) - self._corrected - self._left_out
        return CorrectionCount(
            entries=len(self.entries),
            corrected=self._corrected,
            left_out=self._left_out,
            elsewhere=elsewhere,
        )


def _corrected(
    question: ConversationQuestion, entry: Correction, ids: set[str]
) -> ConversationQuestion:
    evidence = tuple(dict.fromkeys(re.findall(r"D\d+:\d+", " ".join(entry.correct_evidence))))
    missing = [message for message in evidence if message not in ids]
    if missing:
        raise BadData(
            f"corrections, entry '{entry.question_id}', field 'correct_evidence': there is no "
            f"message '{missing[0]}' in the conversation. Correct the entry, or use the "
            "corrections for these files."
        )
    update = {
        "gold": (str(entry.correct_answer),),
        "evidence": evidence or question.evidence,
        "is_corrected": True,
    }
    return question.model_copy(update=update)


def read_corrections(path: Path) -> Corrections:
    """Read the corrections of a file.

    Raises:
        MissingData: the file does not exist.
        BadData: an entry is malformed or duplicate; the error names record and field.
    """
    if not path.is_file():
        raise MissingData(f"the file of corrections '{path}' does not exist. {REMEDY}")
    return Corrections(read_unique(path, Correction, "question_id", REMEDY))
