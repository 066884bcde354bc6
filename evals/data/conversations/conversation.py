"""Conversations with questions, as returned by the readers, and their conversion to cases."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date, time
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from emend.evals.case import Case
from emend.evals.metrics.expected_answers import UNKNOWN
from emend.memory.edit import Edit, FrozenModel
from emend.memory.errors import BadData
from emend.memory.probe import Probe
from emend.memory.retrieval.conversations.dates import month_number

# Tags of a probe: date of the question; True if an audit corrected the gold.
ASKED_ON, CORRECTED = "asked_on", "corrected"
StreamKind = Literal["current", "historic", "abstention", "multi_hop", "set", "preference"]


def answer_text(value: Any) -> Any:
    """Convert a number to text, since published answers may be either.

    Raises:
        ValueError: the value is something else, or blank.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("a text or a number expected")
    if not str(value).strip():
        raise ValueError("it is empty")
    return str(value)


AnswerText = Annotated[str, BeforeValidator(answer_text)]


class ConversationMessage(FrozenModel):
    """A message of a session; `date` is in ISO 8601, or empty if unknown."""

    id: str
    session: str
    date: str = ""
    speaker: str
    role: str = "user"
    text: str


class ConversationQuestion(FrozenModel):
    """A question about a conversation, its gold answers, and the ids of the evidence messages.

    For a question about an update, `newer` and `outdated` are the ids of the messages with the new
    and the outdated statement. `wrong` has answers known to be wrong.
    """

    id: str
    kind: str
    stream_kind: StreamKind
    text: str
    date: str = ""
    gold: tuple[str, ...] = ()
    all_golds: bool = False
    """See `Probe.all_golds`."""
    wrong: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    newer: tuple[str, ...] = ()
    outdated: tuple[str, ...] = ()
    position: str = ""
    """Number of the question in a published audit."""
    scorers: tuple[str, ...] = ()
    """Further scorers of the answer, as published by the benchmark."""
    rubric: tuple[str, ...] = ()
    """Statements that a right answer contains, for a judge."""
    criterion: str = ""
    """Name of the criterion by which a judge compares the answer with the gold one."""
    is_corrected: bool = False

    @property
    def abstains(self) -> bool:
        """True if the right answer is that it is not known."""
        return not self.gold


class DatedConversation(FrozenModel):
    """Messages in order, and the questions that are asked after them."""

    id: str
    messages: tuple[ConversationMessage, ...]
    questions: tuple[ConversationQuestion, ...]


def conversation_case(conversation: DatedConversation) -> Case:
    """Convert a conversation to a case: messages become edits, questions probes; ids begin with the
    conversation's.
    """
    prefix = f"{conversation.id}:"
    edits = tuple(_edit(prefix, message) for message in conversation.messages)
    probes = tuple(_probe(prefix, question) for question in conversation.questions)
    return Case(id=conversation.id, edits=edits, probes=probes)


def _edit(prefix: str, message: ConversationMessage) -> Edit:
    text = f"{message.speaker}: {message.text}"
    return Edit(id=prefix + message.id, form="document", text=text, time=message.date or None)


def _probe(prefix: str, question: ConversationQuestion) -> Probe:
    tags: dict[str, str | int | float | bool] = {}
    if question.date:
        tags[ASKED_ON] = question.date
    if question.is_corrected:
        tags[CORRECTED] = True
    return Probe(
        id=f"{prefix}q{question.id}",
        kind=question.kind,
        prompt=f"[{question.date}] {question.text}" if question.date else question.text,
        style="question",
        gold=question.gold or (UNKNOWN,),
        all_golds=question.all_golds,
        choices=question.wrong,
        rubric=question.rubric,
        criterion=question.criterion,
        abstains=question.abstains,
        edit_ids=_ids(prefix, question.evidence),
        newer_ids=_ids(prefix, question.newer),
        outdated_ids=_ids(prefix, question.outdated),
        scorers=("conversation", *question.scorers),
        query=question.text,
        tags=tags,
    )


