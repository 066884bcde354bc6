"""Standard sentences of generated streams, and an exact parser of all wordings."""

import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from emend.agents.tiny.world import WorldRelation, relations
from emend.evals.streams.sentences.held_out import held_out_templates
from emend.evals.streams.sentences.reader import SentenceReader
from emend.evals.streams.sentences.templates import SentenceTemplates, read_tables
from emend.evals.streams.turn import FactClaim, StreamRule

_STANDARD = read_tables("standard")
# Relations that only rules define; no fact states them.
DERIVED: tuple[str, ...] = tuple(_STANDARD["other"]["derived"])
SMALL_TALK: tuple[str, ...] = tuple(_STANDARD["other"]["small_talk"])
HISTORIC = "What was the {relation} of {subject} on {date}?"
EVERYTHING = "Name everything whose {relation} is {value}."
UNKNOWN = "The {relation} of {subject} is unknown."
_ASKED = (
    re.compile(r"^What was the (?P<phrase>.+) on (?P<on>\d{4}-\d\d-\d\d)\?$"),
    re.compile(r"^(?:What|Who) is the (?P<phrase>.+)\?$"),
)
_EVERYTHING = re.compile(r"^Name everything whose (?P<relation>.+?) is (?P<value>.+)\.$")


class QuestionTarget(NamedTuple):
    """The fact that a question asks for: a path of relations from a subject, optionally on a date.

    With a `value`, the question asks for all subjects that have it instead.
    """

    subject: str
    path: tuple[str, ...]
    on: str = ""
    value: str = ""


def statements(relation: str) -> tuple[str, ...]:
    """Return three wordings of a fact, with gaps {subject} and {object}."""
    first, second, third = (
        text.replace("{relation}", relation) for text in _STANDARD["other"]["statements"]
    )
    if world := _world().get(relation):
        third = f"{world.statements[2].replace('{}', '{subject}', 1)} {{object}}."
    return first, second, third


def state(relation: str, subject: str, value: str, wording: int = 0) -> str:
    """Return a sentence that states a fact."""
    return fill_statement(statements(relation)[wording % 3], subject, value)


def fill_statement(wording: str, subject: str, value: str) -> str:
    """Return a wording filled with a subject and an object."""
    return wording.replace("{subject}", subject).replace("{object}", value)


def sentence_templates(wordings: Literal["standard", "held-out"]) -> SentenceTemplates:
    """Return the templates of a stream, standard or held-out."""
    if wordings == "held-out":
        return held_out_templates()
    return SentenceTemplates.of(_STANDARD, {noun: statements(noun) for noun in _world()})


def ask(subject: str, path: Sequence[str]) -> str:
    """Return a question, such as `What is the capital of the country of Ostrim?`."""
    inner = f"the {path[0]} of {subject}"
    for relation in path[1:]:
        inner = f"the {relation} of {inner}"
    world = _world().get(path[-1])
    return f"{world.wh if world else 'What'} is {inner}?"


@cache
def _world() -> dict[str, WorldRelation]:
    """Return the relations of the invented world by their nouns."""
    return {each.noun: each for each in relations().values()}


@cache
def _reader(wordings: Literal["standard", "held-out"]) -> SentenceReader:
    return SentenceReader(sentence_templates(wordings))


@lru_cache(maxsize=2**18)
def read_turn(text: str) -> tuple[FactClaim | StreamRule, ...]:
    """Return the facts and rules of a generated sentence; none for any other text."""
    result = _reader("held-out").read(text) or _reader("standard").read(text)
    return (result,) if result else ()


def split_phrase(phrase: str) -> tuple[str, str]:
    """Return the subject and relation of a phrase such as `head of state of Velland`."""
    for noun in _nouns_with_of():
        if phrase.startswith(f"{noun} of "):
            return phrase[len(noun) + 4 :], noun
    relation, _, subject = phrase.partition(" of ")
    return subject, relation


@cache
def _nouns_with_of() -> tuple[str, ...]:
    return tuple(noun for noun in _world() if " of " in noun)


@lru_cache(maxsize=2**16)
def read_question(text: str) -> QuestionTarget | None:
    """Return the fact that a generated question asks for; None for any other text."""
    if hit := _EVERYTHING.match(text):
        return QuestionTarget("", (hit["relation"],), value=hit["value"])
    for pattern in _ASKED:
        if hit := pattern.match(text):
            path: list[str] = []
            rest = hit["phrase"]
            while True:
                rest, relation = split_phrase(rest)
                path.insert(0, relation)
                if not rest.startswith("the "):
                    return QuestionTarget(rest, tuple(path), on=hit.groupdict().get("on") or "")
                rest = rest.removeprefix("the ")
    return None


# Function that draws one of several texts.
Choose = Callable[[Sequence[str]], str]


def doubt(relation: str, subject: str, value: str, choose: Choose) -> str:
    """Return a sentence that mentions a fact without stating it."""
    templates = (
        "What if the {relation} of {subject} were {value}?",
        "Somebody asked me whether the {relation} of {subject} is {value}?",
        "How is {subject} today?",
    )
    return choose(templates).format(relation=relation, subject=subject, value=value)
