"""Rows of ELKEN's files, and the questions that they contradict.

One row, with invented content, of train.json or test.json (a list; events without tendency
questions also have `id` and `subject`, and their `tendency` holds empty lists; a question's own
`alias` belongs to its subject):

    {"event_type": "education", "event": "Ilse Varn has taken her degree at Tarnfield College.",
     "fact": {"qas": [{"question": "Which school did Ilse Varn attend?", "subject": {"id": "NA",
       "name": "Ilse Varn"},
                       "answer": {"id": "NA", "name": "Tarnfield College", "alias": ["Tarnfield"]},
                         "type": 0,
                       "rel_id": "P69"}],
              "local_qas": [{... the same without "type"}]},
     "tendency": {"qas": [{"question": "How might Ilse Varn's income change?",
                           "candidate": "(A) Increase (B) Decrease (C) No significant impact",
                             "answer": "A"}],
                  "local_qas": [...]}}
"""

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Literal

from pydantic import AliasChoices, AliasPath, Field, field_validator

from emend.evals.data.benchmarks.rows import BenchmarkRow, Text, contested_keys, read_rows
from emend.evals.metrics.published.elken import UNITED_STATES
from emend.memory.errors import BadData

_OPTIONS = re.compile(r"\s*\(A\)(.+?)\(B\)(.+?)\(C\)(.+)", re.DOTALL)


class GoldAnswer(BenchmarkRow):
    """Answer to a fact question; `id` is from Wikidata, or NA."""

    id: str
    name: Text
    alias: tuple[str, ...]

    @property
    def american(self) -> bool:
        """True for Q30, for which the label `United States` is also accepted."""
        return self.id == "Q30"

    @property
    def golds(self) -> tuple[str, ...]:
        """Name, aliases, and for Q30 the label `United States`."""
        return (self.name, *self.alias, *((UNITED_STATES,) if self.american else ()))


class LocalFact(BenchmarkRow):
    """A fact question that is out of scope."""

    question: Text
    answer: GoldAnswer
    subject: str = Field(
        validation_alias=AliasChoices(
            AliasPath("subject", "name"), AliasPath("subject", "ent2name")
        )
    )
    """Name of the subject; some records call the field `ent2name`."""


class FactQuestion(LocalFact):
    """A fact question that is in scope; questions of type 1 need background knowledge."""

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
        """Texts of options A, B and C."""
        match = _OPTIONS.fullmatch(self.candidate)
        if match:
            return tuple(part.strip() for part in match.groups())
        return ()

    @property
    def right(self) -> str:
        """Text of the correct option."""
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
    """A row of train.json or test.json, identified by `event`."""

    event: Text
    event_type: str
    fact: FactQuestions
    tendency: TendencyQuestions

    @property
    def questions(self) -> Iterator[str]:
        """Texts of all questions."""
        parts = (self.fact.qas, self.fact.local_qas, self.tendency.qas, self.tendency.local_qas)
        return (question.question for part in parts for question in part)

    @property
    def subjects(self) -> set[str]:
        """Subjects of the fact questions in scope."""
        return {name for question in self.fact.qas if (name := question.subject.strip())}


class KnowledgeQuestion(BenchmarkRow):
    """A question about the background knowledge that some fact questions need, asked without an
    event (Table 4).

    The file is model-know/qas.json of commit 2e738ae, a list of 542 questions, such as this
    invented one:

        {"question": "Who is the child of Ilse Varn?", "answer": {"id": "NA", "name": "Odd Varn",
          "alias": []},
         "item_id": 2, "qa_id": 1}

    Its `item_id` and `qa_id` do not match the published events.
    """

    question: Text
    answer: GoldAnswer


def read_events(path: Path, remedy: str) -> list[EventRow]:
    """Read the events of a file.

    Raises:
        BadData: the file is not JSON (the published test file is truncated) or not a list, or has a
            malformed record or a duplicate event.
    """
    rows = read_rows(path, EventRow, remedy)
    places: dict[str, int] = {}
    for number, row in enumerate(rows):
        if (first := places.setdefault(row.event, number)) != number:
            raise BadData(
                f"{path.name}, record {number}, field 'event': the same text as in record {first}, "
                f"value '{row.event[:80]}'. Merge the two records."
            )
    return rows


def contested_questions(rows: Sequence[EventRow]) -> frozenset[str]:
    """Return the in-scope questions with different answers in several events, which contradict if
    applied together.
    """
    facts = ((fact.question, fact.answer.name) for row in rows for fact in row.fact.qas)
    tendencies = (
        (each.question, each.right.casefold()) for row in rows for each in row.tendency.qas
    )
    return contested_keys(chain(facts, tendencies))
