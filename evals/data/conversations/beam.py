"""BEAM: long conversations of a user with an assistant, with probing questions of ten kinds.

"Beyond a Million Tokens" (Tavakoli et al. 2025); data: github.com/mohammadtavakoli78/BEAM, folder
chats/. A conversation is a folder with `chat.json` and `probing_questions/probing_questions.json`,
or a file with both:

    {"chat": [{"batch_number": 1, "time_anchor": "March-15-2024", "turns": [[
        {"role": "user", "id": 0, "content": "I have 45 sources in my library ->-> 1,1"},
        {"role": "assistant", "id": 1, "content": "Well done."}]]}],
     "probing_questions": {"knowledge_update": [{"question": "How many sources do I have?",
       "answer": "52",
        "rubric": ["LLM response should state: 52"],
        "source_chat_ids": {"original_info": [0], "updated_info": [2]}}]}}

In the conversations of ten million tokens, batches are nested in plans. The right answer to a
question of kind `abstention` is that the conversation does not say it.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, ValidationError

from emend.evals.data.benchmarks.base import Definition
from emend.evals.data.benchmarks.rows import BenchmarkRow, Text, require
from emend.evals.data.conversations.benchmark import CORRECTIONS, ConversationBenchmark
from emend.evals.data.conversations.conversation import (
    AnswerText,
    ConversationMessage,
    ConversationQuestion,
    DatedConversation,
    StreamKind,
    iso_date,
)
from emend.memory.errors import BadData, MissingData, field_problem
from emend.memory.json_files import read_json
from emend.memory.retrieval.conversations.turns import natural_key

ROLES = "roles"
QUESTIONS = "probing_questions"
# Number of conversations with 100,000 tokens.
CONVERSATIONS = 20
KINDS: Mapping[str, StreamKind] = {
    "abstention": "abstention",
    "contradiction_resolution": "current",
    "event_ordering": "historic",
    "information_extraction": "current",
    "instruction_following": "preference",
    "knowledge_update": "current",
    "multi_session_reasoning": "multi_hop",
    "preference_following": "preference",
    "summarization": "set",
    "temporal_reasoning": "historic",
}
# Scorers of the kinds of questions with short answers, or with a list of events.
SCORERS: Mapping[str, tuple[str, ...]] = {
    "event_ordering": ("event_order",),
    "information_extraction": ("equivalence",),
    "knowledge_update": ("equivalence",),
    "multi_session_reasoning": ("equivalence",),
    "temporal_reasoning": ("equivalence",),
}
_INDEX = re.compile(r"\s*->->.*\Z", re.DOTALL)


def read_rubric(value: Any) -> Any:
    """Return the statements of a rubric, each on one line; a few files have the list as text.

    Raises:
        ValueError: a text begins like a list, but is not one.
    """
    if isinstance(value, str) and value.strip().startswith("["):
        try:
            value = ast.literal_eval(value.strip())
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ValueError("it begins like a list, but is not one") from error
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list):
        return [" ".join(text.split()) if isinstance(text, str) else text for text in value]
    return () if value is None else value


class ChatMessage(BenchmarkRow):
    """A message; a user's message ends with the number of its bullet in the conversation plan."""

    id: int
    role: Text
    content: str
    time_anchor: str | None = None


class ChatBatch(BenchmarkRow):
    """A session: turns of messages, and the start date."""

    batch_number: int
    time_anchor: str | None = None
    turns: tuple[tuple[ChatMessage, ...], ...]

    @property
    def messages(self) -> Iterator[ChatMessage]:
        """The messages of all turns."""
        return chain.from_iterable(self.turns)


def message_ids(value: Any) -> tuple[int, ...]:
    """Return the distinct numbers in nested lists and dicts.

    Raises:
        ValueError: they contain something else.
    """
    if value is None:
        return ()
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return tuple(dict.fromkeys(chain.from_iterable(map(message_ids, value))))
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{value!r} is not the id of a message")
    return (value,)


def check_ids(value: Any) -> Any:
    """Return the value, if it contains only message ids.

    Raises:
        ValueError: the value contains something else.
    """
    message_ids(value)
    return value


class ProbingQuestion(BenchmarkRow):
    """A question with its answer and the ids of its evidence messages: a list, or several lists by
    part.
    """

    question: Text
    answer: AnswerText = Field(
        validation_alias=AliasChoices(
            "answer", "ideal_answer", "ideal_response", "ideal_summary", "expected_compliance"
        )
    )
    source_chat_ids: Annotated[dict[str, Any] | list[Any] | None, AfterValidator(check_ids)] = None
    rubric: Annotated[tuple[Text, ...], BeforeValidator(read_rubric)] = ()

    @property
    def evidence(self) -> tuple[int, ...]:
        """The distinct ids of all parts.

        Raises:
            ValueError: an id is not a number.
        """
        return message_ids(self.source_chat_ids)

    def ids_of(self, part: str) -> tuple[int, ...]:
        """Return the ids of one part, such as `updated_info`; empty if the ids have no parts."""
        parts = self.source_chat_ids
        if isinstance(parts, dict):
            return message_ids(parts.get(part))
        return ()


class ChatFile(BenchmarkRow):
    """A conversation with its questions by kind."""

    chat: Annotated[tuple[ChatBatch, ...], Field(min_length=1)]
    probing_questions: dict[str, tuple[ProbingQuestion, ...]]


