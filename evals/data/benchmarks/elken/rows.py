"""ELKEN's rows.

One row, with invented content, of train.json or test.json (a list; events without tendency questions also have `id` and
`subject`, and their `tendency` holds empty lists; a question's own `alias` is that of its subject):

    {"event_type": "education", "event": "Ilse Varn has taken her degree at Tarnfield College.",
     "fact": {"qas": [{"question": "Which school did Ilse Varn attend?", "subject": {"id": "NA", "name": "Ilse Varn"},
                       "answer": {"id": "NA", "name": "Tarnfield College", "alias": ["Tarnfield"]}, "type": 0,
                       "rel_id": "P69"}],
              "local_qas": [{... the same without "type"}]},
     "tendency": {"qas": [{"question": "How might Ilse Varn's income change?",
                           "candidate": "(A) Increase (B) Decrease (C) No significant impact", "answer": "A"}],
                  "local_qas": [...]}}
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from pydantic import AliasChoices, Field, field_validator

from emend.evals.data.benchmarks.files import read_rows
from emend.evals.data.benchmarks.rows import BenchmarkRow, Text
from emend.evals.metrics.papers.elken import UNITED_STATES
from emend.memory.errors import BadData

_OPTIONS = re.compile(r"\s*\(A\)(.+?)\(B\)(.+?)\(C\)(.+)", re.DOTALL)


class GoldAnswer(BenchmarkRow):
    """The answer to a fact question; `id` is Wikidata's, or NA."""

    id: str
    name: Text
    alias: tuple[str, ...]

    @property
    def american(self) -> bool:
        """True for Q30, for which the label `United States` is accepted too."""
        return self.id == "Q30"

    @property
    def golds(self) -> tuple[str, ...]:
        """Name, aliases, and for Q30 the label `United States`."""
        return (self.name, *self.alias, *((UNITED_STATES,) if self.american else ()))


class SubjectName(BenchmarkRow):
    """The subject of a fact question; some records call its name `ent2name`."""

    name: str = Field(validation_alias=AliasChoices("name", "ent2name"))


class LocalFact(BenchmarkRow):
    """A fact question that is out of scope."""

    question: Text
    answer: GoldAnswer
    subject: SubjectName


class FactQuestion(LocalFact):
    """A fact question that is in scope; type 1 needs background knowledge."""

    type: Literal[0, 1]


class TendencyQuestion(BenchmarkRow):
    """A question with three options in one string."""

    question: Text
    candidate: Text
    answer: Literal["A", "B", "C"]

    @field_validator("candidate")
    @classmethod
    def _three(cls, value: str) -> str:
        if not _OPTIONS.fullmatch(value):
            raise ValueError("three options expected, as in '(A) .. (B) .. (C) ..'")
        return value

    @property
    def options(self) -> tuple[str, ...]:
        """The texts of A, B and C."""
        match = _OPTIONS.fullmatch(self.candidate)
        return tuple(part.strip() for part in match.groups()) if match else ()

    @property
    def right(self) -> str:
        """The text of the correct option."""
        return self.options["ABC".index(self.answer)]


class FactQuestions(BenchmarkRow):
    """Fact questions about an event, in and out of scope."""

    qas: tuple[FactQuestion, ...] = ()
    local_qas: tuple[LocalFact, ...] = ()


class TendencyQuestions(BenchmarkRow):
    """Tendency questions about an event, in and out of scope."""

    qas: tuple[TendencyQuestion, ...] = ()
    local_qas: tuple[TendencyQuestion, ...] = ()


class EventText(BenchmarkRow):
    """The event of a row, without its questions."""

    event: Text


class EventRow(BenchmarkRow):
    """A row of train.json or test.json; `event` identifies it."""

    event: Text
    event_type: str
    fact: FactQuestions
    tendency: TendencyQuestions

    @property
    def questions(self) -> Iterator[str]:
        """The texts of all questions."""
        parts = (self.fact.qas, self.fact.local_qas, self.tendency.qas, self.tendency.local_qas)
        return (question.question for part in parts for question in part)

    @property
    def subjects(self) -> set[str]:
        """The subjects of the fact questions in scope."""
        return {name for question in self.fact.qas if (name := question.subject.name.strip())}


class KnowledgeQuestion(BenchmarkRow):
    """A question for the background knowledge that some fact questions need, asked without an event (Table 4).

    The file is model-know/qas.json of commit 2e738ae, a list of 542 questions; one invented here:

        {"question": "Who is the child of Ilse Varn?", "answer": {"id": "NA", "name": "Odd Varn", "alias": []},
         "item_id": 2, "qa_id": 1}

    Its numbers do not match the published events, so that they identify no event.
    """

    question: Text
    answer: GoldAnswer


def read_events(path: Path, remedy: str) -> list[EventRow]:
    """Read the events of a file.

    Raises:
        BadData: not JSON (the published test file is cut off), no list, a malformed record, or a repeated event.
    """
    rows = read_rows(path, EventRow, remedy)
    places: dict[str, int] = {}
    for number, row in enumerate(rows):
        if (first := places.setdefault(row.event, number)) != number:
            raise BadData(
                f"{path.name}, record {number}, field 'event': the same text as in record {first}, value "
                f"'{row.event[:80]}'. Merge the two records."
            )
    return rows


def contested_questions(rows: Sequence[EventRow]) -> frozenset[str]:
    """Questions in scope to which several events give different answers, so that edits applied together contradict."""
    answers: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        for fact in row.fact.qas:
            answers[fact.question].add(fact.answer.name)
        for tendency in row.tendency.qas:
            answers[tendency.question].add(tendency.right.casefold())
    return frozenset(question for question, golds in answers.items() if len(golds) > 1)
