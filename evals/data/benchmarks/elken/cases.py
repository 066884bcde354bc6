"""From ELKEN's rows to cases and probes."""

from collections.abc import Collection
from typing import Any

from emend.evals.case import Case
from emend.evals.data.benchmarks.elken.rows import EventRow, KnowledgeQuestion, LocalFact, TendencyQuestion
from emend.evals.data.benchmarks.rows import Tags
from emend.evals.metrics.papers.elken import UNKNOWN
from emend.memory.edit import Edit
from emend.memory.probe import Probe

Texts = tuple[str, ...]
FACT_PROMPT = (
    "Answer with a name or a short noun phrase, not with a sentence. If the answer cannot be known, say unknown.\n"
    "Question: {question}\nAnswer:"
)
"""Ours, for questions in and out of scope alike; the paper's prompt without an event does not mention `unknown`."""
OPTION_PROMPT = (
    "Answer with the letter of the right option alone: A, B or C.\nQuestion: {question}\n{candidate}\nAnswer:"
)
FREE_PROMPT = "Say what is likely to happen and why.\nQuestion: {question}\nAnswer:"

BLOCKS = ("fact", "tendency_m", "tendency_g")
OPEN = "tendency_open"
"""Kind of a free answer (Tendency-G), which a judge has to score."""
SCORERS = {
    (True, True): ("elken_option",),
    (True, False): ("elken_option_same", "agreement"),
    (False, True): ("judged",),
    (False, False): ("judged_same",),
}
"""Scorers of a tendency question, by (multiple choice, in scope)."""
KNOWN = ("fact_direct", "fact_background")
"""Kinds in scope with an answer: stated by the event, or one that needs background knowledge too."""
UNKNOWNS = ("fact_unknown", "fact_unknown_background")
"""Kinds in scope with the gold answer `unknown`: about the event's own participants, or over a second hop."""
M_FOR_G = (
    "elken: the edit level over all takes multiple-choice answers in the place of free ones that no judge has read"
)
"""Note on the edit level over all questions, until a judge has read the free answers."""
KNOWLEDGE_KIND = "background_knowledge"
"""Kind of a question for the background knowledge itself, asked without an event."""


def event_case(
    row: EventRow, blocks: Collection[str] = BLOCKS, contested: Collection[str] = (), tags: Tags | None = None
) -> Case:
    """One event as an edit, with its questions of the chosen blocks, in the order of the file.

    Args:
        row: the event.
        blocks: those of `BLOCKS` to ask.
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
            scope: dict[str, Any] = {"edit_ids": (edit.id,), "subject": q.subject.name}
            probes.append(_fact_probe(q, kind, q.answer.golds, ("elken_fact",), tags_of, **scope))
        # Several events have the same question out of scope; the tag keeps the probes apart, and with them the unedited
        # model's answers to each.
        for local in row.fact.local_qas:
            scope = {"in_scope": False, "subject": local.subject.name}
            scorers, gold = ("elken_fact_same", "agreement"), (local.answer.name, *local.answer.alias)
            probes.append(_fact_probe(local, "fact_local", gold, scorers, {"event": edit.id}, **scope))
    for block in (block for block in ("tendency_m", "tendency_g") if block in blocks):
        probes += [
            _tendency_probe(block, q, edit, _contested_tag(q.question, contested) | {"n": n})
            for n, q in enumerate(row.tendency.qas)
        ]
        probes += [
            _tendency_probe(block, q, None, {"event": edit.id, "n": n}) for n, q in enumerate(row.tendency.local_qas)
        ]
    return Case(edits=(edit,), probes=tuple(probes), tags={"event_type": row.event_type, **(tags or {})})


def knowledge_case(row: KnowledgeQuestion, number: int = 0) -> Case:
    """The case of one question without edits; its index in the file tells it from the same question asked again."""
    probe = _fact_probe(row, KNOWLEDGE_KIND, row.answer.golds, ("elken_fact",), {"n": number}, in_scope=False)
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
    return Probe(kind=kind, prompt=prompt, style="raw", gold=gold, scorers=scorers, query=query, tags=tags, **scope)


def _tendency_probe(block: str, row: TendencyQuestion, edit: Edit | None, tags: Tags) -> Probe:
    """A tendency question, in scope if it has an edit; a free answer is kept whole, for a judge."""
    choose = block == "tendency_m"
    prompt = OPTION_PROMPT if choose else FREE_PROMPT
    kind = block if choose else OPEN
    return Probe(
        kind=kind if edit else f"{kind}_local",
        prompt=prompt.format(question=row.question, candidate=row.candidate),
        style="raw",
        gold=(row.answer, row.right) if choose else (row.right,),
        choices=row.options if choose else (),
        in_scope=edit is not None,
        edit_ids=(edit.id,) if edit else (),
        scorers=SCORERS[choose, edit is not None],
        query=row.question,
        reading="line" if choose else "whole",
        tags=tags,
    )


def _contested_tag(question: str, contested: Collection[str]) -> Tags:
    return {"contested": True} if question in contested else {}
