"""Matching of names in texts in their usual forms: full, inflected, shortened, or as initials."""

import re
from functools import lru_cache

from emend.memory.retrieval.tokens import FUNCTION_WORDS, UNSPACED, whole, words
from emend.memory.typography import fold_text, fold_typography
from emend.memory.values.letters import without_accents

# Minimum number of letters of a word whose inflected forms are matched.
SHORTEST_STEM = 4
# Maximum number of words of a name whose last word may be a family name.
LONGEST_PERSON = 3

# Letter that would continue a Latin word; Chinese, Japanese and Korean letters are excluded, since
# they follow without a space.
_LETTER = rf"[^\W{UNSPACED}]"
_END = re.compile(
    r",? (?:m\.?d|ph\.?d|jr|sr|esq)\.?$"
    r"|,? (?:inc|ltd|llc|plc|gmbh|ag|corp|co|corporation|company)\.?$"
)
_START = re.compile(r"^(?:the|dr\.?|prof\.?|professor|mr\.?|mrs\.?|ms\.?|sir|dame) ")
_ENDING = "(?:'s?|e?s'?|n|ns|i?ans?|ese|ish|ists?|ers?)"
_ENDING_OF_STEM = "(?:i?ans?|ese|ists?|ers?|ies)"
_PART_OF_ANOTHER = re.compile(
    r"\b(?:New|Saint|St\.?|San|Santa|Fort|Port|Lake|Mount|Cape|Little)[ "
    r"-]$"
)
_CAPITALISED = re.compile(r"(?:^|(?P<before>\S)\s+)(?P<word>[A-Z][\w'.-]*)\s$")
_SENTENCE_END = ".!?:;\"'"
_PARTICLES = frozenset("al bin da das de del den der di du el ibn la le ten van von y zu".split())
_HONORIFICS = frozenset(
    "mr mrs ms dr sir professor prof president minister director chairman".split()
)


def names_exactly(text: str, name: str) -> bool:
    """Return whether a text contains a name as whole words, in any typography and case."""
    return bool(name.strip()) and whole(fold_text(name)).search(fold_text(text)) is not None


def names(text: str, name: str) -> bool:
    """Return whether a text contains a name in one of its usual forms, in any typography, case and
    accents.

    The forms are inflections (`pianists` for `piano`), the name without company form, title or
    degree, initials for given names (`J. R. R. Tolkien`), and acronyms (`IBM`). Matching is lenient
    on purpose, since a judge decides whether the text is right.
    """
    folded = without_accents(fold_text(text))
    full = without_accents(fold_text(name))
    if not full:
        return False
    if any(_inflected(form).search(folded) for form in _shorter_forms(full)):
        return True
    return _initials_of_given_names(full).search(folded) is not None or _has_acronym(text, name)


def leaves(text: str, name: str, other_names: tuple[str, ...] = ()) -> bool:
    """Return whether a text contains a name outside occurrences of other names, which may have the
    same words.

    A capitalised name only matches with its capital, so that a ford is not Ford. The last word of a
    person's name matches too.
    """
    plain = without_accents(fold_typography(text))
    for other in filter(None, other_names):
        plain = whole(without_accents(fold_typography(other)), re.IGNORECASE).sub("_", plain)
    plain_name = without_accents(fold_typography(name)).strip()
    if not plain_name:
        return False
    if not plain_name[0].isupper():
        return (
            _inflected(plain_name.casefold(), "(?:'s|e?s|ists?)").search(plain.casefold())
            is not None
        )
    hits = (
        hit
        for form in {plain_name, plain_name.upper()}
        for hit in _inflected(form, "(?:'s|e?s)").finditer(plain)
    )
    if any(not _PART_OF_ANOTHER.search(plain[: hit.start()]) for hit in hits):
        return True
    last = _family_name(plain_name, other_names)
    family = whole(last).finditer(plain) if last else iter(())
    return any(not _belongs_to_another(plain[: hit.start()]) for hit in family)


def _shorter_forms(name: str) -> set[str]:
    without_end = _END.sub("", name)
    forms = {name, without_end, _START.sub("", name), _START.sub("", without_end)}
    return {form for form in forms if form}


@lru_cache(maxsize=4096)
def _inflected(name: str, ending: str = _ENDING) -> re.Pattern[str]:
    """Return a pattern for a name as whole words, the last of which may be inflected."""
    last = re.search(r"[^\W\d_]+$", name)
    if not (name.isascii() and last and len(last[0]) >= SHORTEST_STEM):
        return whole(name)
    forms = re.escape(name) + ending + "?"
    stem = re.sub(r"(?:ism|[aeoy])$", "", name)
    if ending == _ENDING and len(last[0]) - len(name) + len(stem) >= SHORTEST_STEM:
        forms += f"|{re.escape(stem)}{_ENDING_OF_STEM}"
    return re.compile(rf"(?<!{_LETTER})(?:{forms})(?!{_LETTER})")


@lru_cache(maxsize=4096)
def _initials_of_given_names(name: str) -> re.Pattern[str]:
    """Return a pattern for a name with initials before its last word; it matches nothing for names
    of one word.
    """
    *forenames, last = name.split()
    if not forenames or not all(word[0].isalpha() for word in forenames):
        return re.compile(r"(?!)")
    initials = r"\s?".join(
        rf"{re.escape(word[0])}(?:\.|{re.escape(word[1:])})" for word in forenames
    )
    return re.compile(rf"(?<!\w){initials}\s{re.escape(last)}(?!\w)")


def _has_acronym(text: str, name: str) -> bool:
    initials = "".join(word[0] for word in re.findall(r"\w+", name) if word[0].isupper())
    return len(initials) >= 3 and whole(initials).search(fold_typography(text)) is not None


def _family_name(name: str, other_names: tuple[str, ...]) -> str:
    """Return the last word of a capitalised name of two or three words, unless other names share
    it; else empty.
    """
    parts = [part for part in name.split() if part not in _PARTICLES]
    if not 2 <= len(parts) <= LONGEST_PERSON or not all(part[0].isupper() for part in parts):
        return ""
    last = parts[-1]
    shared = {word for other in other_names for word in words(other)}
    return (
        last if last.isalpha() and len(last) >= SHORTEST_STEM and last.lower() not in shared else ""
    )


def _belongs_to_another(before: str) -> bool:
    """Return whether the text before a family name ends with a given name of another person."""
    hit = _CAPITALISED.search(before)
    if not hit:
        return False
    word = hit["word"].rstrip(".").lower()
    starts_sentence = hit["before"] is None or hit["before"] in _SENTENCE_END
    return not (starts_sentence or word in FUNCTION_WORDS or word in _HONORIFICS)
