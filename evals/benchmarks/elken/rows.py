r"""ELKEN's rows and the pure functions that turn them into edits and probes.

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
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AliasChoices, Field, field_validator

from emend.evals.benchmarks.files import Row, read_rows
from emend.evals.case import Case
from emend.evals.metrics.elken import UNITED_STATES, UNKNOWN
from emend.memory.edit import Edit
from emend.memory.errors import BadData
from emend.memory.probe import Probe

Text = Annotated[str, Field(min_length=1)]
Tags = dict[str, str | int | float | bool]

FACT_PROMPT = (
    "Answer with a name or a short noun phrase, not with a sentence. If the answer cannot be known, say unknown.\n"
    "Question: {question}\nAnswer:"
)
"""Ours, for questions in and out of scope alike; the paper drops the word about `unknown` where no event is shown."""
OPTION_PROMPT = (
    "Answer with the letter of the right option alone: A, B or C.\nQuestion: {question}\n{candidate}\nAnswer:"
)
FREE_PROMPT = "Say what is likely to happen and why.\nQuestion: {question}\nAnswer:"

BLOCKS = ("fact", "tendency_m", "tendency_g")
OPEN = "tendency_open"
"""The kind of a free answer (Tendency-G), which waits for a judge."""
SCORERS = {
    (True, True): ("elken_option",),
    (True, False): ("elken_option_same", "agreement"),
    (False, True): ("judged",),
    (False, False): ("judged_same",),
}
"""Of a tendency question, by (multiple choice, in scope)."""
KNOWN = ("fact_direct", "fact_background")
"""In scope, with an answer: stated by the event, or one that needs background knowledge too."""
UNKNOWNS = ("fact_unknown", "fact_unknown_background")
"""In scope, with the gold answer `unknown`: asked of the event's own participants, or over a second hop."""
M_FOR_G = (
    "elken: the edit level over all takes multiple-choice answers in the place of free ones that no judge has read"
)
"""Said of the edit level over all questions until a judge has read the free answers."""

_OPTIONS = re.compile(r"\s*\(A\)(.+?)\(B\)(.+?)\(C\)(.+)", re.DOTALL)


class Gold(Row):
    """The answer to a fact question; `id` is Wikidata's, or NA."""

    id: str
    name: Text
    alias: tuple[str, ...]


class Name(Row):
    """Whom or what a fact question is about; some records call the name `ent2name`."""

    name: str = Field(validation_alias=AliasChoices("name", "ent2name"))


class LocalFact(Row):
    """A fact question that is out of scope."""

    question: Text
    answer: Gold
    subject: Name


class FactQuestion(LocalFact):
    """A fact question that is in scope; type 1 needs background knowledge."""

    type: Literal[0, 1]


class TendencyQuestion(Row):
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
        return split_options(self.candidate)


class Facts(Row):
    """The factual part of an event."""

    qas: tuple[FactQuestion, ...] = ()
    local_qas: tuple[LocalFact, ...] = ()


class Tendencies(Row):
    """The tendency part of an event."""

    qas: tuple[TendencyQuestion, ...] = ()
    local_qas: tuple[TendencyQuestion, ...] = ()


class EventText(Row):
    """Of a row, only the event."""

    event: Text


class EventRow(Row):
    """A row of train.json or test.json; `event` identifies it."""

    event: Text
    event_type: str
    fact: Facts
    tendency: Tendencies


def split_options(candidate: str) -> tuple[str, ...]:
    """The texts of A, B and C; of a string that has not these three in order, none."""
    found = _OPTIONS.fullmatch(candidate)
    return tuple(part.strip() for part in found.groups()) if found else ()


def read_events(path: Path, remedy: str) -> list[EventRow]:
    """The rows of a file.

    Raises:
        BadData: not JSON (the published test file is cut off), no list, a malformed record, or an event twice.
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
    """Questions in scope to which several events give unlike answers: edits that stand together cannot satisfy both."""
    answers: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        for fact in row.fact.qas:
            answers[fact.question].add(fact.answer.name)
        for tendency in row.tendency.qas:
            right = dict(zip("ABC", tendency.options, strict=True))[tendency.answer]
            answers[tendency.question].add(right.casefold())
    return frozenset(question for question, found in answers.items() if len(found) > 1)


def event_case(
    row: EventRow, blocks: Collection[str] = BLOCKS, contested: Collection[str] = (), tags: Tags | None = None
) -> Case:
    """One event as an edit, with its questions of the chosen blocks, in the order of the file.

    Args:
        row: the event.
        blocks: which of `BLOCKS` are asked.
        contested: questions to tag `contested`.
        tags: of the case, beside `event_type`.
    """
    edit = Edit(form="event", text=row.event)
    counted: Tags = {"tendency_event": True} if row.tendency.qas else {}
    probes: list[Probe] = []
    if "fact" in blocks:
        probes += [_fact(edit, q, counted | _contested(q.question, contested)) for q in row.fact.qas]
        probes += [_local_fact(edit, q) for q in row.fact.local_qas]
    for block in (block for block in ("tendency_m", "tendency_g") if block in blocks):
        probes += [
            _tendency(block, q, edit, _contested(q.question, contested) | {"n": n})
            for n, q in enumerate(row.tendency.qas)
        ]
        probes += [_tendency(block, q, None, {"event": edit.id, "n": n}) for n, q in enumerate(row.tendency.local_qas)]
    kept: Tags = {"event_type": row.event_type}
    return Case(edits=(edit,), probes=tuple(probes), tags=kept | (tags or {}))


def _fact(edit: Edit, row: FactQuestion, tags: Tags) -> Probe:
    american: Tags = {"united_states": True} if row.answer.id == "Q30" else {}
    unknown = row.answer.name == UNKNOWN
    kinds = UNKNOWNS if unknown else KNOWN
    return Probe(
        kind=kinds[row.type],
        prompt=FACT_PROMPT.format(question=row.question),
        style="raw",
        gold=(row.answer.name, *row.answer.alias, *((UNITED_STATES,) if american else ())),
        edit_ids=(edit.id,),
        scorers=("elken_fact",),
        query=row.question,
        subject=row.subject.name,
        tags=tags | american,
    )


def _local_fact(edit: Edit, row: LocalFact) -> Probe:
    # Several events have the same question out of scope; the tag keeps the probes apart, and with them what the
    # unedited model said to each.
    return Probe(
        kind="fact_local",
        prompt=FACT_PROMPT.format(question=row.question),
        style="raw",
        gold=(row.answer.name, *row.answer.alias),
        in_scope=False,
        scorers=("elken_fact_same", "agreement"),
        query=row.question,
        subject=row.subject.name,
        tags={"event": edit.id},
    )


def _tendency(block: str, row: TendencyQuestion, edit: Edit | None, tags: Tags) -> Probe:
    """In scope when there is an edit; a free answer is kept whole, for a judge to read."""
    choose = block == "tendency_m"
    right = row.options["ABC".index(row.answer)]
    asked = OPTION_PROMPT if choose else FREE_PROMPT
    kind = block if choose else OPEN
    return Probe(
        kind=kind if edit else f"{kind}_local",
        prompt=asked.format(question=row.question, candidate=row.candidate),
        style="raw",
        gold=(row.answer, right) if choose else (right,),
        choices=row.options if choose else (),
        in_scope=edit is not None,
        edit_ids=(edit.id,) if edit else (),
        scorers=SCORERS[choose, edit is not None],
        query=row.question,
        reading="line" if choose else "whole",
        tags=tags,
    )


def _contested(question: str, contested: Collection[str]) -> Tags:
    return {"contested": True} if question in contested else {}
