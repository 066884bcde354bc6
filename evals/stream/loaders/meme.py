"""MEME (Jung et al. 2026): sessions of a user, with questions before and after a change from which others follow.

The fields are those of `meme_filler32k.json` and its like: a list of episodes with `episode_id`, `sessions`
(`session_id`, `timestamp`, `conversation` with `role` and `content`, and in those with evidence `gold_facts`), and
`before_questions` and `after_questions` (`timestamp`, `position_after_session`, `questions`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import AliasChoices, BaseModel, Field, ValidationError

from emend.evals.stream.loaders.longmemeval import iso_date
from emend.evals.stream.turn import ABSTAINING, QuestionKind, StreamItem, StreamQuestion, Turn, WrongAnswer, WrongReason
from emend.memory.errors import BadData

SOURCE = "https://huggingface.co/datasets/meme-benchmark/MEME"
REMEDY = f"Give meme_filler32k.json, or another file of {SOURCE}."
KINDS: Mapping[str, QuestionKind] = {
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


class _Message(BaseModel):
    role: str
    content: str


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
    try:
        episode = _Episode.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise BadData(f"{place}, {'.'.join(map(str, first['loc']))}: {first['msg']}. {REMEDY}") from error
    before, after = episode.before_questions, episode.after_questions
    if {each.task_type for each in (*before.questions, *after.questions)} - KINDS.keys():
        raise BadData(f"{place}: the task of a question is none of {', '.join(KINDS)}. {REMEDY}")
    former = {(each.task_type, each.entities or each.question): each.answer for each in before.questions}
    turns: list[Turn] = []
    for number, session in enumerate(episode.sessions):
        new = _turns(episode.episode_id, number, session)
        turns += new
        yield from new
        if number == before.position_after_session:
            yield from _ask(episode, before, "before", len(turns), {})
        if number == after.position_after_session:
            yield from _ask(episode, after, "after", len(turns), former)


def _turns(stream: str, number: int, session: _Session) -> list[Turn]:
    return [
        Turn(
            id=_turn_id(stream, number, position),
            stream=stream,
            session=session.session_id,
            date=iso_date(session.timestamp),
            role="assistant" if message.role == "assistant" else "user",
            text=message.content,
        )
        for position, message in enumerate(session.conversation)
    ]


def _turn_id(stream: str, session: int, position: int) -> str:
    return f"{stream}:{session}:{position}"


def _ask(
    episode: _Episode, block: _Questions, time: str, place: int, former: Mapping[tuple[str, Any], str]
) -> Iterator[StreamQuestion]:
    for number, each in enumerate(block.questions):
        kind = KINDS[each.task_type] if time == "after" else "current"
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
