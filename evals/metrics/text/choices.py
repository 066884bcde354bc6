"""Choices in replies: the selected option, and verdicts such as yes and no in a sentence."""

import re
from collections.abc import Sequence

from emend.agents.parsing.abstention import abstains
from emend.evals.metrics.text.exact import fold
from emend.memory.retrieval.tokens import whole

_YES = (
    "yes|yeah|yep|yup|true|correct|right|indeed|affirmative|absolutely|certainly|definitely|"
    "exactly|"
    "ja|oui|vrai|sí|si|sì|да|верно|是的?|对|正确|はい|正しい"
)
_NO = (
    "no|nope|nah|false|incorrect|wrong|untrue|negative|nein|non|faux|falso|нет|неверно|"
    "不是|不对|错误?|否|いいえ|違います"
)
_END = r"(?=\s*(?:$|[.;:!。，！、]|,(?! or\b)))"
_FIRST = re.compile(
    rf"(?:(?P<yes>{_YES})|(?P<no>{_NO}))(?:{_END}|(?=\s+(?:it|he|she|they|that|this|we|i)\b))"
)
_LATER = re.compile(
    r"(?<=[.;:!,] )(?:(?P<yes>yes|true)|(?P<no>no|false))(?=\s*(?:$|[.;:!]|,(?! "
    r"or\b)))"
)
_STATED = re.compile(
    r"^(?:that|this|it|the (?:statement|claim|answer)) (?:is|would "
    r"be)(?P<not>\s+not|n't)?\s+(?:\w+ly )?"
    r"(?:(?P<yes>true|correct|right|yes)|(?P<no>false|incorrect|wrong|untrue|no))\b"
)
# Whole first clauses that mean yes or no without either word; "I doubt it" and the like mean
# neither.
_ASSENT = re.compile(
    r"(?:y|sure|(?:yes )?of course|it is(?: indeed)?|i (?:think|believe) so"
    rf"|without (?:a|any) doubt){_END}"
)
_DENIAL = re.compile(
    r"(?:n|never|no way|(?:certainly|definitely|absolutely|of course|i'm afraid)? ?not"
    r"(?: at all)?|(?:it|this|that) (?:is not|isn't|is not the case|isn't the case)"
    r"|(?:it|this|that) (?:is not|isn't) (?:quite )?(?:true|correct|right|so)"
    r"|that's not (?:quite )?(?:true|correct|right|so)|i (?:don't|do not) (?:think|believe) so)"
    rf"{_END}"
)
# Verdicts that are only called possible.
_POSSIBLY = re.compile(r"(?:possibly|maybe|perhaps|might be)\b")
_NOTHING = re.compile(
    r"no "
    r"(?:one|body|idea|information|answer|data|evidence|records?|source|mention|clue)\b|no\W*\d"
)
_OPPOSITES = ({"yes", "true"}, {"no", "false"})
_NEGATED = re.compile(
    r"\b(?:not|never|no "
    r"longer|neither|nor|nobody|nothing|cannot|nicht|kein\w*|ne|pas|нет|не)\b|n't\b|不|没|ません|ない"
)
_NEGATION = re.compile(
    r"(?:\b(?:not|never|neither|nor|no|without|cannot)|n['’]t)\s+(?:\w+\s+){0,2}$"
)
_NEGATION_CJK = re.compile(r"(?:不是|并非|不|没有|非)\s*$")
_FUNCTION = frozenset(
    "is are was were does do did has have had can could will would a an the of in on at to "
    "by".split()
)
_HEDGED = re.compile(
    r"\b(?:if|whether|maybe|perhaps|might|may|could|or|depends|however|but|although)\b"
)


# Phrases of sentences that describe an earlier state.
_CHANGED = re.compile(r"\b(?:moved|used to|formerly|previously|once|instead|rather than)\b")