def _ids(prefix: str, messages: Iterable[str]) -> tuple[str, ...]:
    return tuple(prefix + message for message in messages)


def check_conversation(conversation: DatedConversation, where: str) -> DatedConversation:
    """Return the conversation, if its ids are unique, its evidence exists, and it has messages and
    questions.

    Args:
        conversation: conversation from a reader.
        where: file and record, for errors.

    Raises:
        BadData: a condition is violated; the error names the field.
    """
    if not conversation.messages:
        raise BadData(
            f"{where}: every session is empty. Correct the record or fetch the file again."
        )
    _refuse_repeated([message.id for message in conversation.messages], f"{where}, message ids")
    _refuse_repeated([question.id for question in conversation.questions], f"{where}, question ids")
    ids = {message.id for message in conversation.messages}
    for question in conversation.questions:
        if not question.text.strip():
            raise BadData(
                f"{where}, question {question.id}, field 'question': it is empty. Correct the "
                "record or fetch the file again."
            )
        for field in ("evidence", "newer", "outdated"):
            missing = [message for message in getattr(question, field) if message not in ids]
            if missing:
                raise BadData(
                    f"{where}, question {question.id}, field '{field}': there is no message "
                    f"'{missing[0]}'. Correct the record or fetch the file again."
                )
    return conversation


def _refuse_repeated(ids: Sequence[str], where: str) -> None:
    repeated = [name for name, count in Counter(ids).items() if count > 1]
    if repeated:
        raise BadData(
            f"{where}: '{repeated[0]}' occurs twice. Remove one of the two, or fetch the "
            "file again."
        )


_NAME = r"(?P<name>[A-Za-z]{3,9})"
# `1:56 pm on 8 May, 2023` (LoCoMo), `March-15-2024` (BEAM), `2023/05/30 (Tue) 23:40` (LongMemEval).
_DATES = (
    re.compile(
        r"(?P<hour>\d{1,2}):(?P<minute>\d\d)\s*(?P<half>[ap]m)\s+on\s+(?P<day>\d{1,2})\s+"
        rf"{_NAME},?\s+(?P<year>\d{{4}})",
        re.IGNORECASE,
    ),
    re.compile(rf"{_NAME}-(?P<day>\d{{1,2}})-(?P<year>\d{{4}})"),
    re.compile(
        r"(?P<year>\d{4})[/-](?P<month>\d\d)[/-](?P<day>\d\d)(?:\s*\([A-Za-z]+\))?"
        r"(?:[ T]*(?P<hour>\d{1,2}):(?P<minute>\d\d))?"
    ),
)


def iso_date(text: str, where: str) -> str:
    """Convert a published date to ISO 8601, with its time if it has one; an empty text stays empty.

    Raises:
        BadData: the date has none of the published formats, or does not exist.
    """
    match = next((match for form in _DATES if (match := form.fullmatch(text.strip()))), None)
    if not text.strip():
        return ""
    if match is None:
        raise _no_date(text, where)
    parts = match.groupdict()
    try:
        return _iso(parts)
    except (ValueError, StopIteration) as error:
        raise _no_date(text, where) from error


def _iso(parts: dict[str, str | None]) -> str:
    """Return the ISO 8601 date of parsed parts.

    Raises:
        ValueError: the day or hour does not exist.
        StopIteration: the month does not exist.
    """
    month = int(parts.get("month") or 0) or month_number(parts.get("name") or "")
    day = date(int(parts["year"] or 0), month, int(parts["day"] or 0)).isoformat()
    if not parts.get("hour"):
        return day
    hour = int(parts["hour"] or 0)
    if parts.get("half"):
        hour = hour % 12 + 12 * ((parts["half"] or "").lower() == "pm")
    return f"{day} {time(hour, int(parts['minute'] or 0)).strftime('%H:%M')}"


def _no_date(text: str, where: str) -> BadData:
    return BadData(
        f"{where}: '{text[:60]}' is not a date like '1:56 pm on 8 May, 2023', 'March-15-2024' or "
        "'2023/05/30 23:40'. Correct the record or fetch the file again."
    )
