"""Training examples of answer equivalence: human labels from EVOUNA, and examples made by rules."""

import hashlib
import json
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from emend.agents.parsing.passages import read_passage, sentences, without_question
from emend.evals.metrics.equivalence.rows import RepliedQuestion
from emend.memory.values.search import AnswerHit, find_answers
from emend.memory.values.text import value_text

FOLDS = 5
MADE_EACH = 4
"""Number of examples made by rules per question."""
VAGUE = {
    "date": (
        "some years ago|sometime in the past|at some point|around that time|several decades ago|"
        "in the {century}th century|in the {decade}s|sometime before {after}|around early {near}|"
        "a couple of years ago|late in the year"
    ),
    "number": "several|a few|many|quite a lot|a good number|more than one|a handful|some|dozens",
    "name": (
        "a well-known person|someone famous|a popular name in the field|a notable figure|"
        "one of the major ones|a large and well-known one|someone from that country|an important city|"
        "a famous group"
    ),
    "text": (
        "something of that sort|various things|a certain type of thing|several related things|"
        "something similar|a general idea|different kinds of things|one of the usual ones"
    ),
}
"""Vague phrases that replace a value, by type of value."""
ASKED_NOUN = re.compile(
    r"\b(?:which|what)(?: (?:type|kind|name) of(?: the)?)? (?P<noun>(?!is\b|was\b|are\b|were\b|did\b|does\b|do\b)"
    r"[a-z]{3,}(?: [a-z]{4,})?)\b",
    re.IGNORECASE,
)
GENERAL = (
    "a well-known {noun}",
    "a popular {noun} of its time",
    "one of the more famous of them, a {noun}",
    "a {noun} in Europe",
    "a {noun} with a long history",
    "an important {noun}",
    "some {noun} or other",
    "a modern {noun}",
)
"""Vague answers to a question that asks for a noun."""
MONTHS = "January February March April May June July August September October November December".split()


class Example(NamedTuple):
    """A labelled row with its data set or rule, its fold and its weight."""

    row: RepliedQuestion
    right: bool
    source: str
    fold: int
    weight: float = 1.0


class Labelled(NamedTuple):
    """A question with its gold answers, and replies labelled right and wrong by humans."""

    question: str
    golds: tuple[str, ...]
    right: list[str]
    wrong: list[str]


def question_key(question: str) -> str:
    """Return the lower-case words of a question, which are equal for repeated questions."""
    return " ".join(re.findall(r"\w+", question.casefold()))


def fold_of(question: str) -> int:
    """Return the fold of a question, which depends only on its text."""
    return int(hashlib.sha256(question_key(question).encode()).hexdigest(), 16) % FOLDS


def evouna(folder: Path) -> tuple[list[Example], list[Labelled]]:
    """Return the labelled replies of EVOUNA, and its questions.

    Args:
        folder: folder with `evouna_nq.json` and `evouna_tq.json`.
    """
    examples: list[Example] = []
    questions: list[Labelled] = []
    for name in ("nq", "tq"):
        for item in json.loads((folder / f"evouna_{name}.json").read_text(encoding="utf-8")):
            golds = tuple(item["golds"])
            labelled = Labelled(item["question"], golds, [], [])
            for model, reply in item["replies"].items():
                row = RepliedQuestion(item["question"], golds, reply["text"])
                right = bool(reply["right"])
                examples.append(Example(row, right, f"{name}-{model}", fold_of(row.question)))
                (labelled.right if right else labelled.wrong).append(reply["text"])
            questions.append(labelled)
    return examples, questions


def made(questions: Sequence[Labelled], seed: int = 0) -> list[Example]:
    """Return examples made by rules, each in its question's fold, with values from that fold."""
    draw = random.Random(seed)
    examples: list[Example] = []
    for fold in range(FOLDS):
        inside = [labelled for labelled in questions if fold_of(labelled.question) == fold]
        values = _values_by_type(inside)
        for labelled in inside:
            pool = [*_made_of(labelled, inside, values, draw)]
            for rule, row, right in draw.sample(pool, min(MADE_EACH, len(pool))):
                examples.append(Example(row, right, rule, fold))
    return examples


