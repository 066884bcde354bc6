"""Conversion of a question and its answer to one statement, by English grammar; ambiguous ones are
only concatenated.
"""

import re
from collections.abc import Callable

from emend.memory.relations import words as w
from emend.memory.relations.cloze import LINKS
from emend.memory.relations.inflection import find_base, past
from emend.memory.typography import are_unspaced, full_stop

_BE = r"(?P<be>is|was|are|were)"
_DO = r"(?P<do>does|did|do)"
_SORT = r"(?:what|which) (?P<sort>[\w' -]+?)"
_IN = r"(?P<in>in|on|at|by|for|from|to|with) "
# Adverbs of time at the end of a question about the present.
_NOW = re.compile(r" (?:now|today|currently|at present)$")
_NO_PARTICIPLES = frozenset(("found", "left", "lead"))
_LEADING = re.compile(rf"(?:{'|'.join(sorted(w.PREPOSITIONS))}|to) ", re.IGNORECASE)


def statement_of(question: str, answer: str) -> str:
    """Return the statement that answers a question, such as `The capital of Peru is Lima`.

    A text that is not a question is continued by its answer. A question that is not English, or too
    complex, is kept and followed by its answer.
    """
    question, answer = question.strip(), answer.strip()
    target = answer.removesuffix(".") if answer.count(".") == 1 else answer
    inquiry = re.fullmatch(r"(?s)(\S.*\S)\s*\?", question)
    if inquiry:
        for form, statement in _FORMS:
            hit = re.fullmatch(form, inquiry[1], re.IGNORECASE)
            text = statement(hit, target) if hit else ""
            if text:
                return _ended(text[:1].upper() + text[1:])
    return _ended(f"{question}{_space(question, answer)}{answer}")


def _space(first: str, second: str) -> str:
    return "" if are_unspaced(first[-1:], second[:1]) else " "


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "\u3002")) else text + full_stop(text)


def _is_clause(words: list[str]) -> bool:
    """Return whether the words contain a verb, or a word that looks like one."""
    plain = [word.lower() for word in words]
    return any(word in w.AUXILIARIES | w.RELATIVES | w.CONJUNCTIONS for word in plain)


def _is_participle(word: str) -> bool:
    return word.islower() and (word.endswith("ed") or word in w.IRREGULAR - _NO_PARTICIPLES)


def _tail(words: list[str]) -> int:
    """Count the words of a final participle with its preposition: 'made of', 'called'."""
    size = 2 if words[-1].lower() in LINKS else 1
    return size if len(words) > size and _is_participle(words[-size]) else 0


def _equal(hit: re.Match[str], answer: str) -> str:
    """`What is the capital of Peru?`, `What is bronze made of?`."""
    now = _NOW.search(hit["rest"])
    rest = hit["rest"][: now.start()] if now else hit["rest"]
    words = rest.split()
    if _is_clause(words) or words[0].endswith("ing"):
        return ""
    if _is_participle(words[0]):
        return f"{answer} {hit['be']} {hit['rest']}"
    size = _tail(words)
    if size:
        subject, participle = " ".join(words[:-size]), " ".join(words[-size:])
        return f"{subject} {hit['be']}{now[0] if now else ''} {participle} {answer}"
    if words[-1].lower() in LINKS or len(words) > 1 and words[0].lower() in w.PREPOSITIONS:
        return ""
    return f"{rest} {hit['be']}{now[0] if now else ''} {answer}"


def _subject(hit: re.Match[str], answer: str) -> str:
    """`Who wrote Hamlet?`, `Which river flows through Peru?`."""
    words = hit["rest"].split()
    verb = words[0].lower()
    base = find_base(verb)
    if not base or verb == base and base not in w.INVARIABLE or verb in w.DETERMINERS:
        return ""
    sort = (hit.groupdict().get("sort") or "").lower().split()
    if w.AUXILIARIES.intersection(sort):
        return ""
    return f"{answer} {hit['rest']}"


