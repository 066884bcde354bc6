"""Planted answers: right ones, and specific and vague wrong ones made by rules or by a model."""

import re
import tomllib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Literal, NamedTuple

from langchain_core.language_models import BaseChatModel

from emend.agents.judging.specifics import best_coverage, find_specifics
from emend.agents.roles.author import AuthorPrompt, write_text
from emend.memory.typography import fold_text
from emend.memory.values.day_spans import read_dates, without_spans
from emend.memory.values.quantities import read_numbers

WrongKind = Literal["specific", "vague"]
KINDS: tuple[WrongKind, ...] = ("specific", "vague")
PlantedKind = Literal["right", "specific", "vague"]
PLANTED_KINDS: tuple[PlantedKind, ...] = ("right", *KINDS)
NONE_MADE = "no wrong answer can be made from the other answers of the run"
RIGHT = "the generated answer contains specifics of the right one"
_ASKED = re.compile(
    r"\b(who|whose|whom|where|when|why|how)\b(?!\s+(?:many|much|long|often|old|far))"
)
_NOUN = re.compile(r"\b(?:what|which)\s+(?:(?:kind|type|sort)s?\s+of\s+)?([a-z]{3,})\b")
# Words after *what* and *which* that are not nouns.
_VERBS = frozenset(
    "are was were did does has had have can could will would should may might that this the "
    "happened".split()
)


class GoldQuestion(NamedTuple):
    """Question of a run with its correct answer and aliases."""

    question: str
    golds: tuple[str, ...]


class PlantedAnswer(NamedTuple):
    """Right or constructed wrong answer, or the reason why there is none."""

    source: GoldQuestion
    kind: PlantedKind
    text: str
    problem: str = ""


# Returns the text of a wrong answer, or "" if it cannot construct one.
Writer = Callable[[GoldQuestion, WrongKind], str]


def make_wrong(source: GoldQuestion, kind: WrongKind, write: Writer) -> PlantedAnswer:
    """Return a writer's wrong answer; it is rejected if it contains a specific of the correct
    answer.
    """
    text = write(source, kind).strip()
    if not text:
        return PlantedAnswer(source, kind, "", NONE_MADE)
    shared = best_coverage(source.question, source.golds, text).present
    return PlantedAnswer(source, kind, text, RIGHT if shared else "")


def right_answer(source: GoldQuestion) -> PlantedAnswer:
    """Return the first gold answer as a reply."""
    return PlantedAnswer(source, "right", source.golds[0])


def rule_writer(answers: Sequence[GoldQuestion], seed: int = 0) -> Writer:
    """Return the rule-based writer, which uses another answer of the same type, or the type itself.

    Args:
        answers: questions of the run, whose gold answers serve as specific wrong answers.
        seed: seed of the choice.
    """

    def write(source: GoldQuestion, kind: WrongKind) -> str:
        if kind == "vague":
            return vague_form(source)
        return _other_answer(source, answers, seed)

    return write


def model_writer(model: BaseChatModel) -> Writer:
    """Return the writer that asks a model."""

    def write(source: GoldQuestion, kind: WrongKind) -> str:
        prompt = AuthorPrompt.model_validate(_texts()["write"][kind])
        authored = write_text(
            model, prompt.fill(question=source.question, gold=source.golds[0]), 48
        )
        text = "" if authored.is_refused else authored.text
        return next((line for line in text.splitlines() if line.strip()), "")

    return write


def vague_form(source: GoldQuestion) -> str:
    """Return an answer that only restates the type of thing asked for.

    >>> vague_form(GoldQuestion("When was Kelp Light built?", ("7 May 1903",)))
    'some time in 1903'
    >>> vague_form(GoldQuestion("How many ships came?", ("five ships",)))
    'several ships'
    """
    forms = _texts()["vague"]
    gold = fold_text(source.golds[0])
    question = fold_text(source.question)
    specifics = find_specifics(source.question, source.golds[0])
    sorts = {specific.sort for specific in specifics}
    if "side" in sorts:
        return str(forms["side"])
    if dates := read_dates(gold):
        return str(forms["date"].format(span=_wider(dates[0].first.year, dates[0].days)))
    if sorts == {"number"}:
        spans = [(span.start, span.end) for span in read_numbers(gold)]
        rest = " ".join(without_spans(gold, spans).split())
        return f"{forms['several']} {rest}".strip()
    if hit := _ASKED.search(question):
        word = {"whose": "who", "whom": "who"}.get(hit[1], hit[1])
        return str(forms[word])
    nouns = (noun for noun in _NOUN.findall(question) if noun not in _VERBS)
    noun = next(nouns, "")
    return str(forms["noun"].format(noun=noun) if noun else forms["other"])


def _wider(year: int, days: int) -> str:
    """Return a span that is too wide to give the date: the year of a day, or the decade of a
    year.
    """
    if days < 300:
        return str(year)
    return f"the {year // 10 * 10}s"


def _other_answer(source: GoldQuestion, answers: Sequence[GoldQuestion], seed: int) -> str:
    """Return the gold answer of another question with the same type and none of this answer's
    specifics.
    """
    sort = _sort_of(source)
    if sort == "side":
        (side,) = find_specifics(source.question, source.golds[0])
        if side.text == "yes":
            return "No."
        return "Yes."
    others = [
        answer.golds[0] for answer in answers if answer != source and _sort_of(answer) == sort
    ]
    Random(f"{seed} {source.question}").shuffle(others)
    others.sort(key=lambda text: abs(len(text) - len(source.golds[0])))
    fitting = (
        text for text in others if not best_coverage(source.question, source.golds, text).present
    )
    return next(fitting, "") or (_other_number(source.golds[0]) if sort == "number" else "")


def _other_number(gold: str) -> str:
    """Return the answer with its only number raised by three; "" if it has several numbers."""
    plain = fold_text(gold)
    numbers = list(read_numbers(plain))
    if len(numbers) != 1:
        return ""
    (number,) = numbers
    return f"{plain[: number.start]}{number.value + 3:g}{plain[number.end :]}"


def _sort_of(answer: GoldQuestion) -> str:
    """Return the type of an answer's first specific; names and other words are different types."""
    specifics = find_specifics(answer.question, answer.golds[0])
    sort = specifics[0].sort if specifics else "word"
    if sort == "word" and answer.golds[0][:1].isupper():
        return "name"
    return sort


@cache
def _texts() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("leniency.toml").read_text(encoding="utf-8"))
