"""A user's own chats: logs with questions, written as lines that `emend retrieval`, `run` and
`stream run` read.

`emend data chats` writes `chats.jsonl` from chat logs and a file of questions, one per line:

    {"question": "Where do I live?", "answer": "Halden", "evidence": ["I moved to Halden"]}

`answer` is a text, a number or a list of accepted answers; without it, the right answer is that it
is not known. `evidence` has words of the evidence messages, or their ids. `kind`, `date` and
`conversation` are optional.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from emend.evals.data.benchmarks.base import Definition
from emend.evals.data.benchmarks.rows import BenchmarkRow, Text
from emend.evals.data.conversations.benchmark import CORRECTIONS, ConversationBenchmark
from emend.evals.data.conversations.chat_logs import json_lines, read_chat_log, shown
from emend.evals.data.conversations.conversation import (
    AnswerText,
    ConversationMessage,
    ConversationQuestion,
    DatedConversation,
    StreamKind,
)
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData, BadSettings, MissingData, problem_of
from emend.memory.files import replace_file

FILE = "chats.jsonl"
REMEDY = "Make the file with: emend data chats LOG --questions FILE --out FOLDER"
QUESTION_REMEDY = (
    'Write lines such as {"question": "Where do I live?", "answer": "Halden", "evidence": "I moved '
    'to Halden"}; see docs/how-to/chat-logs.md.'
)
Row = TypeVar("Row", bound=BenchmarkRow)
Chats = Mapping[str, Sequence[ConversationMessage]]


def as_tuple(value: Any) -> Any:
    """Return a list unchanged, None as an empty list, and anything else as a list with one item."""
    if value is None:
        return ()
    return value if isinstance(value, list) else [value]


Answers = Annotated[tuple[AnswerText, ...], BeforeValidator(as_tuple)]


class ChatQuestion(BenchmarkRow):
    """A user's question about their chats; a misspelt field is an error."""

    model_config = ConfigDict(extra="forbid")

    question: Text
    answer: Answers = ()
    evidence: Annotated[tuple[Text, ...], BeforeValidator(as_tuple)] = ()
    kind: StreamKind = "current"
    date: str = ""
    conversation: str = ""

    @field_validator("date")
    @classmethod
    def _is_date(cls, text: str) -> str:
        if text:
            try:
                datetime.fromisoformat(text)
            except ValueError:
                raise ValueError("it is not a date such as 2026-03-01") from None
        return text


class ChatCounts(FrozenModel):
    """Counts of the items that `emend data chats` read and wrote."""

    file: str
    conversations: int
    sessions: int
    messages: int
    undated: int
    questions: int
    without_evidence: int


def make_chats(logs: Sequence[Path], questions: Path, folder: Path) -> ChatCounts:
    """Write the lines of logs and questions into `chats.jsonl` in a folder.

    Args:
        logs: files of messages.
        questions: file of questions about them.
        folder: output folder, created if needed.

    Raises:
        MissingData: a file does not exist.
        BadData: a file is malformed, two logs have a conversation of the same name, or evidence
            matches no message or several; the error names position and field.
        BadSettings: the output is one of the files that are read.
    """
    path = folder / FILE
    if path.exists() and any(file.exists() and path.samefile(file) for file in (*logs, questions)):
        raise BadSettings(f"'{path}' is read, and would be overwritten: give another --out.")
    chats: dict[str, tuple[ConversationMessage, ...]] = {}
    for log in logs:
        for name, messages in read_chat_log(log).items():
            if name in chats:
                raise BadData(f"{log.name}: a second conversation '{name}': rename one of them.")
            chats[name] = messages
    if not questions.is_file():
        raise MissingData(
            f"the file of questions '{questions}' does not exist, or is not a file. "
            f"{QUESTION_REMEDY}"
        )
    rows = list(read_json_lines(questions, ChatQuestion, QUESTION_REMEDY))
    if not rows:
        raise BadData(f"{questions.name} has no question. {QUESTION_REMEDY}")
    by_chat: dict[str, list[dict[str, Any]]] = {}
    for number, (row, where) in enumerate(rows):
        name, line = _question_line(row, number, chats, where)
        by_chat.setdefault(name, []).append(line)
    folder.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(line, ensure_ascii=False) for line in _lines(chats, by_chat))
    replace_file(path, "".join(f"{line}\n" for line in lines).encode())
    everything = list(chain.from_iterable(chats.values()))
    sessions = {(name, message.session) for name, chat in chats.items() for message in chat}
    return ChatCounts(
        file=str(path),
        conversations=len(chats),
        sessions=len(sessions),
        messages=len(everything),
        undated=sum(not message.date for message in everything),
        questions=len(rows),
        without_evidence=sum(not row.evidence for row, _ in rows),
    )


def _lines(
    chats: Chats, by_chat: Mapping[str, Iterable[dict[str, Any]]]
) -> Iterator[dict[str, Any]]:
    for name, messages in chats.items():
        for message in messages:
            turn = {
                "id": f"{name}:{message.id}",
                "stream": name,
                "session": message.session,
                "date": message.date,
                "user": message.speaker if message.role == "user" else "user",
                "role": message.role,
                "text": message.text,
            }
            yield {"turn": turn}
        for question in by_chat.get(name, ()):
            yield {"question": question | {"place": len(messages)}}


