"""Lexical features of a reply compared with one gold answer and with all of them."""

import math
from collections.abc import Sequence
from functools import lru_cache

from emend.agents.parsing.abstention import abstains
from emend.evals.metrics.equivalence import phrases
from emend.evals.metrics.equivalence.rows import ReadReply, gold_words, question_stems
from emend.memory.values.dates import Date
from emend.memory.values.forms import word_stem
from emend.memory.values.search import AnswerHit, find_answers
from emend.memory.values.text import ValueText, value_text
from emend.memory.values.tokens import Token

# Value of a feature that does not apply, such as the dates of a gold answer without dates.
MISSING = -1.0
LATE = 9.0
# Maximum number of gold answers that are used.
GOLDS = 24
RULES = {"": 3.0, "as a date": 2.0, "as a name": 2.0, "by its words": 2.0, "less precise": 1.0}
DERIVED = 2.0


def reply_features(read: ReadReply, golds: Sequence[str]) -> dict[str, float]:
    """Return the features of a reply that do not depend on a single gold answer."""
    first = read.sentences[0]
    names = dict.fromkeys(token.form for token in read.new_words if token.kind == "name")
    question = question_stems(read.question)
    words = {word_stem(token) for token in read.new_words}
    gold_stems = {word_stem(token) for gold in golds for token in value_text(gold).tokens}
    general = {
        "abstains": float(abstains(read.reply, read.question)),
        "hedges": float(bool(phrases.HEDGE.search(first))),
        "negations": float(len(phrases.NEGATION.findall(first))),
        "either": float(bool(phrases.EITHER.search(first))),
        "vague words": float(len(phrases.VAGUE.findall(first))),
        "approximate": float(bool(phrases.APPROXIMATE.search(read.core))),
        "sentences": float(len(read.sentences)),
        "words": math.log1p(len(read.text.tokens)),
        "new words": math.log1p(len(read.new_words)),
        "new names": float(len(names)),
        "golds": math.log1p(len(golds)),
        "asked words": _share(question, read.first_stems),
        "precision": len(words & gold_stems) / len(words) if words else MISSING,
    }
    return general | {
        name: float(bool(pattern.search(read.question))) for name, pattern in phrases.ASKS.items()
    }


def hit_features(read: ReadReply, golds: Sequence[str]) -> dict[str, float]:
    """Return how and where a reply gives one of the gold answers."""
    hits = list(find_answers(read.text, golds, read.question))
    strict = [hit for hit in hits if not hit.rule]
    first = min(hits, key=lambda hit: (read.sentence_at(hit.start), hit.start), default=None)
    best = min(
        strict or hits, key=lambda hit: (read.sentence_at(hit.start), hit.start), default=None
    )
    return {
        "hit": max((RULES.get(hit.rule, DERIVED) for hit in hits), default=0.0),
        "hit's sentence": float(read.sentence_at(best.start)) if best else LATE,
        "first hit's sentence": float(read.sentence_at(first.start)) if first else LATE,
        "hit's position": _position(read, first) if first else 1.0,
        "hit denied": float(bool(first and _is_denied(read, first))),
        "hit in core": float(any(find_answers(value_text(read.core), golds, read.question))),
    }


def _position(read: ReadReply, hit: AnswerHit) -> float:
    return hit.start / max(1, len(read.text.plain))


def _is_denied(read: ReadReply, hit: AnswerHit) -> bool:
    before = read.text.plain[: hit.start]
    return phrases.PAST_MENTION.search(before[-60:]) is not None


def gold_features(read: ReadReply, gold: str, golds: Sequence[str]) -> dict[str, float]:
    """Return how many of a gold answer's words, names, numbers and dates a reply gives, and what it
    adds.
    """
    text = value_text(gold)
    words = gold_words(gold, read.question)
    stems = [word_stem(token) for token in words]
    likeness = [_likeness(token, read.text.tokens) for token in words]
    names = [token.form for token in words if token.kind == "name"]
    others = [word_stem(token) for token in words if token.kind == "word"]
    forms = {token.form for token in read.text.tokens}
    near = {token.form for token in read.first.tokens}
    features = {
        "recall": _share(stems, read.stems),
        "recall in first": _share(stems, read.first_stems),
        "recall of all": _share([*text.stems], read.stems),
        "likeness": sum(likeness) / max(1, len(likeness)),
        "least likeness": min(likeness, default=0.0),
        "last word": float(bool(stems) and stems[-1] in read.stems),
        "gold's words": math.log1p(len(words)),
        "names": _share(names, forms) if names else MISSING,
        "names in first": _share(names, near) if names else MISSING,
        "plain words": _share(others, read.stems) if others else MISSING,
        "gold is shorter": math.log((1 + len(read.new_words)) / (1 + len(words))),
    }
    features |= _number_features(read, words, golds)
    features |= _date_features(read, text, golds)
    return features | {"polarity": _polarity(read, gold)}