def parse_choice(reply: str, choices: Sequence[str], question: str = "") -> tuple[str | None, str]:
    """Return the one choice that a reply selects with the deciding rule, or None and the reason.

    Only the first line of the reply is read. A choice counts as whole words, and not within a
    longer choice that also occurs (`York` in `New York`). A reply is undecidable if it names no
    choice or several, negates the named one (`not true`), or says that it does not know. For the
    choices yes and no (or true and false), a verdict in one of several languages decides, whatever
    follows it; without a verdict, a sentence decides that repeats the question, affirmed or denied.

    Args:
        reply: the reply.
        choices: the options.
        question: the question, for verdicts in the form of a sentence (`The tower is not in
            Paris`).
    """
    if not choices:
        return None, "the probe has no choices"
    rest = fold(reply)
    if not rest:
        return None, "empty reply"
    if sides := _sides(choices):
        if _NOTHING.match(rest):
            return None, "the reply says that it does not know"
        if _POSSIBLY.match(rest):
            return None, "the reply holds it possible and takes no side"
        verdicts = _verdicts(rest)
        if len(verdicts) == 1:
            return sides[verdicts.pop()], "a verdict"
        if verdicts:
            return None, f"reply names several choices: {', '.join(sorted(choices))}"
        side = _restated(rest, question)
        if side is not None:
            return sides[side], "the question said again, as it is or denied"
        if abstains(reply, question):
            return None, "the reply says that it does not know"
        words = {*re.findall(r"\w+", rest)}
        if words & _OPPOSITES[0] and words & _OPPOSITES[1]:
            return None, f"reply names several choices: {', '.join(sorted(choices))}"
    return _named_choice(rest, choices)


def parse_truth(reply: str, question: str = "") -> tuple[str | None, str]:
    """Apply `parse_choice` to "true" and "false", where `yes` and `no` count as these."""
    return parse_choice(reply, ("true", "false"), question)


def _sides(choices: Sequence[str]) -> dict[bool, str]:
    """Return the choices by side (True for yes or true); empty for other choices."""
    if len(choices) != 2:
        return {}
    by_side = {fold(choice) in _OPPOSITES[0]: choice for choice in choices}
    words = {fold(choice) for choice in choices}
    if len(by_side) == 2 and words & _OPPOSITES[1]:
        return by_side
    return {}


def _verdicts(text: str) -> set[bool]:
    """Return the verdicts in a folded line."""
    if match := _STATED.match(text):
        return {bool(match["yes"]) != bool(match["not"])}
    verdicts = {
        bool(match["yes"]) for match in (_FIRST.match(text), *_LATER.finditer(text)) if match
    }
    plain = text.replace("\u2019", "'")
    if _ASSENT.match(plain):
        verdicts.add(True)
    elif _DENIAL.match(plain):
        verdicts.add(False)
    return verdicts


def _restated(text: str, question: str) -> bool | None:
    """Return the verdict of a sentence that repeats the question; None if it says something else.

    At most one in six content words of the question may be missing, and the sentence must not
    hedge.
    """
    sentence = re.split(r"(?<=[^\W\d]{2}[.!?])\s", text, maxsplit=1)[0]
    question_words = {word for word in re.findall(r"\w+", fold(question)) if word not in _FUNCTION}
    sentence_words = set(re.findall(r"\w+", sentence))
    missing = {
        word
        for word in question_words
        if word not in sentence_words and word.rstrip("s") not in sentence_words
    }
    if (
        len(question_words) < 2
        or len(missing) * 6 > len(question_words)
        or _HEDGED.search(sentence)
        or (_CHANGED.search(sentence) and not _CHANGED.search(fold(question)))
    ):
        return None
    is_denied = bool(_NEGATED.search(sentence))
    return is_denied == bool(_NEGATED.search(fold(question)))


def _named_choice(rest: str, choices: Sequence[str]) -> tuple[str | None, str]:
    named: list[str] = []
    for choice in sorted(choices, key=lambda c: len(fold(c)), reverse=True):
        name = fold(choice)
        hits = list(whole(name).finditer(rest)) if name else []
        if not hits:
            continue
        before = [rest[: hit.start()] for hit in hits]
        if any(_NEGATION.search(text) or _NEGATION_CJK.search(text) for text in before):
            return None, f"reply negates '{choice}'"
        named.append(choice)
        rest = whole(name).sub("\0", rest)
    if len(named) == 1:
        return named[0], "the one choice that is named"
    if not named:
        return None, "reply names none of the choices"
    return None, f"reply names several choices: {', '.join(sorted(named))}"