def _question_line(
    row: ChatQuestion, number: int, chats: Chats, where: str
) -> tuple[str, dict[str, Any]]:
    """Return the conversation of a question, and the question's line.

    Raises:
        BadData: the conversation or the evidence does not exist; the error names the field.
    """
    if row.conversation and row.conversation not in chats:
        raise BadData(
            f"{where}, field 'conversation': unknown conversation {shown(row.conversation)}; "
            f"known: {', '.join(list(chats)[:5])}."
        )
    names = [row.conversation] if row.conversation else list(chats)
    places = [_place(text, names, chats, where) for text in row.evidence]
    conversations = list(dict.fromkeys(name for name, _ in places)) or names
    if len(conversations) > 1:
        raise BadData(
            f"{where}: it may be about {' or '.join(conversations[:3])}: name it in the field "
            "'conversation'."
        )
    line = {
        "id": f"{conversations[0]}:q{number}",
        "stream": conversations[0],
        "date": row.date,
        "text": row.question,
        "kind": row.kind if row.answer else "abstention",
        "gold": list(row.answer),
        "evidence": [f"{name}:{message}" for name, message in places],
    }
    return conversations[0], line


def _place(text: str, names: Sequence[str], chats: Chats, where: str) -> tuple[str, str]:
    """Return the conversation and the id of the only message that contains a text or has it as its
    id.
    """
    words = " ".join(text.casefold().split())
    places = []
    for name in names:
        for message in chats[name]:
            content = " ".join(message.text.casefold().split())
            if words in content or text in (message.id, f"{name}:{message.id}"):
                places.append((name, message.id))
    if len(places) != 1:
        raise BadData(
            f"{where}, field 'evidence': '{text[:60]}' is in {len(places)} messages: give words "
            "that occur in only one message."
        )
    return places[0]


def read_json_lines(path: Path, row_class: type[Row], remedy: str) -> Iterator[tuple[Row, str]]:
    """Yield the rows of a file of JSON lines, each with its position.

    Raises:
        BadData: a row is malformed; the error names line and field.
    """
    for value, where in json_lines(path):
        try:
            yield row_class.model_validate(value), where
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            field = ".".join(map(str, first["loc"]))
            position = f"{where}, field {shown(field)}" if field else where
            raise BadData(f"{position}: {problem_of(first)}. {remedy}") from error


class TurnLine(BenchmarkRow):
    """A message of `chats.jsonl`."""

    id: Text
    stream: str = ""
    session: str = ""
    date: str = ""
    user: Text = "user"
    role: Text = "user"
    text: str


class QuestionLine(BenchmarkRow):
    """A question of `chats.jsonl`."""

    id: Text
    stream: str = ""
    date: str = ""
    text: Text
    kind: StreamKind = "current"
    gold: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()


class ChatLine(BenchmarkRow):
    """A line of `chats.jsonl`: a message or a question."""

    turn: TurnLine | None = None
    question: QuestionLine | None = Field(default=None)


class OwnChats(ConversationBenchmark):
    """A user's own chats, with one case per conversation.

    Options: `corrections` = a file of an audit.
    """

    name: ClassVar[str] = "chats"
    definition = Definition.beside(__file__)
    defaults = {CORRECTIONS: ""}

    def __init__(self, data: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        super().__init__(data, options)
        self.file = self.first_file((FILE,))

    def _read(self) -> Iterator[tuple[DatedConversation, str]]:
        messages: dict[str, list[ConversationMessage]] = {}
        questions: dict[str, list[ConversationQuestion]] = {}
        for line, _ in read_json_lines(self.folder / self.file, ChatLine, REMEDY):
            if line.turn is not None:
                messages.setdefault(line.turn.stream, []).append(_message(line.turn))
            if line.question is not None:
                question = _question(line.question)
                questions.setdefault(line.question.stream, []).append(question)
        for name in dict.fromkeys([*messages, *questions]):
            conversation = DatedConversation(
                id=name,
                messages=tuple(messages.get(name, ())),
                questions=tuple(questions.get(name, ())),
            )
            yield conversation, f"{self.file}, conversation '{name}'"

    def _records(self) -> Mapping[str, int | None]:
        return {self.file: None}


def _message(turn: TurnLine) -> ConversationMessage:
    return ConversationMessage(
        id=turn.id.removeprefix(f"{turn.stream}:"),
        session=turn.session,
        date=turn.date,
        speaker=turn.user if turn.role == "user" else turn.role,
        role=turn.role,
        text=turn.text,
    )


def _question(line: QuestionLine) -> ConversationQuestion:
    prefix = f"{line.stream}:"
    return ConversationQuestion(
        id=line.id.removeprefix(f"{prefix}q"),
        kind=line.kind,
        stream_kind=line.kind,
        text=line.text,
        date=line.date,
        gold=line.gold,
        evidence=tuple(message.removeprefix(prefix) for message in line.evidence),
        scorers=("equivalence",) if line.gold else (),
    )