Made = tuple[str, RepliedQuestion, bool]


def value_type(gold: str) -> str:
    """Return the type of a gold answer: `date`, `number`, `name` or `text`."""
    text = value_text(gold)
    if text.dates or text.years:
        return "date"
    if any(token.kind in ("number", "ordinal") for token in text.tokens):
        return "number"
    capitals = [token.kind == "name" for token in text.tokens]
    return "name" if capitals and sum(capitals) * 2 >= len(capitals) else "text"


def _values_by_type(questions: Sequence[Labelled]) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {"date": [], "number": [], "name": [], "text": []}
    for labelled in questions:
        for gold in labelled.golds[:1]:
            values[value_type(gold)].append(gold)
    return values


def _made_of(
    labelled: Labelled,
    others: Sequence[Labelled],
    values: dict[str, list[str]],
    draw: random.Random,
) -> Iterator[Made]:
    """Yield all examples that the rules make from a question."""
    question, golds, right, wrong = labelled
    gold = draw.choice(golds[:3])
    other = _other_value(gold, golds, values, draw)
    vague = _vague(gold, draw)
    yield "swapped short", RepliedQuestion(question, golds, _with_tail(other, labelled, draw)), False
    yield "vague short", RepliedQuestion(question, golds, vague), False
    general_noun = _asked_in_general(question, draw)
    if general_noun:
        yield "general noun", RepliedQuestion(question, golds, general_noun), False
    sentence = _sentence_gold(labelled, draw)
    stated = (sentence,) if sentence else golds
    yield "vague for a sentence", RepliedQuestion(question, stated, vague), False
    yield "swapped for a sentence", RepliedQuestion(question, stated, other), False
    if sentence:
        without = _without_specifics(sentence, labelled)
        yield "specifics dropped", RepliedQuestion(question, stated, without), False
    for reply in draw.sample(right, min(2, len(right))):
        changed = _replaced(reply, labelled, other)
        general = _replaced(reply, labelled, vague)
        if changed:
            yield "swapped", RepliedQuestion(question, draw.choice([golds, stated]), changed), False
        if general:
            yield "vague", RepliedQuestion(question, draw.choice([golds, stated]), general), False
        if sentence and reply[:60] != sentence[:60]:
            yield "right for a sentence", RepliedQuestion(question, stated, reply), True
            yield "right for a sentence", RepliedQuestion(question, stated, _short(reply, question)), True
        beside = _beside(reply, labelled)
        if beside:
            yield "beside the question", RepliedQuestion(question, golds, draw.choice(beside)), False
    if sentence and wrong:
        yield "wrong for a sentence", RepliedQuestion(question, stated, draw.choice(wrong)), False
    yield from _joined(labelled, draw.choice(others), other, draw)


def _joined(first: Labelled, second: Labelled, other: str, draw: random.Random) -> Iterator[Made]:
    """Yield examples that join two questions: both answers right, one wrong, or one missing."""
    if not (first.right and second.right) or first is second:
        return
    question = f"{first.question.rstrip('?')}, and {second.question}"
    golds = (f"{first.golds[0]} and {second.golds[0]}",)
    ours, theirs = draw.choice(first.right), draw.choice(second.right)
    yield "both of two", RepliedQuestion(question, golds, f"{ours} {theirs}"), True
    pair = f"{second.golds[0]}, {first.golds[0]}"
    yield "both of two", RepliedQuestion(question, golds, pair), True
    yield "one of two wrong", RepliedQuestion(question, golds, f"{other} and {second.golds[0]}"), False
    swapped = _replaced(ours, first, other)
    if swapped:
        yield "one of two wrong", RepliedQuestion(question, golds, f"{theirs} {swapped}"), False


