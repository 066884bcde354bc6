"""Specifics of a gold answer: dates, numbers and words that the question does not already contain.

A vague answer (`a kind of meal` for *pizza*, `in the spring` for *16 March*) has none of them,
which can be checked without a model.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from emend.agents.parsing.passages import sentences
from emend.memory.retrieval.tokens import FUNCTION_WORDS, stems
from emend.memory.typography import fold_text
from emend.memory.values.day_spans import read_dates, without_spans
from emend.memory.values.letters import without_accents
from emend.memory.values.quantities import read_numbers

# Minimum share of a gold answer's specifics in an answer that is not vague.
#
# Measured on LoCoMo's replies (`scripts/benchmarks/check_disputes.py`), in percent: vague wrong
# answers that are still accepted (the judge alone accepts 61), and right answers that are disputed.
# The first number is for the conversations used to develop the rule, the second for the others.
#
# least share     0.01        0.15        0.25        0.34
# vague accepted  20.6, 16.3  18.9, 15.4  16.8, 13.3  10.9, 7.4
# right disputed  5.1, 5.1    5.3, 5.3    6.1, 7.1    10.7, 10.8
LEAST = 0.15
# Minimum length of a stem that is also searched inside longer words (`icecream`).
COMPOUND = 6
# Stems of words without specific content.
LIGHT = frozenset(
    "about after all also ani approxim around becaus befor being both but can could dure each get "
    "go got he her him his if into it just like lot make mani me more most much my no not one "
    "other our out over she sinc so some someth sometim than then there they thing up us use veri "
    "we while "
    "would yes you your i".split()
)
_HEDGE = r"(?:(?:very |most |highly )?(?:likely|probably)[ ,]+)?"
_END = r"\s*(?:$|[,.;:!-])"
_SIDES = {
    "yes": re.compile(rf"{_HEDGE}(?:(?:yes|yeah|yep)\b|true{_END})"),
    "no": re.compile(rf"{_HEDGE}(?:(?:no|false){_END}|nope\b)|(?:probably|likely) not\b"),
}
_DENIAL = re.compile(r"\b(?:no|not|never|neither|cannot|unlikely|hardly|doubtful)\b|n't\b")
_UNDECIDED = re.compile(r"\b(?:depends|unclear|unknown|uncertain|perhaps|maybe)\b")

Sort = Literal["side", "date", "number", "word"]


class Specific(NamedTuple):
    """One specific of a gold answer: its words, and how they are compared."""

    sort: Sort
    text: str


class SpecificCoverage(NamedTuple):
    """Specifics of a gold answer that are present in a reply, and specifics that are absent."""

    present: tuple[Specific, ...]
    absent: tuple[Specific, ...]

    @property
    def share(self) -> float:
        """The share of specifics that the reply gives; 1 for a gold answer without any."""
        total = len(self.present) + len(self.absent)
        return len(self.present) / total if total else 1.0


def best_coverage(question: str, golds: Sequence[str], reply: str) -> SpecificCoverage:
    """Return the coverage of the gold answer or alias with the largest share of specifics in the
    reply.
    """
    covered = [coverage(question, gold, reply) for gold in golds]
    return max(covered, key=lambda each: each.share, default=SpecificCoverage((), ()))


def coverage(question: str, gold: str, reply: str) -> SpecificCoverage:
    """Compare a reply with a gold answer by its specifics, each present or absent.

    A date matches an overlapping date that is as narrow; a number matches by value, in digits or
    words; a word by its stem, inside a compound, or by initials; yes or no by the side that the
    reply takes.

    Args:
        question: the question; its words are not specifics, unless the gold answer has no others.
        gold: one correct answer.
        reply: the judged answer, or words quoted from it.

    >>> coverage("When did they meet?", "7 May 2023", "On the 7th of May, 2023.").share
    1.0
    >>> coverage("What did they cook?", "a pizza", "Some kind of dinner").absent
    (Specific(sort='word', text='pizza'),)
    """
    year = _first_year(gold) or _first_year(question)
    content = _ReplyContent(reply, year, initials=_initials(gold))
    specifics = find_specifics(question, gold)
    present = tuple(specific for specific in specifics if content.gives(specific))
    absent = tuple(specific for specific in specifics if specific not in present)
    return SpecificCoverage(present, absent)


@lru_cache(maxsize=4096)
def find_specifics(question: str, gold: str) -> tuple[Specific, ...]:
    """Return the specifics of a gold answer: its side (yes or no), else its dates, numbers and
    words.
    """
    if side := side_of(gold):
        return (Specific("side", side),)
    specifics = tuple(_read_specifics(gold))
    if " or " in fold_text(question):  # the question offers the answer
        return specifics
    in_question = {*_read_specifics(question)}
    beyond = tuple(specific for specific in specifics if specific not in in_question)
    return beyond or specifics


def side_of(text: str) -> str:
    """Return `yes` or `no` for a text that begins with it, else "".

    >>> side_of("Likely no, she was not asked"), side_of("No. 5")
    ('no', '')
    """
    plain = fold_text(text).replace("*", "").lstrip("\"' ")
    if re.match(r"no\.\s*\d", plain):
        return ""
    return next((side for side, form in _SIDES.items() if form.match(plain)), "")


def _read_specifics(text: str) -> Iterator[Specific]:
    """Yield all dates, numbers and words of a text, each once."""
    plain = fold_text(text)
    dates = read_dates(text)
    rest = without_spans(plain, [(span.start, span.end) for span in dates])
    numbers = list(read_numbers(rest))
    words = without_spans(rest, [(span.start, span.end) for span in numbers])
    yield from dict.fromkeys(Specific("date", plain[span.start : span.end]) for span in dates)
    yield from dict.fromkeys(Specific("number", f"{span.value:g}") for span in numbers)
    yield from dict.fromkeys(Specific("word", stem) for stem in _content_stems(words))


def _content_stems(text: str) -> list[str]:
    """Return the stems of content words, without accents."""
    return [stem for stem in stems(without_accents(text)) if stem not in LIGHT | FUNCTION_WORDS]


class _ReplyContent:
    """The content of a reply by types of specifics.

    `initials` are those of the gold answer; a reply may consist of them alone (`the UN`).
    """

    def __init__(self, reply: str, year: int | None, initials: str) -> None:
        self.year = year
        plain = without_accents(fold_text(reply))
        self.side = side_of(reply) or _implied_side(plain)
        self.dates = read_dates(reply, year)
        self.numbers = {f"{span.value:g}" for span in read_numbers(plain)}
        self.words = frozenset(stems(plain))
        self.joined = "".join(plain.split())
        self.short = bool(initials) and initials in _short_names(reply)
        self.spelled = _initials(reply)

    def gives(self, specific: Specific) -> bool:
        """Return whether the reply gives a specific."""
        match specific.sort:
            case "side":
                return specific.text == self.side
            case "date":
                golds = read_dates(specific.text, self.year)
                return any(span.gives(gold) for span in self.dates for gold in golds)
            case "number":
                return specific.text in self.numbers
        inside = len(specific.text) >= COMPOUND and specific.text in self.joined
        spelled = specific.text == self.spelled or (
            len(specific.text) > 2 and specific.text in self.spelled
        )
        return specific.text in self.words or inside or self.short or spelled


def _implied_side(plain: str) -> str:
    """Return the side of a first sentence without yes or no; "" if it takes none."""
    first = next(iter(sentences(plain)), "")
    if not first or _UNDECIDED.search(first):
        return ""
    return "no" if _DENIAL.search(first) else "yes"


def _initials(text: str) -> str:
    """Return the initials of a text's capitalised words in lower case; "" for fewer than two."""
    letters = re.findall(r"\b(?!The\b)[A-Z](?=[a-z])", without_accents(text))
    return "".join(letters).casefold() if len(letters) > 1 else ""


def _short_names(text: str) -> set[str]:
    """Return the acronyms of a text, in lower case without points (`U.N.`, `UN`)."""
    names = re.findall(r"\b(?:[A-Z]\.?){2,}(?![a-z])", text)
    return {name.replace(".", "").casefold() for name in names}


def _first_year(text: str) -> int | None:
    """Return the year of the first date of a text, or None."""
    return next((span.first.year for span in read_dates(text)), None)
