"""Rules for sentences that name an answer without asserting it, such as denials.

Denials are recognised in English, German, French, Spanish, Italian, Portuguese, Russian, Chinese
and Japanese.
"""

import re
from collections.abc import Callable
from functools import cached_property

from emend.agents.parsing.patterns import PatternFile


class Mention:
    """An answer within a sentence of a reply.

    `before` omits quoted words and negations that the question contains too, since they do not deny
    the answer. `verbatim` is whether the right answer is written so.
    """

    def __init__(
        self, before: str, name: str, after: str, question: str, verbatim: bool = False
    ) -> None:
        self.name = name
        self.verbatim = verbatim
        self.after = after
        self.question = question
        self._before = before

    @cached_property
    def before(self) -> str:
        """The sentence up to the answer, without quotations and negations of the question."""
        text = _QUOTED.sub(" ", self._before)
        for word in _NEGATIONS.findall(self.question):
            text = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", " ", text, count=1, flags=re.I)
        return text


_FILE = PatternFile.beside(__file__)
_QUOTED = re.compile(r'"[^"]*"')
_NEGATIONS = re.compile(r"(?i:\b(?:not|never|no|\w+n't|ain'?t|don'?t|won'?t|isn'?t|doesn'?t)\b)")
# The rest of a clause, up to the answer.
_DENIED_BEFORE = _FILE.read("denied_before")
_DENIED_BEFORE_UNSPACED = re.compile(r"(?:不再?是|并非|並非|不在|没有|沒有|不|非)[^，。、]{0,2}$")
_DENIED_AFTER = _FILE.read("denied_after")
_CLAIM_DENIED = _FILE.read("claim_denied")
_BELIEF = _FILE.read("belief")
_PAST = _FILE.read("past")
_PAST_AFTER = _FILE.read("past_after")
_PAST_QUESTION = re.compile(
    r"\b(?:formerly|previous(?:ly)?|used "
    r"to|original(?:ly)?|former|before)\b"
)
_OR_BEFORE = re.compile(r"(?:^|\s)(?P<other>\S+)\s*,?\s+or\s+(?:the\s+|an?\s+)?$", re.IGNORECASE)
_OR_AFTER = re.compile(r"^\s*,?\s+or\s+(?:the\s+|an?\s+)?(?P<other>\S+)", re.IGNORECASE)
_OPPONENT = re.compile(r"\b(?:against|defeat\w*|beat(?:s|en|ing)?)\s+(?:the\s+)?$", re.IGNORECASE)
_CONTEST = re.compile(r"\b(?:against|defeat\w*|beat\w*|los\w+|lost)\b", re.IGNORECASE)
_RESTATED = re.compile(r"\b(?:that|which) is\b.*\b(?:with|of|in|by)\s+$")
_BETWEEN = re.compile(r"\bbetween\s+$|\bbetween\s+\S+\s+and\s+$", re.IGNORECASE)
_MAYBE = re.compile(r"\b(?:could|may|might) (?:also )?be\s+(?:the\s+)?$|\bwhether\b[^,;:]*$", re.I)


def is_denied(mention: Mention) -> bool:
    """Return whether the answer is denied: `not Paris`, `Paris is not`, `larger than Paris`."""
    if _DENIED_BEFORE.search(mention.before) or _DENIED_BEFORE_UNSPACED.search(mention.before):
        return True
    return bool(_DENIED_AFTER.match(mention.after))


def is_in_denied_claim(mention: Mention) -> bool:
    """Return whether a claim with the answer is denied: `It is false that it is Paris`."""
    return bool(_CLAIM_DENIED.search(f"{mention.before}{mention.name}{mention.after}"))


def is_belief(mention: Mention) -> bool:
    """Return whether others believe the answer: `Many people believe it is Paris`."""
    return bool(_BELIEF.search(mention.before))


def is_past(mention: Mention) -> bool:
    """Return whether the answer is of the past and the question is not: `formerly Paris`."""
    if _PAST_QUESTION.search(mention.question):
        return False
    return bool(_PAST.search(mention.before) or _PAST_AFTER.match(mention.after))


def is_alternative(mention: Mention) -> bool:
    """Return whether the answer is one of two or only possible: `it may be Paris`."""
    if _MAYBE.search(mention.before):
        return True
    match = _OR_AFTER.match(mention.after) or _OR_BEFORE.search(mention.before)
    return bool(match and mention.name[:1].isupper() and match["other"][:1].isupper())


_LONGER_BEFORE = re.compile(
    r"\b(?:New|North|South|East|West|Northern|Southern|Eastern|Western|Saint|St\.|San|Air|"
    r"University of)\s+$"
)
# Nouns that describe a name without turning it into another name.
_CLASS_WORDS = (
    "Inc|Ltd|Corp|Corporation|Company|Group|Jr|Sr|FC|F\\.C|University|Church|Records|Band|River|"
    "Sea|Ocean|"
    "Lake|Desert|Mountains?|Range|Islands?|City|Championship|Awards?|Prize|Music"
)
_LONGER_AFTER = re.compile(rf"^(?:[+#]|\s+(?!(?:{_CLASS_WORDS})\b)[A-Z][a-z]+)")


def is_in_longer_name(mention: Mention) -> bool:
    """Return whether the answer is part of a longer name, as `York` in `New York`.

    That is so after a word such as `New`, or before a capitalised word that is neither a class word
    nor in the question.
    """
    if not mention.name[:1].isupper():
        return False
    if _LONGER_BEFORE.search(mention.before):
        return True
    match = _LONGER_AFTER.match(_without_loop(mention.name, mention.after))
    return match is not None and match[0].strip().lower() not in mention.question.lower()