def _sentence_gold(labelled: Labelled, draw: random.Random) -> str:
    """Return a sentence with the gold from a right reply, without the question's words, or ""."""
    usable = []
    for reply in labelled.right:
        sentence = _short(reply, labelled.question)
        answers = any(find_answers(value_text(sentence), labelled.golds, labelled.question))
        if answers and 3 <= len(sentence.split()) <= 24:
            usable.append(sentence)
    return draw.choice(usable) if usable else ""


def _short(reply: str, question: str) -> str:
    first = next(iter(sentences(read_passage(reply))), "")
    return without_question(first, question)


def _beside(reply: str, labelled: Labelled) -> list[str]:
    """Return the sentences of a reply that do not contain the answer."""
    return [
        sentence
        for sentence in sentences(read_passage(reply))
        if len(sentence.split()) > 4 and not any(find_answers(value_text(sentence), labelled.golds, labelled.question))
    ]


def _replaced(reply: str, labelled: Labelled, value: str) -> str:
    """Return a reply's first sentence with `value` in place of each gold; "" without a gold."""
    text = next(iter(sentences(value_text(read_passage(reply)).plain)), "")
    for _ in range(4):
        hits: list[AnswerHit] = list(find_answers(value_text(text), labelled.golds, labelled.question))
        if not hits:
            break
        hit = max(hits, key=lambda hit: hit.end - hit.start)
        text = f"{text[: hit.start]}\x00{text[hit.end :]}"
    else:
        return ""
    return text.replace("\x00", value) if "\x00" in text else ""


def _other_value(gold: str, golds: Sequence[str], values: dict[str, list[str]], draw: random.Random) -> str:
    """Return a wrong value of the gold's type: a changed one, or another question's gold."""
    kind = value_type(gold)
    candidates = draw.sample(values[kind], min(6, len(values[kind])))
    if kind in ("date", "number") and draw.random() < 0.7:
        candidates.insert(0, _shifted(gold, draw))
    for value in candidates:
        if not any(find_answers(value_text(value), golds)):
            return value
    return "none of them"


def _shifted(gold: str, draw: random.Random) -> str:
    """Return a gold with its month or its first number changed."""
    month = next((month for month in MONTHS if month in gold), "")
    if month and draw.random() < 0.5:
        return gold.replace(month, draw.choice([name for name in MONTHS if name != month]))
    step = draw.choice([-10, -5, -3, -2, -1, 1, 2, 3, 5, 7, 12])

    def change(match: re.Match[str]) -> str:
        return str(max(1, int(match[0].replace(",", "")) + step))

    return re.sub(r"\d[\d,]*", change, gold, count=1)


def _vague(gold: str, draw: random.Random) -> str:
    kind = value_type(gold)
    phrase = draw.choice(VAGUE[kind].split("|"))
    year = next((date.year for date in value_text(gold).years), 1950)
    return phrase.format(century=year // 100 + 1, decade=year // 10 * 10, after=year + 3, near=year - year % 5)


def _asked_in_general(question: str, draw: random.Random) -> str:
    """Return a vague answer with the noun that a question asks for, such as `a well-known city`."""
    match = ASKED_NOUN.search(question)
    if not match:
        return ""
    noun = match["noun"].lower()
    return draw.choice(GENERAL).format(noun=noun)


def _without_specifics(sentence: str, labelled: Labelled) -> str:
    """Return a sentence with general words in place of its answer, names and numbers."""
    text = _replaced(sentence, labelled, "something") or sentence
    general = {"name": "someone", "number": "some", "ordinal": "some", "date": "some time"}
    parts: list[str] = []
    end = 0
    for token in value_text(text).tokens:
        if token.kind in general and token.start:
            parts += [text[end : token.start], general[token.kind]]
            end = token.end
    return re.sub(r"\b(\w+)( \1)+\b", r"\1", "".join(parts) + text[end:])


def _with_tail(value: str, labelled: Labelled, draw: random.Random) -> str:
    """Return a value, sometimes followed by the last words of another sentence of a right reply."""
    beside = [text for reply in labelled.right for text in _beside(reply, labelled)]
    if not beside or draw.random() < 0.5:
        return value
    tail = draw.choice(beside).split()[-8:]
    return f"{value}, {' '.join(tail)}"