def _share(words: Sequence[str] | frozenset[str], text: frozenset[str] | set[str]) -> float:
    if words:
        return sum(word in text for word in words) / len(words)
    return 0.0


def _likeness(word: Token, tokens: Sequence[Token]) -> float:
    return max((_dice(word.form, token.form) for token in tokens), default=0.0)


@lru_cache(maxsize=1 << 17)
def _dice(left: str, right: str) -> float:
    """Return the Dice coefficient of two words' letter bigrams."""
    if left == right:
        return 1.0
    if left[:1].isdigit() or right[:1].isdigit():
        return 0.0
    ours, theirs = _pairs(left), _pairs(right)
    return 2 * len(ours & theirs) / (len(ours) + len(theirs))


@lru_cache(maxsize=1 << 16)
def _pairs(word: str) -> frozenset[str]:
    padded = f"^{word}$"
    return frozenset(padded[index : index + 2] for index in range(len(padded) - 1))


def _numbers(tokens: Sequence[Token]) -> list[float]:
    digits = [token.form.rstrip(".") for token in tokens if token.kind in ("number", "ordinal")]
    return [
        float(number) for number in digits if number.lstrip("-").replace(".", "", 1).isdecimal()
    ]


def _number_features(
    read: ReadReply, words: Sequence[Token], golds: Sequence[str]
) -> dict[str, float]:
    gold_numbers = _numbers(words)
    question_numbers = set(_numbers(value_text(read.question).tokens))
    reply_numbers = [
        number for number in _numbers(read.text.tokens) if number not in question_numbers
    ]
    near = [number for number in _numbers(read.first.tokens) if number not in question_numbers]
    right = {number for gold in golds for number in _numbers(value_text(gold).tokens)}
    other = float(len(set(near) - right))
    if not gold_numbers:
        return {"numbers": MISSING, "closest number": MISSING, "other numbers": other}
    return {
        "numbers": sum(number in reply_numbers for number in gold_numbers) / len(gold_numbers),
        "closest number": sum(_closeness(number, near or reply_numbers) for number in gold_numbers)
        / len(gold_numbers),
        "other numbers": other,
    }


def _closeness(number: float, reply_numbers: Sequence[float]) -> float:
    """Return the closeness of the nearest number: 1 if equal, 0 if there is none or it is off by a
    factor of two.
    """
    gaps = [abs(number - other) / max(abs(number), abs(other), 1e-9) for other in reply_numbers]
    return max(0.0, 1 - 2 * min(gaps, default=0.5))


def _date_features(read: ReadReply, gold: ValueText, golds: Sequence[str]) -> dict[str, float]:
    gold_dates = gold.dates or gold.years
    first_dates = [*read.first.dates, *read.first.years]
    right = [date for text in map(value_text, golds) for date in (*text.dates, *text.years)]
    other = 0
    for date in first_dates:
        other += bool(right) and all(date.contradicts(gold) for gold in right)
    if not gold_dates:
        return {"dates": MISSING, "other dates": float(len(first_dates)) if not right else 0.0}
    reply_dates = [*read.text.dates, *read.text.years]
    best = max(_agreement(reply_dates, date) for date in gold_dates)
    return {"dates": best, "other dates": float(other)}


def _agreement(dates: Sequence[Date], gold: Date) -> float:
    """Return 3 if the gold date is given, 2 if it is less precise, 1 if there is no date, 0 for
    other dates.
    """
    if any(date.gives(gold) for date in dates):
        return 3.0
    if any(date.is_coarser(gold) for date in dates):
        return 2.0
    if dates:
        return 0.0
    return 1.0


def _polarity(read: ReadReply, gold: str) -> float:
    """Return 1 for the same yes or no as the gold answer, -1 for the opposite, 0 if one of them has
    neither.
    """
    golds = float(bool(phrases.YES.search(gold))) - float(bool(phrases.NO.search(gold)))
    first = read.sentences[0]
    reply = float(bool(phrases.YES.search(first))) - float(bool(phrases.NO.search(first)))
    return golds * reply