class BEAM(ConversationBenchmark):
    """BEAM, with one case per conversation.

    Options: `roles` = `all` (default), or `user` for the user's messages alone; `corrections` = a
    file of an audit.
    """

    name: ClassVar[str] = "beam"
    definition = Definition.beside(__file__)
    defaults = {ROLES: "all", CORRECTIONS: ""}
    values = {ROLES: ("all", "user")}

    def __init__(self, data: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        super().__init__(data, options)
        self.files = conversation_files(self.folder)
        if not self.files:
            raise MissingData(
                f"'{self.folder}' has no conversation of BEAM. {self.definition.remedy}"
            )
        require(self.folder, self._records(), self.definition.remedy)

    def _read(self) -> Iterator[tuple[DatedConversation, str]]:
        for name, paths in self.files.items():
            yield read_conversation(name, paths, self.options[ROLES] == "all"), paths[0].name

    def _records(self) -> Mapping[str, int | None]:
        paths = chain.from_iterable(self.files.values())
        return {path.relative_to(self.folder).as_posix(): None for path in paths}


def conversation_files(folder: Path) -> dict[str, tuple[Path, ...]]:
    """Return the files of each conversation in numeric order: one file with both parts, or the chat
    and the questions.
    """
    single = {path.stem: (path,) for path in folder.glob("*.json") if path.stem.isdigit()}
    pairs = {
        "-".join(chat.parent.relative_to(folder).parts): (
            chat,
            chat.parent / QUESTIONS / f"{QUESTIONS}.json",
        )
        for chat in folder.glob("**/chat.json")
        if (chat.parent / QUESTIONS / f"{QUESTIONS}.json").is_file()
    }
    files: dict[str, tuple[Path, ...]] = {**pairs, **single}
    return {name: files[name] for name in sorted(files, key=natural_key)}


def read_conversation(name: str, paths: Sequence[Path], with_assistant: bool) -> DatedConversation:
    """Read a conversation from one file, or from a chat and its questions.

    Raises:
        BadData: a file is malformed; the error names the field.
    """
    contents = [read_json(path, links=True) for path in paths]
    if len(contents) == 1:
        content = contents[0]
    else:
        content = {"chat": _batches(contents[0]), QUESTIONS: contents[1]}
    where = "/".join(paths[0].parts[-2:])
    try:
        row = ChatFile.model_validate(content)
        messages = tuple(_messages(row, where, with_assistant))
        questions = tuple(_questions(row, {message.id for message in messages}, where))
    except ValidationError as error:
        raise BadData(
            f"{where}, {field_problem(error)}. Correct the record or fetch the file again."
        ) from error
    return DatedConversation(id=f"beam-{name}", messages=messages, questions=questions)


def _batches(content: Any) -> Any:
    """Return the batches of a chat, including batches nested in plans."""
    if not isinstance(content, list):
        return content
    nested = [
        value
        for each in content
        if isinstance(each, dict) and "turns" not in each
        for value in each.values()
    ]
    lists = [value for value in nested if isinstance(value, list)]
    if lists:
        return list(chain.from_iterable(lists))
    return content


def _messages(row: ChatFile, where: str, with_assistant: bool) -> Iterator[ConversationMessage]:
    """Yield the messages with the date of their batch, without the number of their bullet."""
    for number, batch in enumerate(row.chat):
        anchors = (message.time_anchor for message in batch.messages if message.time_anchor)
        anchor = batch.time_anchor or next(anchors, None) or ""
        date = iso_date(anchor, f"{where}, field 'chat.{number}.time_anchor'")
        for message in batch.messages:
            if with_assistant or message.role == "user":
                yield ConversationMessage(
                    id=str(message.id),
                    session=str(batch.batch_number),
                    date=date,
                    speaker=message.role,
                    role="assistant" if message.role == "assistant" else "user",
                    text=_INDEX.sub("", message.content),
                )


def _questions(row: ChatFile, ids: set[str], where: str) -> Iterator[ConversationQuestion]:
    """Yield the questions by kind; evidence is left out with the messages that were left out."""
    all_ids = {str(message.id) for batch in row.chat for message in batch.messages}
    for kind, questions in row.probing_questions.items():
        if kind not in KINDS:
            raise BadData(
                f"{where}, field '{QUESTIONS}': unknown kind '{kind}'; known: {', '.join(KINDS)}."
            )
        for number, question in enumerate(questions):
            used = _known(
                question.evidence,
                all_ids,
                f"{where}, field '{QUESTIONS}.{kind}.{number}.source_chat_ids'",
            )
            newer, outdated = (
                _strings(question.ids_of(part)) for part in ("updated_info", "original_info")
            )
            yield ConversationQuestion(
                id=f"{kind}:{number}",
                kind=kind,
                stream_kind=KINDS[kind],
                text=question.question,
                gold=() if kind == "abstention" else (question.answer,),
                evidence=tuple(name for name in used if name in ids),
                newer=tuple(name for name in newer if name in ids),
                outdated=tuple(name for name in outdated if name in ids),
                position=f"{kind}_{number}",
                scorers=SCORERS.get(kind, ()),
                rubric=question.rubric,
            )


def _strings(numbers: Sequence[int]) -> tuple[str, ...]:
    return tuple(map(str, numbers))


def _known(numbers: Sequence[int], ids: set[str], where: str) -> tuple[str, ...]:
    """Convert numbers to ids of messages.

    Raises:
        BadData: no message has the number.
    """
    names = _strings(numbers)
    missing = [name for name in names if name not in ids]
    if missing:
        raise BadData(
            f"{where}: there is no message {missing[0]}. Correct the record or fetch the "
            "file again."
        )
    return names
