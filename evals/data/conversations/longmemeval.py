"""LongMemEval: questions about a user's dated sessions with an assistant, with a separate history
for each question.

"LongMemEval: Benchmarking Chat Assistants on Long-Term Interactive Memory" (Wu et al. 2025); data:
huggingface.co/datasets/xiaowu0162/longmemeval-cleaned. A record, shortened:

    {"question_id": "q1", "question_type": "knowledge-update", "question": "Where do I live?",
      "answer": "Halden",
     "question_date": "2023/06/01 (Thu) 09:00", "haystack_session_ids": ["s1"],
     "haystack_dates": ["2023/05/30 (Tue) 23:40"], "answer_session_ids": ["s1"],
     "haystack_sessions": [[{"role": "user", "content": "I moved to Halden.", "has_answer": true}]]}

The right answer to questions with ids ending in `_abs` is that it is not known.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from emend.evals.data.benchmarks.base import Definition
from emend.evals.data.benchmarks.rows import BenchmarkRow, Text, read_unique
from emend.evals.data.conversations.benchmark import CORRECTIONS, ConversationBenchmark
from emend.evals.data.conversations.conversation import (
    AnswerText,
    ConversationMessage,
    ConversationQuestion,
    DatedConversation,
    StreamKind,
    iso_date,
)
from emend.memory.errors import BadData

SIZE = "size"
# File names by size of the histories; `oracle` has only the sessions with evidence.
FILES: Mapping[str, tuple[str, ...]] = {
    "s": ("longmemeval_s_cleaned.json", "longmemeval_s.json"),
    "m": ("longmemeval_m_cleaned.json", "longmemeval_m.json"),
    "oracle": ("longmemeval_oracle.json",),
}
# Suffix of the ids of unanswerable questions.
ABSTAINS = "_abs"
# Criterion of the judge `remembered` by type of question; `answer` for other types.
CRITERIA: Mapping[str, str] = {
    "single-session-preference": "preference",
    "knowledge-update": "update",
    "temporal-reasoning": "temporal",
}
KINDS: Mapping[str, StreamKind] = {
    "single-session-user": "current",
    "single-session-assistant": "current",
    "single-session-preference": "preference",
    "multi-session": "multi_hop",
    "knowledge-update": "current",
    "temporal-reasoning": "historic",
}
UPDATE = "knowledge-update"
SOURCE = "huggingface.co/datasets/xiaowu0162/longmemeval-cleaned"


class HistoryMessage(BenchmarkRow):
    """A message; `has_answer` marks evidence."""

    role: Text
    content: str
    has_answer: bool | None = False


class HistoryRow(BenchmarkRow):
    """A question with its history."""

    question_id: Text
    question_type: Text
    question: Text
    answer: AnswerText
    question_date: str = ""
    haystack_session_ids: list[str]
    haystack_dates: list[str]
    haystack_sessions: list[list[HistoryMessage]]
    answer_session_ids: list[str] = []


class LongMemEval(ConversationBenchmark):
    """LongMemEval, with one case per history and its question.

    Options: `size` = `s` (default; 115,000 tokens a history), `m` or `oracle`; `corrections` = a
    file of an audit.
    """

    name: ClassVar[str] = "longmemeval"
    definition = Definition.beside(__file__)
    defaults = {SIZE: "s", CORRECTIONS: ""}
    values = {SIZE: tuple(FILES)}

    def __init__(self, data: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        super().__init__(data, options)
        self.file = self.first_file(FILES[self.options[SIZE]])

    def _read(self) -> Iterator[tuple[DatedConversation, str]]:
        rows = read_unique(self.folder / self.file, HistoryRow, "question_id")
        for number, row in enumerate(rows):
            where = f"{self.file}, record {number}"
            yield history_conversation(row, where), where

    def _records(self) -> Mapping[str, int | None]:
        return {self.file: len(self.conversations)}


def history_conversation(row: HistoryRow, where: str) -> DatedConversation:
    """Return the messages of a history in order of their sessions' dates, with its question.

    For an update, the newest session with evidence has the new statement, and the others have the
    outdated one.

    Args:
        row: record of the file.
        where: file and record, for errors.

    Raises:
        BadData: sessions, ids and dates differ in number, or a type or date is unknown; the error
            names the field.
    """
    lengths = {len(row.haystack_session_ids), len(row.haystack_dates), len(row.haystack_sessions)}
    if len(lengths) > 1:
        raise _bad(where, "haystack_sessions", "sessions, ids and dates differ in number")
    if row.question_type not in KINDS:
        raise _bad(
            where, "question_type", f"'{row.question_type}' is not one of {', '.join(KINDS)}"
        )
    messages, evidence, sessions = list[ConversationMessage](), list[str](), list[str]()
    dates = [
        iso_date(date, f"{where}, field 'haystack_dates.{i}'")
        for i, date in enumerate(row.haystack_dates)
    ]
    order = sorted(range(len(dates)), key=dates.__getitem__)
    for number, index in enumerate(order):
        for position, message in enumerate(row.haystack_sessions[index]):
            name = f"{number}:{position}"
            role = "assistant" if message.role == "assistant" else "user"
            messages.append(
                ConversationMessage(
                    id=name,
                    session=str(number),
                    date=dates[index],
                    speaker=role,
                    role=role,
                    text=message.content,
                )
            )
            if message.has_answer:
                evidence.append(name)
                sessions.append(str(number))
    question = _question(row, evidence, sessions, where)
    return DatedConversation(id=row.question_id, messages=tuple(messages), questions=(question,))


def _question(
    row: HistoryRow, evidence: list[str], sessions: list[str], where: str
) -> ConversationQuestion:
    is_unknown = row.question_id.endswith(ABSTAINS)
    newest = sessions[-1] if sessions else ""
    is_update = row.question_type == UPDATE and len(set(sessions)) > 1
    if is_update:
        pairs = list(zip(evidence, sessions, strict=True))
    else:
        pairs = []
    return ConversationQuestion(
        id="0",
        kind="abstention" if is_unknown else row.question_type.replace("-", "_"),
        stream_kind="abstention" if is_unknown else KINDS[row.question_type],
        text=row.question,
        date=iso_date(row.question_date, f"{where}, field 'question_date'"),
        gold=() if is_unknown else (row.answer,),
        evidence=tuple(evidence),
        newer=tuple(name for name, session in pairs if session == newest),
        outdated=tuple(name for name, session in pairs if session != newest),
        position=row.question_id,
        scorers=() if is_unknown else ("equivalence",),
        rubric=(" ".join(row.answer.split()),) if is_unknown else (),
        criterion="abstention" if is_unknown else CRITERIA.get(row.question_type, "answer"),
    )


def _bad(where: str, field: str, problem: str) -> BadData:
    return BadData(
        f"{where}, field '{field}': {problem}. Give longmemeval_s_cleaned.json, or "
        f"another of {SOURCE}."
    )
