"""LongMemEval (Wu et al. 2025): for each question a history of dated sessions; ids that end in `_abs` abstain.

The fields are those of `longmemeval_s_cleaned.json` and its like: a list of objects with `question_id`,
`question_type`, `question`, `answer`, `question_date`, `haystack_session_ids`, `haystack_dates`, `haystack_sessions`
(lists of `role`, `content` and perhaps `has_answer`) and `answer_session_ids`.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from emend.evals.stream.turn import QuestionKind, StreamItem, StreamQuestion, Turn
from emend.memory.errors import BadData

SOURCE = "https://huggingface.co/datasets/xiaowu0162/longmemeval-cleaned"
REMEDY = f"Give longmemeval_s_cleaned.json, or another file of {SOURCE}."
ABSTAINS = "_abs"
KINDS: Mapping[str, QuestionKind] = {
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
    return _stream(_entry(fields, place))


def _entry(fields: Any, place: str) -> _Entry:
    try:
        entry = _Entry.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise BadData(f"{place}, {'.'.join(map(str, first['loc']))}: {first['msg']}. {REMEDY}") from error
    lengths = {len(entry.haystack_session_ids), len(entry.haystack_dates), len(entry.haystack_sessions)}
    if len(lengths) > 1 or entry.question_type not in KINDS:
        raise BadData(f"{place}: sessions, ids and dates differ in number, or its type is unknown. {REMEDY}")
    return entry


def _stream(entry: _Entry) -> Iterator[StreamItem]:
    name = entry.question_id
    sessions = zip(entry.haystack_dates, entry.haystack_session_ids, entry.haystack_sessions, strict=True)
    evidence: list[str] = []
    place = 0
    for number, (date, session, messages) in enumerate(sorted(sessions, key=lambda each: iso_date(each[0]))):
        for position, message in enumerate(messages):
            turn = f"{name}:{number}:{position}"
            evidence.extend([turn] if message.has_answer else ())
            place += 1
            role = "assistant" if message.role == "assistant" else "user"
            yield Turn(id=turn, stream=name, session=session, date=iso_date(date), role=role, text=message.content)
    is_unknown = name.endswith(ABSTAINS)
    yield StreamQuestion(
        id=name,
        stream=name,
        date=iso_date(entry.question_date),
        text=entry.question,
        kind="abstention" if is_unknown else KINDS[entry.question_type],
        gold=() if is_unknown else (str(entry.answer),),
        evidence=tuple(evidence),
        hops=max(1, len(entry.answer_session_ids)),
        place=place,
    )


def iso_date(date: str) -> str:
    """A date such as `2023/05/30 (Tue) 23:40` as ISO 8601; any other text as it is."""
    hit = _DATE.match(date.strip())
    return f"{hit[1]}-{hit[2]}-{hit[3]}{f' {hit[4]}' if hit[4] else ''}" if hit else date.strip()
