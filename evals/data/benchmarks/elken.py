"""ELKEN: events as edits, with questions about facts that become true or unknown, and about likely
tendencies.

"Event-level Knowledge Editing"; data: github.com/THU-KEG/Event-Level-Knowledge-Editing, folder
data/original/. Deliberate differences from the released code: the instruction is our own, follows
the event, and is the same with and without an event, so that locality compares replies to the same
request; the code's instructions differ, and the one without an event does not mention `unknown`.
Free answers (Tendency-G) are stored in full for a judge; until they are judged, the edit level over
all questions uses the multiple-choice answers instead, which its name states.

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
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import AliasChoices, AliasPath, Field, field_validator

from emend.editors.base import Demonstration
from emend.evals.case import Case, Metric
from emend.evals.data.benchmarks.base import Definition, FileBenchmark, some_of
from emend.evals.data.benchmarks.demonstration_rows import ROWS, UniqueNames, of_first_rows
from emend.evals.data.benchmarks.rows import (
    BenchmarkRow,
    Tags,
    Text,
    contested_keys,
    last_drawn,
    read_rows,
    require,
    sample_ids,
)
from emend.evals.metrics.published.elken import UNITED_STATES, UNKNOWN
from emend.memory.edit import Edit, content_id
from emend.memory.errors import BadData
from emend.memory.probe import Probe

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


Texts = tuple[str, ...]
# Our own prompt, for questions in and out of scope; the paper's prompt without an event does not
# mention `unknown`.
FACT_PROMPT = (
    "Answer with a name or a short noun phrase, not with a sentence. If the answer cannot be "
    "known, say unknown.\n"
    "Question: {question}\nAnswer:"
)
OPTION_PROMPT = (
    "Answer with the letter of the right option alone: A, B or C.\nQuestion: "
    "{question}\n{candidate}\nAnswer:"
)
FREE_PROMPT = "Say what is likely to happen and why.\nQuestion: {question}\nAnswer:"

BLOCKS = ("fact", "tendency_m", "tendency_g")
# Kind of probes with free answers (Tendency-G), which a judge has to score.
OPEN = "tendency_open"
# Scorers of tendency questions, by (multiple choice, in scope).
SCORERS = {
    (True, True): ("elken_option",),
    (True, False): ("elken_option_same", "agreement"),
    (False, True): ("judged",),
    (False, False): ("judged_same",),
}
# In-scope kinds with a known answer: stated by the event, or also needing background knowledge.
KNOWN = ("fact_direct", "fact_background")
# In-scope kinds with the gold answer `unknown`: about the event's participants, or over a second
# hop.
UNKNOWNS = ("fact_unknown", "fact_unknown_background")
# Note on the edit level over all questions, while free answers are not judged.
M_FOR_G = (
    "elken: the edit level over all takes multiple-choice answers in the place of free ones that "
    "no judge has read"
)
# Kind of probes about background knowledge, asked without an event.
KNOWLEDGE_KIND = "background_knowledge"


def event_case(
    row: EventRow,
    blocks: Collection[str] = BLOCKS,
    contested: Collection[str] = (),
    tags: Tags | None = None,
) -> Case:
    """Return one event as an edit, with its questions of the chosen blocks, in the order of the
    file.

    Args:
        row: row of the event.
        blocks: names from `BLOCKS` to ask.
        contested: questions to tag `contested`.
        tags: further tags of the case, in addition to `event_type`.
    """
    edit = Edit(form="event", text=row.event)
    counted: Tags = {"tendency_event": True} if row.tendency.qas else {}
    probes: list[Probe] = []
    if "fact" in blocks:
        for q in row.fact.qas:
            kind = (UNKNOWNS if q.answer.name == UNKNOWN else KNOWN)[q.type]
            tags_of = counted | _contested_tag(q.question, contested)
            tags_of |= {"united_states": True} if q.answer.american else {}
            scope: dict[str, Any] = {"edit_ids": (edit.id,), "subject": q.subject}
            probes.append(_fact_probe(q, kind, q.answer.golds, ("elken_fact",), tags_of, **scope))
        # Several events have the same out-of-scope question; `event_id` distinguishes the probes,
        # and the unedited model's answer to each.
        for local in row.fact.local_qas:
            scope = {"in_scope": False, "subject": local.subject}
            scorers, gold = (
                ("elken_fact_same", "agreement"),
                (local.answer.name, *local.answer.alias),
            )
            probes.append(
                _fact_probe(local, "fact_local", gold, scorers, {}, event_id=edit.id, **scope)
            )
    for block in (block for block in ("tendency_m", "tendency_g") if block in blocks):
        probes += [
            _tendency_probe(block, q, edit, _contested_tag(q.question, contested) | {"n": n})
            for n, q in enumerate(row.tendency.qas)
        ]
        probes += [
            _tendency_probe(block, q, edit, {"n": n}, in_scope=False)
            for n, q in enumerate(row.tendency.local_qas)
        ]
    return Case(
        edits=(edit,), probes=tuple(probes), tags={"event_type": row.event_type, **(tags or {})}
    )


def knowledge_case(row: KnowledgeQuestion, number: int = 0) -> Case:
    """Return the case of one question without edits; its index in the file distinguishes it from
    duplicates.
    """
    probe = _fact_probe(
        row, KNOWLEDGE_KIND, row.answer.golds, ("elken_fact",), {"n": number}, in_scope=False
    )
    return Case(edits=(), probes=(probe,))


def _fact_probe(
    row: KnowledgeQuestion | LocalFact,
    kind: str,
    gold: tuple[str, ...],
    scorers: tuple[str, ...],
    tags: Tags,
    **scope: Any,
) -> Probe:
    prompt = FACT_PROMPT.format(question=row.question)
    query = row.question
    return Probe(
        kind=kind,
        prompt=prompt,
        style="raw",
        gold=gold,
        scorers=scorers,
        query=query,
        tags=tags,
        **scope,
    )


def _tendency_probe(
    block: str, row: TendencyQuestion, edit: Edit, tags: Tags, in_scope: bool = True
) -> Probe:
    """Return a tendency question; a free answer is stored in full for a judge."""
    choose = block == "tendency_m"
    prompt = OPTION_PROMPT if choose else FREE_PROMPT
    kind = block if choose else OPEN
    scope: dict[str, Any] = {"in_scope": True, "edit_ids": (edit.id,)}
    if not in_scope:
        scope = {"in_scope": False, "edit_ids": (), "event_id": edit.id}
    return Probe(
        kind=kind if in_scope else f"{kind}_local",
        prompt=prompt.format(question=row.question, candidate=row.candidate),
        style="raw",
        gold=(row.answer, row.right) if choose else (row.right,),
        choices=row.options if choose else (),
        scorers=SCORERS[choose, in_scope],
        query=row.question,
        reading="line" if choose else "whole",
        tags=tags,
        **scope,
    )


def _contested_tag(question: str, contested: Collection[str]) -> Tags:
    if question in contested:
        return {"contested": True}
    return {}


Q = TypeVar("Q", LocalFact, TendencyQuestion)


class TestedEvents:
    """Names and questions of the tested events, which demonstrations must not share.

    Args:
        events: events of the run's split.
        occurrences: number of these events that equal a demonstrated one: 1 if both come from the
            same split, else 0.
    """

    def __init__(self, events: Sequence[EventRow], occurrences: int) -> None:
        self.names = UniqueNames(((row.event, *row.questions) for row in events), occurrences)
        self._subjects = {name for row in events for name in row.subjects}
        self._questions = Counter(question for row in events for question in set(row.questions))
        self._occurrences = occurrences

    def lack(self, row: EventRow) -> bool:
        """Return True if no tested event is about the subjects of the given event."""
        if row.subjects:
            return self.names.has_all(row.subjects)
        return self.names.has_in(row.event)

    def lack_question(self, row: EventRow, question: LocalFact | TendencyQuestion) -> bool:
        """Return True if no tested event has the question, is about the subject of the fact
        question, or has a subject that is named in the tendency question.
        """
        if self._questions[question.question] != self._occurrences:
            return False
        if isinstance(question, LocalFact):
            return self.names.has(question.subject)
        return not any(name in question.question for name in self._subjects - row.subjects)


def event_demonstrations(
    candidates: Sequence[EventRow],
    tested: Sequence[EventRow],
    blocks: Collection[str],
    seed: int = 0,
    count: int = ROWS,
) -> Iterator[Demonstration]:
    """Yield demonstrations from events that share no subject and no question with the tested
    events.

    Args:
        candidates: events that may be shown.
        tested: events of the run's split, possibly the same object.
        blocks: blocks that are asked; free answers (`tendency_g`) have no text to show.
        seed: random seed of the run, which also draws among an event's questions.
        count: number of events to take demonstrations from; 0 for all.
    """
    events = TestedEvents(tested, int(candidates is tested))
    rows = (candidates[index] for index in last_drawn(range(len(candidates)), seed))
    return of_first_rows(
        (list(_of_event(row, blocks, events, seed)) for row in rows if events.lack(row)), count
    )


def _of_event(
    row: EventRow, blocks: Collection[str], tested: TestedEvents, seed: int
) -> Iterator[Demonstration]:
    def unshared(question: LocalFact | TendencyQuestion) -> bool:
        return tested.lack_question(row, question)

    def make(kind: str, prompt: str, target: str) -> Demonstration:
        return Demonstration(kind=kind, fact=row.event, prompt=prompt, style="raw", target=target)

    facts = (("update", row.fact.qas), ("retain", row.fact.local_qas)) if "fact" in blocks else ()
    for kind, questions in facts:
        for fact in _draw(questions, unshared, seed):
            yield make(kind, FACT_PROMPT.format(question=fact.question), fact.answer.name)
    options = (
        (("update", row.tendency.qas), ("retain", row.tendency.local_qas))
        if "tendency_m" in blocks
        else ()
    )
    for kind, choices in options:
        for choice in _draw(choices, unshared, seed):
            prompt = OPTION_PROMPT.format(question=choice.question, candidate=choice.candidate)
            yield make(kind, prompt, choice.answer)


def _draw(questions: Sequence[Q], fits: Callable[[Q], bool], seed: int) -> list[Q]:
    """Draw a suitable question, if any; the first in the file is always about the event's statement
    and rarely unknown.
    """
    fitting = [question for question in questions if fits(question)]
    return sorted(fitting, key=lambda question: content_id("shown", seed, question.question))[:1]


TRAIN = "train.json"
# Block of questions about background knowledge.
KNOWLEDGE = "knowledge"
KNOWLEDGE_FILES = ("background_knowledge_qas.json", "qas.json", "model-know/qas.json")
FACTS = (*KNOWN, *UNKNOWNS)


class ELKEN(FileBenchmark):
    """ELKEN; in its only setting `event`, the edit is the text of the event.

    Options: `blocks`, a comma list of `fact`, `tendency_m` (these two by default), `tendency_g` and
    `knowledge`, which asks without an event for the background knowledge of some facts; `split`,
    `test` (by default) or `train`, whose questions are for training scope classifiers and were not
    checked by annotators.

    One case per event that has a question in the chosen blocks: its questions in scope
    (`fact_direct`, `fact_background`, `fact_unknown`, `fact_unknown_background`, `tendency_m`,
    `tendency_open`) and out of it (`..._local`). Under mode `all` a retriever searches all drawn
    events with the question alone, as in the paper.
    """

    name: ClassVar[str] = "elken"
    settings: ClassVar[tuple[str, ...]] = ("event",)
    wording: ClassVar[str] = "new_fact"
    mode: ClassVar[str] = "all"  # one store holds all events, as in the paper
    definition = Definition.beside(__file__)
    defaults = {"blocks": "fact,tendency_m", "split": "test"}
    values = {"split": ("test", "train")}

    def __init__(self, data: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        super().__init__(data, options)
        self.blocks = some_of(self.name, "blocks", self.options["blocks"], (*BLOCKS, KNOWLEDGE))
        self._event_blocks = tuple(block for block in self.blocks if block in BLOCKS)
        self.split = self.options["split"]
        self.file = f"{self.split}.json"
        places = [
            name for name in KNOWLEDGE_FILES if (self.folder / name).is_file()
        ] or KNOWLEDGE_FILES
        self._knowledge_files = places[:1] if KNOWLEDGE in self.blocks else ()
        require(self.folder, [self.file, *self._knowledge_files], self.definition.remedy)

    def _build(self, setting: str, limit: int | None, seed: int) -> Iterator[Case]:
        events = [index for index, row in enumerate(self._rows) if self._has_questions(row)]
        return self._cases(
            *(_sample(ids, limit, seed) for ids in (events, range(len(self._knowledge))))
        )

    def _cases(self, events: Sequence[int], questions: Sequence[int]) -> Iterator[Case]:
        for index in events:
            row = self._rows[index]
            tags: Tags = {"in_train": True} if row.event in self._trained else {}
            yield event_case(row, self._event_blocks, self._contested, tags)
        for index in questions:
            yield knowledge_case(self._knowledge[index], index)

    def _measures(self, metric: Metric) -> bool:
        return {_block_of(kind) for kind in metric.kinds} <= set(self.blocks)

    def _written(self, setting: str) -> Iterator[Demonstration]:
        for row in self.definition.demonstrations:
            options = row.get("options", "")
            if ("tendency_m" if options else "fact") in self.blocks:
                template = OPTION_PROMPT if options else FACT_PROMPT
                prompt = template.format(question=row["prompt"], candidate=options)
                fact = self.definition.facts["usual"]
                yield Demonstration(
                    kind=row["kind"], fact=fact, prompt=prompt, style="raw", target=row["target"]
                )

    def _choices(self) -> list[str]:
        return [*super()._choices(), M_FOR_G]

    def _from_rows(self, setting: str, seed: int, count: int) -> Iterator[Demonstration]:
        if self.split == "train":
            events = self._rows
        else:
            events = self._training_rows
        return event_demonstrations(events, self._rows, self.blocks, seed, count)

    def _records(self) -> Mapping[str, int]:
        return {
            self.file: len(self._rows),
            **dict.fromkeys(self._knowledge_files, len(self._knowledge)),
        }

    def _counts(self) -> dict[str, Any]:
        rows = self._rows
        cases = sum(map(self._has_questions, rows))
        return {
            "options": {"blocks": ",".join(self.blocks), "split": self.split},
            "cases": cases + len(self._knowledge),
            "questions": {
                "fact in scope": sum(len(row.fact.qas) for row in rows),
                "fact out of scope": sum(len(row.fact.local_qas) for row in rows),
                "tendency in scope": sum(len(row.tendency.qas) for row in rows),
                "tendency out of scope": sum(len(row.tendency.local_qas) for row in rows),
            },
            "dropped": {"events about which the blocks ask nothing": len(rows) - cases},
            "repaired": {
                "answers Q30 for which `United States` is also accepted, as in the code": sum(
                    question.answer.american for row in rows for question in row.fact.qas
                )
            },
            "tagged": {
                "contested (questions to which several events give unlike answers)": len(
                    self._contested
                ),
                "in_train (events of the test split that train.json has too)": len(
                    self._trained & {row.event for row in rows}
                ),
            },
        }

    def _has_questions(self, row: EventRow) -> bool:
        facts = "fact" in self._event_blocks and bool(row.fact.qas or row.fact.local_qas)
        return (
            facts
            or bool({*self._event_blocks} - {"fact"})
            and bool(row.tendency.qas or row.tendency.local_qas)
        )

    @cached_property
    def _rows(self) -> list[EventRow]:
        return read_events(self.folder / self.file, self.definition.remedy)

    @cached_property
    def _knowledge(self) -> list[KnowledgeQuestion]:
        files = self._knowledge_files
        return [
            row
            for name in files
            for row in read_rows(self.folder / name, KnowledgeQuestion, self.definition.remedy)
        ]

    @cached_property
    def _contested(self) -> frozenset[str]:
        return contested_questions(self._rows)

    @cached_property
    def _training_rows(self) -> list[EventRow]:
        path = self.folder / TRAIN
        if path.is_file():
            return read_events(path, self.definition.remedy)
        return []

    @cached_property
    def _trained(self) -> frozenset[str]:
        path = self.folder / TRAIN
        if self.split == "train" or not path.is_file():
            return frozenset()
        return frozenset(row.event for row in read_rows(path, EventText, self.definition.remedy))


def _sample(ids: Sequence[int], limit: int | None, seed: int) -> Sequence[int]:
    if limit is None:
        return ids
    return sample_ids(ids, {}, limit, seed)


def _block_of(kind: str) -> str:
    """Return the block of a kind of probe."""
    if kind == KNOWLEDGE_KIND:
        return KNOWLEDGE
    if kind.startswith(OPEN):
        return "tendency_g"
    if kind.startswith("tendency_m"):
        return "tendency_m"
    return "fact"
