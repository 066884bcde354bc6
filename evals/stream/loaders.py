"""Streams from files: Emend's own lines, or those of LongMemEval, MEME and MemoryAgentBench's conflict split.

LongMemEval (Wu et al. 2025) has for each question a history of dated sessions. The fields are those of
`longmemeval_s_cleaned.json` and its like: a list of objects with `question_id`, `question_type`, `question`,
`answer`, `question_date`, `haystack_session_ids`, `haystack_dates`, `haystack_sessions` (lists of `role`, `content`
and perhaps `has_answer`) and `answer_session_ids`.

MEME (Jung et al. 2026) has sessions of a user, with questions before and after a change from which others follow. The
fields are those of `meme_filler32k.json` and its like: a list of episodes with `episode_id`, `sessions`
(`session_id`, `timestamp`, `conversation` with `role` and `content`, and in those with evidence `gold_facts`), and
`before_questions` and `after_questions` (`timestamp`, `position_after_session`, `questions`).

MemoryAgentBench's conflict split (Hu et al. 2025) has numbered facts, of which a later one replaces an earlier one.
The columns are those of `Conflict_Resolution-00000-of-00001.parquet`: `context`, `questions`, `answers` (a list of
accepted answers for each question) and `metadata` with its `source`, such as `factconsolidation_mh_32k`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import AliasChoices, BaseModel, Field

from emend.evals.data.benchmarks.rows import read_text
from emend.evals.stream.turn import (
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
ABSTAINS = "_abs"
"""End of the ids of questions that have no answer."""
LONGMEMEVAL_KINDS: Mapping[str, QuestionKind] = {
    "single-session-user": "current",
    "single-session-assistant": "current",
    "single-session-preference": "preference",
    "multi-session": "multi_hop",
    "knowledge-update": "current",
    "temporal-reasoning": "historic",
}
_DATE = re.compile(r"^(\d{4})/(\d\d)/(\d\d)\D*(\d\d:\d\d)?$")


class _Message(BaseModel):
    role: str
    content: str
    has_answer: bool = False


class _Entry(BaseModel):
    question_id: str
    question_type: str
    question: str
    answer: str | int | float
    question_date: str = ""
    haystack_session_ids: list[str]
    haystack_dates: list[str]
    haystack_sessions: list[list[_Message]]
    answer_session_ids: list[str] = []


def longmemeval_stream(fields: Any, place: str) -> Iterator[StreamItem]:
    """The stream of a question: the messages of its history by date, then the question.

    Raises:
        BadData: it is no such entry; names the field.
    """
    entry = parse_fields(_Entry, fields, place, LONGMEMEVAL_REMEDY)
    lengths = {len(entry.haystack_session_ids), len(entry.haystack_dates), len(entry.haystack_sessions)}
    if len(lengths) > 1 or entry.question_type not in LONGMEMEVAL_KINDS:
        raise BadData(
            f"{place}: sessions, ids and dates differ in number, or its type is unknown. {LONGMEMEVAL_REMEDY}"
        )
    return _longmemeval_stream(entry)


def _longmemeval_stream(entry: _Entry) -> Iterator[StreamItem]:
    name = entry.question_id
    sessions = zip(entry.haystack_dates, entry.haystack_session_ids, entry.haystack_sessions, strict=True)
    turns: list[Turn] = []
    evidence: list[str] = []
    for number, (date, session, messages) in enumerate(sorted(sessions, key=lambda each: iso_date(each[0]))):
        new = _turns(name, number, session, date, messages)
        evidence += [turn.id for turn, message in zip(new, messages, strict=True) if message.has_answer]
        turns += new
    yield from turns
    is_unknown = name.endswith(ABSTAINS)
    yield StreamQuestion(
        id=name,
        stream=name,
        date=iso_date(entry.question_date),
        text=entry.question,
        kind="abstention" if is_unknown else LONGMEMEVAL_KINDS[entry.question_type],
        gold=() if is_unknown else (str(entry.answer),),
        evidence=tuple(evidence),
        hops=max(1, len(entry.answer_session_ids)),
        place=len(turns),
    )


def iso_date(date: str) -> str:
    """A date such as `2023/05/30 (Tue) 23:40` as ISO 8601; any other text as it is."""
    hit = _DATE.match(date.strip())
    return f"{hit[1]}-{hit[2]}-{hit[3]}{f' {hit[4]}' if hit[4] else ''}" if hit else date.strip()


MEME = "https://huggingface.co/datasets/meme-benchmark/MEME"
MEME_REMEDY = f"Give meme_filler32k.json, or another file of {MEME}."
MEME_KINDS: Mapping[str, QuestionKind] = {
    "ER": "current",
    "Agg": "multi_hop",
    "Tr": "historic",
    "Del": "deleted",
    "Cas": "cascade",
    "Abs": "absence",
}
"""By task, the kind of a question after the change; before it all ask what holds."""
FORMER: Mapping[str, WrongReason] = {"Del": "deleted", "Cas": "stale", "Abs": "stale"}
"""By task, the reason why the answer of before the change is wrong after it."""


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
        """The entities that it is about."""
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
    """The stream of an episode: its messages, with the questions after the sessions at which they are asked.

    Raises:
        BadData: it is no episode; names the field.
    """
    episode = parse_fields(_Episode, fields, place, MEME_REMEDY)
    before, after = episode.before_questions, episode.after_questions
    if {each.task_type for each in (*before.questions, *after.questions)} - MEME_KINDS.keys():
        raise BadData(f"{place}: the task of a question is none of {', '.join(MEME_KINDS)}. {MEME_REMEDY}")
    former = {(each.task_type, each.entities or each.question): each.answer for each in before.questions}
    turns: list[Turn] = []
    for number, session in enumerate(episode.sessions):
        new = _turns(episode.episode_id, number, session.session_id, session.timestamp, session.conversation)
        turns += new
        yield from new
        if number == before.position_after_session:
            yield from _ask(episode, before, "before", len(turns), {})
        if number == after.position_after_session:
            yield from _ask(episode, after, "after", len(turns), former)


def _turns(stream: str, number: int, session: str, date: str, messages: Sequence[_Message]) -> list[Turn]:
    """The messages of a session."""
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
    episode: _Episode, block: _Questions, time: str, place: int, former: Mapping[tuple[str, Any], str]
) -> Iterator[StreamQuestion]:
    for number, each in enumerate(block.questions):
        kind = MEME_KINDS[each.task_type] if time == "after" else "current"
        value = former.get((each.task_type, each.entities or each.question), "")
        reason = FORMER.get(each.task_type) if value and value != each.answer else None
        yield StreamQuestion(
            id=f"{episode.episode_id}:{time}:{number}",
            stream=episode.episode_id,
            date=iso_date(block.timestamp),
            text=each.question,
            kind=kind,
            gold=() if kind in ABSTAINING else (each.answer,),
            wrong=(WrongAnswer(value=value, why=reason),) if reason else (),
            evidence=_evidence(episode, each.entities, block.position_after_session),
            hops=max(1, each.hop or 1),
            place=place,
        )


def _evidence(episode: _Episode, entities: Sequence[str], last: int) -> tuple[str, ...]:
    """The messages of the sessions that state something of one of the entities."""
    return tuple(
        _turn_id(episode.episode_id, number, position)
        for number, session in enumerate(episode.sessions[: last + 1])
        if any(fact.entity in entities for fact in session.gold_facts)
        for position in range(len(session.conversation))
    )


CONFLICTS = "https://huggingface.co/datasets/ai-hyz/MemoryAgentBench"
CONFLICT = "factconsolidation"
COLUMNS = ("context", "questions", "answers", "metadata")
_FACT = re.compile(r"^\d+\. .+$", re.MULTILINE)
CONFLICT_REMEDY = f"Give Conflict_Resolution-00000-of-00001.parquet of {CONFLICTS}."


def read_memory_agent_bench(path: Path) -> list[StreamItem]:
    """A stream for each row about conflicts: its facts as turns, with their numbers, then its questions.

    Raises:
        MissingData: there is no such file.
        BadData: it is no such file.
    """
    if not path.is_file():
        raise MissingData(f"there is no file '{path}'. {CONFLICT_REMEDY}")
    items: list[StreamItem] = []
    for number, row in enumerate(_rows(path)):
        source = str((row["metadata"] or {}).get("source", ""))
        if source.startswith(CONFLICT):
            items.extend(_conflict_stream(source, row, f"{path}, row {number}"))
    if not items:
        raise BadData(f"{path} has no row whose metadata.source begins with '{CONFLICT}'. {CONFLICT_REMEDY}")
    return items


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    import duckdb  # lazily: it takes long to import

    try:
        with duckdb.connect() as database:
            result = database.execute("select * from read_parquet(?)", [str(path)])
            names = [column[0] for column in result.description or ()]
            rows = result.fetchall()
    except duckdb.Error as error:
        raise BadData(f"cannot read '{path}': {error}. {CONFLICT_REMEDY}") from error
    if lacking := [name for name in COLUMNS if name not in names]:
        raise BadData(f"{path} has no column {', '.join(lacking)}. {CONFLICT_REMEDY}")
    return (dict(zip(names, row, strict=True)) for row in rows)


def _conflict_stream(source: str, row: dict[str, Any], place: str) -> Iterator[StreamItem]:
    facts = _FACT.findall(str(row["context"]))
    questions, answers = row["questions"] or [], row["answers"] or []
    if not facts or len(questions) != len(answers):
        raise BadData(
            f"{place}: {len(facts)} numbered facts, {len(questions)} questions, {len(answers)} answers. "
            f"{CONFLICT_REMEDY}"
        )
    is_multi_hop = "_mh_" in source
    for number, fact in enumerate(facts):
        yield Turn(id=f"{source}:{number}", stream=source, session=source, text=fact)
    for number, (question, accepted) in enumerate(zip(questions, answers, strict=True)):
        yield StreamQuestion(
            id=f"{source}:q{number}",
            stream=source,
            text=str(question),
            kind="multi_hop" if is_multi_hop else "current",
            gold=tuple(map(str, accepted if isinstance(accepted, list) else [accepted])),
            hops=2 if is_multi_hop else 1,
            place=len(facts),
        )


REMEDY = f"{LONGMEMEVAL_REMEDY} {MEME_REMEDY}"


def _read_json(path: Path) -> list[StreamItem]:
    """LongMemEval's questions or MEME's episodes, each a stream of its own."""
    if not path.is_file():
        raise MissingData(f"there is no file '{path}'. {REMEDY}")
    entries = parse_json(read_text(path, REMEDY), str(path))
    if not (isinstance(entries, list) and entries):
        raise BadData(f"{path} is no list of questions or episodes. {REMEDY}")
    is_meme = isinstance(entries[0], dict) and "episode_id" in entries[0]
    read = meme_stream if is_meme else longmemeval_stream
    return [item for number, fields in enumerate(entries) for item in read(fields, f"{path}, entry {number}")]


READERS: Mapping[str, Callable[[Path], list[StreamItem]]] = {
    ".parquet": read_memory_agent_bench,
    ".json": _read_json,
}
"""By ending, the reader of a benchmark's file; any other file has Emend's lines."""


def load_stream(path: Path) -> list[StreamItem]:
    """The turns and questions of a file: MemoryAgentBench's `.parquet`, LongMemEval's or MEME's `.json`, Emend's lines.

    Raises:
        MissingData: there is no such file.
        BadData: it has another form; names the place.
    """
    return READERS.get(path.suffix.lower(), read_stream)(path)
