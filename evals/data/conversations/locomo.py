"""LoCoMo: conversations of two people over months, with questions and their evidence turns.

"Evaluating Very Long-Term Conversational Memory of LLM Agents" (Maharana et al. 2024); data:
github.com/snap-research/locomo, data/locomo10.json. A record, shortened:

    {"sample_id": "conv-26",
     "conversation": {"speaker_a": "Ida", "speaker_b": "Tom",
       "session_1_date_time": "1:56 pm on 8 May, 2023",
       "session_1": [{"speaker": "Ida", "dia_id": "D1:1", "text": "I moved.",
         "blip_caption": "a photo of a house"}]},
     "qa": [{"question": "Who moved?", "answer": "Ida", "evidence": ["D1:1"], "category": 4},
            {"question": "Why did Tom move?", "evidence": ["D1:1"], "category": 5,
              "adversarial_answer": "a job"}]}

Questions of category 5 are about something that was not said, or said by somebody else: the right
answer is that it is not known, and `evidence` has the turn that the question distorts.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

from pydantic import Field, TypeAdapter, ValidationError

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
from emend.memory.errors import BadData, field_problem

# Conversations in the published order, which defines their numbers in audits.
PUBLISHED = tuple(f"conv-{number}" for number in (26, 30, 41, 42, 43, 44, 47, 48, 49, 50))
FILES = ("locomo10.json", "locomo.json")
_SESSION = re.compile(r"session_(\d+)")
_EVIDENCE = re.compile(r"D:?(\d+):(\d+)")


# For this kind, the paper's code also scores the comma-separated parts of the gold answer one by
# one.
MULTI_HOP = "multi_hop"


class _Kind(NamedTuple):
    name: str
    stream: StreamKind


KINDS: Mapping[int, _Kind] = {
    1: _Kind(MULTI_HOP, "multi_hop"),
    2: _Kind("temporal", "historic"),
    3: _Kind("open_domain", "current"),
    4: _Kind("single_hop", "current"),
    5: _Kind("adversarial", "abstention"),
}


class DialogueTurn(BenchmarkRow):
    """A turn; `blip_caption` describes a photo that is shared in it."""

    speaker: Text
    dia_id: Annotated[str, Field(pattern=r"^D\d+:\d+$")]
    text: str
    blip_caption: str = ""

    @property
    def content(self) -> str:
        """The text, with the photo's caption."""
        if self.blip_caption:
            return f"{self.text} [shares a photo: {self.blip_caption}]"
        return self.text


class DialogueQuestion(BenchmarkRow):
    """A question; category 5 has no answer."""

    question: Text
    answer: AnswerText | None = None
    adversarial_answer: AnswerText | None = None
    evidence: tuple[str, ...]
    category: Annotated[int, Field(ge=1, le=5)]


class DialogueRow(BenchmarkRow):
    """A record of the file; the sessions are fields of `conversation`."""

    sample_id: Text
    conversation: dict[str, Any]
    qa: tuple[DialogueQuestion, ...]


class LoCoMo(ConversationBenchmark):
    """LoCoMo, with one case per conversation.

    Options: `corrections` = a file of a published audit of its answers.
    """

    name: ClassVar[str] = "locomo"
    definition = Definition.beside(__file__)
    defaults = {CORRECTIONS: ""}

    def __init__(self, data: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        super().__init__(data, options)
        self.file = self.first_file(FILES)

    def _read(self) -> Iterator[tuple[DatedConversation, str]]:
        return read_locomo(self.folder / self.file)

    def _records(self) -> Mapping[str, int | None]:
        return {self.file: len(self.conversations)}


def read_locomo(path: Path) -> Iterator[tuple[DatedConversation, str]]:
    """Yield the conversations of a file, each with file and record.

    Raises:
        BadData: a record is malformed or duplicate; the error names record and field.
    """
    for number, row in enumerate(read_unique(path, DialogueRow, "sample_id")):
        where = f"{path.name}, record {number}"
        messages = tuple(_messages(row.conversation, where))
        questions = tuple(_questions(row, {message.id for message in messages}, number))
        yield DatedConversation(id=row.sample_id, messages=messages, questions=questions), where


def _messages(fields: Mapping[str, Any], where: str) -> Iterator[ConversationMessage]:
    numbers = sorted(int(match[1]) for name in fields if (match := _SESSION.fullmatch(name)))
    for number in numbers:
        session = f"session_{number}"
        date = iso_date(
            str(fields.get(f"{session}_date_time") or ""), f"{where}, field '{session}_date_time'"
        )
        try:
            turns = TypeAdapter(tuple[DialogueTurn, ...]).validate_python(fields[session])
        except ValidationError as error:
            problem = field_problem(error, within=f"conversation.{session}")
            raise BadData(
                f"{where}, {problem}. Correct the record or fetch the file again."
            ) from error
        for turn in turns:
            yield ConversationMessage(
                id=turn.dia_id,
                session=str(number),
                date=date,
                speaker=turn.speaker,
                text=turn.content,
            )


def _questions(row: DialogueRow, ids: set[str], number: int) -> Iterator[ConversationQuestion]:
    """Yield the questions; evidence is parsed from texts such as `D8:6; D9:17`, without unknown
    ids.
    """
    if row.sample_id in PUBLISHED:
        index = PUBLISHED.index(row.sample_id)
    else:
        index = number
    for position, question in enumerate(row.qa):
        kind = KINDS[question.category]
        named = (
            f"D{match[1]}:{match[2]}" for match in _EVIDENCE.finditer(" ".join(question.evidence))
        )
        is_trap = question.category == 5
        gold: tuple[str, ...] = ()
        if not is_trap and question.answer is not None:
            gold = (question.answer,)
        wrong = question.adversarial_answer if is_trap else None
        yield ConversationQuestion(
            id=str(position),
            kind=kind.name,
            stream_kind=kind.stream if gold or is_trap else "abstention",
            text=question.question,
            gold=gold,
            all_golds=kind.name == MULTI_HOP,
            wrong=() if wrong is None else (wrong,),
            evidence=tuple(message for message in dict.fromkeys(named) if message in ids),
            position=f"locomo_{index}_qa{position}",
            scorers=("locomo_f1", "equivalence") if gold else ("locomo_f1",),
        )