def _without_loop(name: str, after: str) -> str:
    """Return the text after a name, without repetitions of its last word (`David Davis Davis`)."""
    words = name.split()
    least = 1 if len(words) > 1 else 2
    return re.sub(rf"^(?:\s+{re.escape(words[-1])}\b){{{least},}}", "", after)


def is_opponent(mention: Mention) -> bool:
    """Return whether the answer is an opponent that is not asked for: `defeats Lyon`."""
    return bool(_OPPONENT.search(mention.before)) and not _CONTEST.search(mention.question)


_OFFICE = re.compile(r"\b(?P<office>[^\W\d_]{2,}) of (?:the )?(?P<whose>[A-Z][\w-]*)")
_EVENTS = {"born": "died|buried|death", "die": "born", "died": "born"}


def is_of_another(mention: Mention) -> bool:
    """Return whether the answer belongs to another subject or event than the question's.

    Examples are `the CEO of Google` for a question about Apple's, and `died in Rome` for one about
    the birth.
    """
    offices = {
        match["office"].lower(): match["whose"] for match in _OFFICE.finditer(mention.question)
    }
    sentence = f"{mention.before}{mention.name}{mention.after}"
    for match in _OFFICE.finditer(sentence):
        whose = offices.get(match["office"].lower(), "")
        if whose and whose not in sentence and match["whose"] not in mention.question:
            return True
    words = mention.question.rstrip("?").split()
    others = "|".join(_EVENTS[word] for word in words if word in _EVENTS)
    asked_here = [word for word in words if word in _EVENTS]
    if not others:
        return False
    last = [*re.finditer(rf"\b(?:{others}|{'|'.join(asked_here)})\b", mention.before)]
    return bool(last) and last[-1][0] not in asked_here


def is_in_question_said_again(mention: Mention) -> bool:
    """Return whether the answer is in a repetition of the question, before the actual answer.

    An example is `The sport that is associated with cricket is`.
    """
    if not re.match(r"\"?\s+(?:is|was|are)\s", mention.after):
        return False
    words = [*mention.before.split()[-2:], mention.name]
    is_asked = len(words) == 3 and " ".join(words).lower() in mention.question.lower()
    return is_asked or bool(_RESTATED.search(mention.before))


def is_end_of_range(mention: Mention) -> bool:
    """Return whether the answer is a number at an end of a range, `between 1939 and 1945`."""
    return mention.name[:1].isdigit() and bool(_BETWEEN.search(mention.before))


_NUMBER = r"\d[\d.,]*+"
_UNIT = r"(?: ?(?!x\b)[^\W\d_]++)?+"
_OPERATOR = r"(?: ?[-+*/×÷^] ?| x )"
_EARLIER_TERM = re.compile(rf"\d[.,]?{_UNIT}{_OPERATOR}$")
_RESULT = re.compile(rf"{_UNIT}((?:{_OPERATOR}{_NUMBER}{_UNIT})*+) ?= ?({_NUMBER})")


def is_term_of_calculation(mention: Mention) -> bool:
    """Return whether the answer is a term of a calculation with another result, `8 / 2 = 4`.

    It may be the answer if the question names the result, as in `What and 4 make 12?`.
    """
    if not mention.name[:1].isdigit():
        return False
    result = _RESULT.match(mention.after)
    # The window covers a digit, a unit and an operator; a search of a long reply would be slow.
    if result is None or not (result[1] or _EARLIER_TERM.search(mention.before[-40:])):
        return False
    return result[2].rstrip(".,") not in re.findall(_NUMBER, mention.question)


# A concessive clause up to the answer.
CONCESSIVE = r"(?:even though|although|though|while|despite)\b"
_CONCEDED = re.compile(rf"^{CONCESSIVE}[^,]*$", re.IGNORECASE)


def is_conceded(mention: Mention) -> bool:
    """Return whether a concessive clause before the main one has the answer: `While Lyon ...,`."""
    return bool(_CONCEDED.match(mention.before)) and ", " in mention.after


_ITEM = r"(?:the )?[^\W\d_][\w'.&-]*(?: [\w'.&-]+){0,2}"
_LIST = re.compile(rf"\W*{_ITEM}(?:, {_ITEM})+,? (?:and|or|&) {_ITEM}\W*")
_SEPARATOR = re.compile(r",|\b(?:and|or)\b|&")


def is_in_bare_list(mention: Mention) -> bool:
    """Return whether the sentence is only a list of names, with others than the answer: `Germany,
    France and Spain`.
    """
    if mention.verbatim and not _SEPARATOR.search(f"{mention.before}\0{mention.after}"):
        return False  # the answer is the list
    sentence = f"{mention.before}{mention.name}{mention.after}"
    return bool(_LIST.fullmatch(sentence))


# Rules by which a named answer is not asserted; a trace shows their names.
OBJECTIONS: dict[str, Callable[[Mention], bool]] = {
    "denied": is_denied,
    "in a denied claim": is_in_denied_claim,
    "others believe it": is_belief,
    "said of the past": is_past,
    "an alternative": is_alternative,
    "in a longer name": is_in_longer_name,
    "one of a list": is_in_bare_list,
    "the end of a range": is_end_of_range,
    "a term of a calculation": is_term_of_calculation,
    "an opponent": is_opponent,
    "of something else": is_of_another,
    "granted before the answer": is_conceded,
    "in the question said again": is_in_question_said_again,
}
