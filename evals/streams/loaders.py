"""Loaders of stream files: Emend's own JSON Lines and the files of benchmarks.

`evals/data/conversations` reads LoCoMo, BEAM, LongMemEval and MemoryAgentBench. MEME (Jung et al.
2026) has sessions of a user, with questions before and after a change that affects other facts. Its
files, such as `meme_filler32k.json`, are lists of episodes with `episode_id`, `sessions`
(`session_id`, `timestamp`, `conversation` with `role` and `content`, and, in sessions with
evidence, `gold_facts`), and `before_questions` and `after_questions` (`timestamp`,
`position_after_session`, `questions`).
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import AliasChoices, BaseModel, Field

from emend.evals.data.benchmarks.rows import read_text
from emend.evals.data.conversations.beam import conversation_files, read_conversation
from emend.evals.data.conversations.conversation import DatedConversation, check_conversation
from emend.evals.data.conversations.corrections import Corrections
from emend.evals.data.conversations.locomo import read_locomo
from emend.evals.data.conversations.longmemeval import HistoryRow, history_conversation
from emend.evals.data.conversations.memory_agent_bench import REMEDY as PARQUET_REMEDY
from emend.evals.data.conversations.memory_agent_bench import read_contexts
from emend.evals.streams.turn import (
    ABSTAINING,
    QuestionKind,
    StreamItem,
    StreamQuestion,
    Turn,
    WrongAnswer,
    WrongReason,
    parse_fields,
    read_stream,
)
from emend.memory.errors import BadData, MissingData
from emend.memory.json_files import parse_json

LONGMEMEVAL = "https://huggingface.co/datasets/xiaowu0162/longmemeval-cleaned"
LONGMEMEVAL_REMEDY = f"Give longmemeval_s_cleaned.json, or another file of {LONGMEMEVAL}."


def conversation_stream(
    conversation: DatedConversation, single: bool = False
) -> Iterator[StreamItem]:
    """Yield the messages of a conversation as turns, then its questions.

    Args:
        conversation: the conversation.
        single: give its only question the id of the conversation.
    """
    name = conversation.id
    for message in conversation.messages:
        speaker = message.speaker
        if speaker == message.role:
            speaker = ""
        yield Turn(
            id=f"{name}:{message.id}",
            stream=name,
            session=message.session,
            date=message.date,
            role=message.role,
            speaker=speaker,
            text=message.text,
        )
    turns = [message.id for message in conversation.messages]
    for question in conversation.questions:
        question_id, hops = f"{name}:q{question.id}", 1
        if single:
            question_id = name
        if question.stream_kind == "multi_hop":
            hops = max(1, len(question.evidence))
        yield StreamQuestion(
            id=question_id,
            stream=name,
            date=question.date,
            text=question.text,
            kind=question.stream_kind,
            gold=question.gold,
            wrong=tuple(WrongAnswer(value=value) for value in question.wrong),
            evidence=tuple(f"{name}:{message}" for message in question.evidence),
            hops=hops,
            age=_age(turns, question.evidence),
            place=len(turns),
            category=question.kind,
            all_golds=question.all_golds,
            scorers=question.scorers,
            rubric=question.rubric,
            criterion=question.criterion,
        )


def _age(turns: Sequence[str], evidence: Collection[str]) -> int:
    """Return the number of turns since the last evidence turn, by ids; 0 without evidence."""
    numbers = (number for number, turn in enumerate(turns, 1) if turn in evidence)
    return len(turns) - max(numbers, default=len(turns))


def longmemeval_stream(fields: Any, place: str) -> Iterator[StreamItem]:
    """Return the stream of a LongMemEval entry: its messages by date, then its question."""
    row = parse_fields(HistoryRow, fields, place, LONGMEMEVAL_REMEDY)
    return conversation_stream(history_conversation(row, place), single=True)


class _Message(BaseModel):
    role: str
    content: str


_DATE = re.compile(r"^(\d{4})/(\d\d)/(\d\d)\D*(\d\d:\d\d)?$")


def iso_date(date: str) -> str:
    """Convert a date such as `2023/05/30 (Tue) 23:40` to ISO 8601; return other texts unchanged."""
    hit = _DATE.match(date.strip())
    if hit is None:
        return date.strip()
    year, month, day, time = hit.groups()
    if time:
        return f"{year}-{month}-{day} {time}"
    return f"{year}-{month}-{day}"


MEME = "https://huggingface.co/datasets/meme-benchmark/MEME"
MEME_REMEDY = f"Give meme_filler32k.json, or another file of {MEME}."
# Kind, by task, of the questions after the change; all questions before it are about current facts.
MEME_KINDS: Mapping[str, QuestionKind] = {
    "ER": "current",
    "Agg": "multi_hop",
    "Tr": "historic",
    "Del": "deleted",
    "Cas": "cascade",
    "Abs": "absence",
}
# Reason, by task, why the answer from before the change is wrong after it.
FORMER: Mapping[str, WrongReason] = {"Del": "deleted", "Cas": "stale", "Abs": "stale"}


class _Fact(BaseModel):
    entity: str = ""


class _Session(BaseModel):
    session_id: str
    timestamp: str = ""
    conversation: list[_Message]
    gold_facts: list[_Fact] = []


class _Question(BaseModel):
    task_type: str
    question: str
    answer: str = Field(validation_alias=AliasChoices("gold_answer", "expected_answer"))
    entity: str | list[str] = []
    hop: int | None = None

    @property
    def entities(self) -> tuple[str, ...]:
        """The entities that the question is about."""
        return (self.entity,) if isinstance(self.entity, str) else tuple(self.entity)


class _Questions(BaseModel):
    timestamp: str = ""
    position_after_session: int
    questions: list[_Question]


class _Episode(BaseModel):
    episode_id: str
    sessions: list[_Session]
    before_questions: _Questions
    after_questions: _Questions


def meme_stream(fields: Any, place: str) -> Iterator[StreamItem]:
    """Yield the stream of a MEME episode: its messages, with the questions after their sessions.

    Raises:
        BadData: the episode is invalid; the message names the field.
    """
    episode = parse_fields(_Episode, fields, place, MEME_REMEDY)
    before, after = episode.before_questions, episode.after_questions
    if {each.task_type for each in (*before.questions, *after.questions)} - MEME_KINDS.keys():
        raise BadData(
            f"{place}: the task of a question is not one of {', '.join(MEME_KINDS)}. {MEME_REMEDY}"
        )
    former = {
        (each.task_type, each.entities or each.question): each.answer for each in before.questions
    }
    turns: list[Turn] = []
    for number, session in enumerate(episode.sessions):
        new = _turns(
            episode.episode_id, number, session.session_id, session.timestamp, session.conversation
        )
        turns += new
        yield from new
        if number == before.position_after_session:
            yield from _ask(episode, before, "before", turns, {})
        if number == after.position_after_session:
            yield from _ask(episode, after, "after", turns, former)


def _turns(
    stream: str, number: int, session: str, date: str, messages: Sequence[_Message]
) -> list[Turn]:
    """Return the messages of a session as turns."""
    return [
        Turn(
            id=_turn_id(stream, number, position),
            stream=stream,
            session=session,
            date=iso_date(date),
            role="assistant" if message.role == "assistant" else "user",
            text=message.content,
        )
        for position, message in enumerate(messages)
    ]


def _turn_id(stream: str, session: int, position: int) -> str:
    return f"{stream}:{session}:{position}"


def _ask(
    episode: _Episode,
    block: _Questions,
    time: str,
    turns: Sequence[Turn],
    former: Mapping[tuple[str, Any], str],
) -> Iterator[StreamQuestion]:
    turn_ids = [turn.id for turn in turns]
    for number, each in enumerate(block.questions):
        kind: QuestionKind = "current"
        if time == "after":
            kind = MEME_KINDS[each.task_type]
        gold: tuple[str, ...] = (each.answer,)
        if kind in ABSTAINING:
            gold = ()
        value = former.get((each.task_type, each.entities or each.question), "")
        reason = FORMER.get(each.task_type)
        wrong: tuple[WrongAnswer, ...] = ()
        if reason and value and value != each.answer:
            wrong = (WrongAnswer(value=value, why=reason),)
        evidence = _evidence(episode, each.entities, block.position_after_session)
        yield StreamQuestion(
            id=f"{episode.episode_id}:{time}:{number}",
            stream=episode.episode_id,
            date=iso_date(block.timestamp),
            text=each.question,
            kind=kind,
            gold=gold,
            wrong=wrong,
            evidence=evidence,
            hops=max(1, each.hop or 1),
            age=_age(turn_ids, evidence),
            place=len(turns),
        )


def _evidence(episode: _Episode, entities: Sequence[str], last: int) -> tuple[str, ...]:
    """Return the ids of all messages in sessions whose gold facts concern one of the entities."""
    messages: list[str] = []
    for number, session in enumerate(episode.sessions[: last + 1]):
        if any(fact.entity in entities for fact in session.gold_facts):
            positions = range(len(session.conversation))
            messages += (_turn_id(episode.episode_id, number, position) for position in positions)
    return tuple(messages)


def read_memory_agent_bench(path: Path) -> list[StreamItem]:
    """Read a stream for each context: its pieces or numbered facts as turns, then its questions.

    Raises:
        MissingData: there is no such file.
        BadData: the file is not one of MemoryAgentBench.
    """
    if not path.is_file():
        raise MissingData(f"the file '{path}' does not exist. {PARQUET_REMEDY}")
    return [
        item for conversation in read_contexts(path) for item in conversation_stream(conversation)
    ]


REMEDY = f"{LONGMEMEVAL_REMEDY} {MEME_REMEDY}"


def _read_json(path: Path, audit: Corrections) -> list[StreamItem]:
    """Read conversations, questions or episodes from a JSON file, each as its own stream."""
    if not path.is_file():
        raise MissingData(f"the file '{path}' does not exist. {REMEDY}")
    entries = parse_json(read_text(path, REMEDY), str(path))
    if isinstance(entries, dict) and "chat" in entries:
        return list(conversation_stream(read_conversation(path.stem, (path,), with_assistant=True)))
    if not (isinstance(entries, list) and entries):
        raise BadData(f"{path} is not a list of questions or episodes. {REMEDY}")
    if isinstance(entries[0], dict) and "conversation" in entries[0] and "qa" in entries[0]:
        conversations = (
            audit.apply(check_conversation(each, where)) for each, where in read_locomo(path)
        )
        return [
            item for conversation in conversations for item in conversation_stream(conversation)
        ]
    is_meme = isinstance(entries[0], dict) and "episode_id" in entries[0]
    read = meme_stream if is_meme else longmemeval_stream
    return [
        item
        for number, fields in enumerate(entries)
        for item in read(fields, f"{path}, entry {number}")
    ]


def load_stream(path: Path, audit: Corrections | None = None) -> list[StreamItem]:
    """Load the turns and questions of a file.

    A `.parquet` file is read as MemoryAgentBench, a `.json` file as another benchmark's, and any
    other file as Emend's lines. LoCoMo, BEAM (also a folder of conversations), LongMemEval and MEME
    are distinguished by their fields.

    Args:
        path: a file or folder.
        audit: corrections of LoCoMo's answers.

    Raises:
        MissingData: there is no such file.
        BadData: the content is invalid; the message names the position.
    """
    if path.is_dir():
        return _read_beam(path)
    if path.suffix.lower() == ".json":
        return _read_json(path, audit or Corrections(()))
    return read_memory_agent_bench(path) if path.suffix.lower() == ".parquet" else read_stream(path)


def _read_beam(folder: Path) -> list[StreamItem]:
    """Read the conversations in a folder of BEAM, each as its own stream.

    Raises:
        MissingData: there is none.
    """
    files = conversation_files(folder)
    if not files:
        raise MissingData(f"'{folder}' has no conversation of BEAM. {REMEDY}")
    conversations = (
        read_conversation(name, paths, with_assistant=True) for name, paths in files.items()
    )
    return [item for conversation in conversations for item in conversation_stream(conversation)]
