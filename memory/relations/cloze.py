"""Clozes of relations by English grammar: the sentence up to the object, with `{}` for the subject.

Relations in data sets are nouns ('capital'), phrases with a verb ('is located in', 'plays for'),
participles ('born in'), nouns for the subject ('CEO of') or column names ('place_of_birth').
"""

import re

from emend.memory.relations import words as w
from emend.memory.relations.canonical import parse_verb
from emend.memory.relations.inflection import find_base, is_plural

# Column names such as `placeOfBirth`, and Wikidata property ids.
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z][a-z])")
_PROPERTY = re.compile(r"[PQ]\d+")
_ARTICLE = re.compile(r"^(?:the|its|their|his|her) (?=\S)", re.IGNORECASE)
_SAID = re.compile(r"(?<=\w) (?:is|was|are|were)$", re.IGNORECASE)
LINKS = w.PREPOSITIONS | {"to", "of"}
# First letters that take the article 'an'.
_VOWELS = "aeio"


def is_worded(relation: str) -> bool:
    """Return whether a relation is English words and not a property id."""
    return re.search("[A-Za-z]", relation) is not None and not (
        _PROPERTY.fullmatch(relation.strip()) or re.search(r"[^\W\d_a-zA-Z\u00c0-\u024f]", relation)
    )


def cloze_of(relation: str) -> str:
    """Return the cloze of a relation, such as `The capital of {} is`.

    A relation that already is a cloze is returned unchanged. A relation for which `is_worded` is
    False follows the subject like a label.
    """
    if "{}" in relation:
        return relation.strip()
    if not is_worded(relation):
        return f"{{}}, {relation.strip()}:"
    words = _plain_words(relation)
    if words[0].lower() in w.AUXILIARIES:
        return _said(" ".join(words))
    if words[0].lower() in w.PREPOSITIONS:
        return _said(f"is {' '.join(words)}")
    if words[-1].lower() == "of" and len(words) > 1 and not _finite(words):
        return _said(f"is {_with_article(words)}")
    return _of_phrase(words)


def relation_of(cloze: str) -> str:
    """Return the relation's words in a cloze: 'capital' for `The capital of {} is`; other relations
    are unchanged.
    """
    if "{}" not in cloze:
        return cloze
    words = " ".join(cloze.replace("{}", " ").split())
    noun = re.fullmatch(r"(?i)the (\S.*) of \{\} (?:is|was|are|were)", cloze.strip())
    return noun[1] if noun else words


def _plain_words(relation: str) -> list[str]:
    """Return the words of a relation or column name, without an article and a final 'is'."""
    text = " ".join(_CAMEL.sub(" ", relation.replace("_", " ")).split()).rstrip(":?. ")
    if "_" in relation and text.isupper() or " " in text and text != relation.strip():
        text = text.lower()
    text = _ARTICLE.sub("", text)
    return (_SAID.sub("", text) or text).split()


def _of_phrase(words: list[str]) -> str:
    """Return the cloze of a verb phrase, a participle or a noun."""
    kind, verb, rest = parse_verb(words)
    if _is_passive(words):
        return _said(f"{'is' if words[0].lower() in w.STATES else 'was'} {' '.join(words)}")
    if kind == "active" and find_base(words[0].lower()):
        return _said(" ".join([verb, *rest]))
    if _finite(words):
        return _said(" ".join(words))
    if words[-1].lower() in LINKS:
        return _said(f"is {' '.join(words)}")
    head = re.split(r" (?:of|in|for|at|by|with|from) ", " ".join(words))[0]
    return f"The {' '.join(words)} of {{}} {'are' if is_plural(head) else 'is'}"


def _said(predicate: str) -> str:
    return f"{{}} {predicate}"


def _finite(words: list[str]) -> bool:
    """Return whether the first word is a verb in the third person or past; ambiguous words before a
    preposition count as verbs.
    """
    first, after = words[0].lower(), " ".join(words[1:2]).lower()
    if first in w.NOUN_LIKE and after and after not in w.DETERMINERS | LINKS:
        return False
    if first.endswith("s") and not first.endswith(("ss", "us")) and after in LINKS - {"of"}:
        return True
    base = find_base(first)
    return bool(base) and first != base and after != "of"


def _is_passive(words: list[str]) -> bool:
    """Return whether a phrase begins with a participle without 'is' or 'was', such as 'born in'."""
    first = words[0].lower()
    after = words[1].lower() if len(words) > 1 else ""
    if first in ("born", "located", "situated", "headquartered", "based"):
        return True
    is_participle = first.endswith("ed") or first in w.IRREGULAR
    if not is_participle or after not in LINKS - {"of"}:
        return False
    return after == "by" or find_base(first) not in w.INTRANSITIVE


def _with_article(words: list[str]) -> str:
    """Return a noun phrase ending in 'of' with its article: 'the CEO of', 'a member of'."""
    phrase, noun = " ".join(words), words[-2].lower()
    if noun in w.TAKE_OF or noun == "part" or words[0].lower() in ("a", "an"):
        return phrase
    if noun not in w.ONE_OF_SEVERAL | w.SEVERAL | {"instance"}:
        return f"the {phrase}"
    return f"{'an' if phrase[0].lower() in _VOWELS else 'a'} {phrase}"
