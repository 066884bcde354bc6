"""Cases and demonstrations of ELKEN's events: prompts, kinds of probes, and questions in and out of
scope.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, TypeVar

from emend.editors.base import Demonstration
from emend.evals.case import Case
from emend.evals.data.benchmarks.demonstration_rows import ROWS, UniqueNames, of_first_rows
from emend.evals.data.benchmarks.elken.rows import (
    EventRow,
    KnowledgeQuestion,
    LocalFact,
    TendencyQuestion,
)
from emend.evals.data.benchmarks.rows import Tags, last_drawn
from emend.evals.metrics.published.elken import UNKNOWN
from emend.memory.edit import Edit, content_id
from emend.memory.probe import Probe

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
            scorers = ("elken_fact_same", "agreement")
            gold = (local.answer.name, *local.answer.alias)
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
    options = (("update", row.tendency.qas), ("retain", row.tendency.local_qas))
    for kind, choices in options if "tendency_m" in blocks else ():
        for choice in _draw(choices, unshared, seed):
            prompt = OPTION_PROMPT.format(question=choice.question, candidate=choice.candidate)
            yield make(kind, prompt, choice.answer)


def _draw(questions: Sequence[Q], fits: Callable[[Q], bool], seed: int) -> list[Q]:
    """Draw a suitable question, if any; the first in the file is always about the event's statement
    and rarely unknown.
    """
    fitting = [question for question in questions if fits(question)]
    return sorted(fitting, key=lambda question: content_id("shown", seed, question.question))[:1]