def _placed(hit: re.Match[str], answer: str) -> str:
    """`In which city is the tower?`, `In which year was Ana born?`."""
    words = hit["rest"].split()
    if _is_clause(words):
        return ""
    return _with_adverbial(words, hit["be"], f"{hit['in'].lower()} {answer}")


def _sorted(hit: re.Match[str], answer: str) -> str:
    """`Which country is Mount Etna in?`, `Which sport is Ana associated with?`."""
    words = hit["rest"].split()
    if _is_clause(words) or words[-1].lower() not in LINKS:
        return ""
    if any(word.lower() in w.DETERMINERS for word in words[1:]):
        return ""
    at = len(words) - (_tail(words) or 1)
    return " ".join([*words[:at], hit["be"], *words[at:], answer])


def _where(hit: re.Match[str], answer: str) -> str:
    """`Where was Ana born?`."""
    words = hit["rest"].split()
    if _is_clause(words) or words[-1].lower() in LINKS:
        return ""
    return _with_adverbial(words, hit["be"], _preposition(hit["word"], answer))


def _with_adverbial(words: list[str], be: str, adverbial: str) -> str:
    """Return the statement of a place or time, with 'is' or 'was' before a participle; "" if
    ambiguous.
    """
    if not adverbial or any(word.endswith("ing") and word.islower() for word in words):
        return ""
    places = [place for place, word in enumerate(words) if place and _is_participle(word)]
    at = places[0] if places else len(words)
    return " ".join([*words[:at], be, *words[at:], adverbial])


def _preposition(word: str, answer: str) -> str:
    """Return the answer with a preposition of place or time, adding it if missing; "" if
    ambiguous.
    """
    if _LEADING.match(answer):
        return answer
    if word.lower() == "where":
        return f"in {answer}"
    if re.fullmatch(r"(?:\w+ )?\d{4}", answer):
        return f"in {answer}"
    return f"on {answer}" if re.search(r"\d", answer) else ""


def _done(hit: re.Match[str], answer: str) -> str:
    """`What does Acme produce?`, `Which club did Bo play for?`, `Where did Ana die?`."""
    words = hit["rest"].split()
    places = [place for place, word in enumerate(words) if place and find_base(word) == word]
    if len(places) != 1 or _is_clause(words):
        return ""
    place = places[0]
    base = words[place]
    if hit["do"].lower() == "did":
        verb = past(base)
    else:
        verb = base if hit["do"].lower() == "do" else w.third_person(base)
    groups = hit.groupdict()
    if groups.get("word"):
        target = _preposition(groups["word"], answer)
    else:
        year = "in" if groups.get("sort") == "year" else ""
        target = f"{(groups.get('in') or year).lower()} {answer}".strip()
    rest = words[place + 1 :]
    if not target:
        return ""
    if rest and groups.get("word") is None and any(word.lower() not in LINKS for word in rest):
        return ""
    return " ".join([*words[:place], verb, *rest, target])


_FORMS: tuple[tuple[str, Callable[[re.Match[str], str], str]], ...] = (
    (rf"(?:what|who|which) {_BE} (?P<rest>.+)", _equal),
    (rf"(?:what|who|whom) {_DO} (?P<rest>.+)", _done),
    (rf"(?P<word>where|when) {_DO} (?P<rest>.+)", _done),
    (rf"{_IN}(?:what|which) [\w' -]+? {_DO} (?P<rest>.+)", _done),
    (rf"{_IN}(?:what|which) [\w' -]+? {_BE} (?P<rest>.+)", _placed),
    (rf"(?P<word>where|when) {_BE} (?P<rest>.+)", _where),
    (rf"{_SORT} {_DO} (?P<rest>.+)", _done),
    (rf"{_SORT} {_BE} (?P<rest>.+)", _sorted),
    (r"who (?P<rest>.+)", _subject),
    (
        r"(?:what|which) (?P<sort>(?:[\w'-]+ ){1,3}?)(?P<rest>(?:[a-z]+(?:s|ed)|w[a-z]+) .+)",
        _subject,
    ),
)
