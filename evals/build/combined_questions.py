"""Questions that join facts of several documents: two hops, and other facts of the same subject or relation."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from emend.graphs.construction.filters.name_forms import names_exactly
from emend.memory.retrieval.tokens import whole
from emend.memory.typography import fold_text, fold_typography

PER_FACT = 2
"""Maximum number of questions of a kind that a fact gets."""
_ARTICLE = re.compile(r"\A(?:the|an?)\s+", re.IGNORECASE)


class PlacedFact(NamedTuple):
    """A fact with the name and the text of the document that states it."""

    name: str
    document: str
    fact: Mapping[str, str]


class TwoHops(NamedTuple):
    """A question whose answer is that of `second`, about what `first` answers."""

    question: str
    first: PlacedFact
    second: PlacedFact


def two_hop_questions(facts: Sequence[PlacedFact]) -> Iterator[TwoHops]:
    """Questions over two documents: the answer of the first fact is the subject of the second.

    The subject of the second question is replaced by the first fact's description of it; a description that fits two
    answers is left out.
    """
    about = defaultdict(list)
    for fact in facts:
        about[_name(fact.fact["subject"])].append(fact)
    for first in facts:
        description = first.fact["description"]
        if not description or _is_ambiguous(first, facts):
            continue
        others = (fact for fact in about[_name(first.fact["answer"])] if fact.document != first.document)
        joined = (_join(description, first, second) for second in others)
        yield from [each for each in joined if each is not None][:PER_FACT]


def _join(description: str, first: PlacedFact, second: PlacedFact) -> TwoHops | None:
    """The question about the second fact with its subject described; None if that gives an answer away."""
    subject = whole(fold_typography(second.fact["subject"]), any_case=True)
    question = subject.sub(lambda hit: description, fold_typography(second.fact["question"]))
    question = re.sub(r"\b(?:the|an?) (?=(?:the|an?) )", "", question, flags=re.IGNORECASE)
    answers = (first.fact["answer"], second.fact["answer"], second.fact["subject"])
    if description not in question or any(names_exactly(question, answer) for answer in answers):
        return None
    return TwoHops(question[:1].upper() + question[1:], first, second)


def _is_ambiguous(fact: PlacedFact, facts: Sequence[PlacedFact]) -> bool:
    answers = {
        _name(other.fact["answer"])
        for other in facts
        if fold_text(other.fact["description"]) == fold_text(fact.fact["description"])
    }
    return len(answers) > 1


def near_facts(fact: PlacedFact, facts: Sequence[PlacedFact]) -> list[PlacedFact]:
    """Other facts of the same subject, or of the same relation with another subject and answer."""
    near = [
        other
        for other in facts
        if _name(other.fact["answer"]) != _name(fact.fact["answer"]) and _is_near(other.fact, fact.fact)
    ]
    return near[:PER_FACT]


def _is_near(other: Mapping[str, str], fact: Mapping[str, str]) -> bool:
    same_question = fold_text(other["question"]) == fold_text(fact["question"])
    same_subject = _name(other["subject"]) == _name(fact["subject"])
    return not same_question and (same_subject or _relation(other) == _relation(fact))


def _relation(fact: Mapping[str, str]) -> str:
    """The question without its subject, which is the same for facts of one relation."""
    return whole(fold_text(fact["subject"]), any_case=True).sub("", fold_text(fact["question"]), count=1)


def _name(text: str) -> str:
    return _ARTICLE.sub("", fold_text(text)).strip(" .")
