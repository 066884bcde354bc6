"""Canonical triplets: the same subject and relation for different English phrasings of a fact.

A memory needs them to recognise that a later document supersedes an earlier one. The rules are
grammatical and need no table of relations. A definite description refers to the owner's only thing
of its kind, so 'O is the R of S', 'O became R of S' and 'O is S's R' all become (S, R, O). An
indefinite description refers to one of several ('is a citizen of') and stays a statement about O.
Verbs lose auxiliaries and agreement.
"""

import re

from emend.memory.edit import Triplet
from emend.memory.relations import inflection
from emend.memory.relations import words as w
from emend.memory.relations.inflection import find_base, is_plural
from emend.memory.typography import has_name

_PLACED = re.compile(rf"(?:^|(?<=\w) )(?:the|a) (?:[a-z]+ )?(?:{w.PLACES}) of$")
_OWNED = re.compile(
    r"^(?:the )?(?P<owner>.*[A-Z\d].*?)(?:['’]s|(?<=s)['’]) "
    r"(?P<role>(?:C[A-Z]O\b|[a-z])[a-z -]*)$"
)
_ROLE = re.compile(
    r"^(?:(?:over|in|to be) )?(?P<as>as )?(?P<article>the |an? )?(?P<role>(?:C[A-Z]O\b|[a-z])[\w'’ "
    r"-]*?) of$"
)
_SAID = re.compile(r"(?<=\w) (?:is|was|are|were|has been)(?: now)?(?: (?:called|named|known as))?$")


def canonical(triplet: Triplet) -> Triplet | None:
    """Return the canonical triplet, or None if it states that a fact has ended.

    Statements that are negated, possible or in the future are unchanged.
    """
    words = _PLACED.sub("", triplet.relation).split() or triplet.relation.split()
    lower = [word.lower() for word in words]
    if not words or w.OPEN.intersection(lower[:3]):
        return triplet
    if _is_past(lower) or lower[:3] == ["used", "to", "be"]:
        return None
    kind, verb, rest = parse_verb(words)
    text = " ".join(rest)
    if kind and _ended(kind, verb, text):
        return None
    if kind and (turned := _turned(triplet, kind, verb, text)):
        return turned if turned.relation else None
    if not kind and lower[0] in w.PAST_FIRST and len(lower) > 1:
        return None
    return triplet.model_copy(
        update={"relation": f"{verb} {text}".strip() if kind else _noun(text)}
    )


def parse_role(noun: str) -> str:
    """Return a role without its article and words such as 'new'; empty if an owner may have several
    of them.
    """
    words = noun.split()
    while len(words) > 1 and words[0].lower() in w.CURRENT | {
        "a",
        "an",
        "the",
        "its",
        "their",
        "his",
        "her",
    }:
        words = words[1:]
    several = not words or is_plural(words[-1]) or words[-1] in w.SEVERAL
    return "" if several else " ".join(words)


def _is_past(words: list[str]) -> bool:
    return any(word in w.PAST or word.startswith("ex-") for word in words)


def parse_verb(words: list[str]) -> tuple[str, str, list[str]]:
    """Return the kind of a relation (`be`, `passive`, `active`, or `''` for a noun), its verb form,
    and the remaining words.

    'has been named after' is passive, 'named', 'after'; 'is living in' is active, 'lives', 'in'.
    """
    at = 0
    helping: list[str] = []
    while at < len(words) and (
        words[at].lower() in w.BE | w.HAVE or helping and _is_adverb(words[at])
    ):
        helping.append(words[at].lower())
        at += 1
    rest = words[at:]
    main = rest[0].lower() if rest else ""
    be = any(word in w.BE for word in helping)
    if be and main.endswith("ing") and find_base(main):
        tense = inflection.past if helping[0] in ("was", "were", "had") else w.third_person
        return "active", tense(find_base(main)), rest[1:]
    if be or not helping:
        if be and _is_participle(main):
            return "passive", main, rest[1:]
        if be or find_base(main) in w.COPULAR:
            return "be", "is", rest if be else rest[1:]
        return _active(words)
    if find_base(main) == "become":
        return "be", "is", rest[1:]
    if _is_participle(main):
        return "active", inflection.past(find_base(main)) if find_base(main) else main, rest[1:]
    return "active", "had" if helping[0] == "had" else "has", rest


def _active(words: list[str]) -> tuple[str, str, list[str]]:
    main, after = words[0].lower(), words[1].lower() if len(words) > 1 else ""
    if main in w.BASES and main not in w.IRREGULAR:  # 'live in', but 'name' and 'place of'
        plain = after in w.PREPOSITIONS | {"to"} and w.third_person(main) not in w.NOUN_LIKE
        return ("active", w.third_person(main), words[1:]) if plain else ("", "", words)
    finite = main in w.THIRD_PERSON or _is_participle(main)
    noun = main in w.NOUN_LIKE and after not in w.PREPOSITIONS | {"to", ""}
    return ("active", main, words[1:]) if finite and not noun else ("", "", words)


def _is_adverb(word: str) -> bool:
    return word.lower() in w.ADVERBS or word.endswith("ly")


def _is_participle(word: str) -> bool:
    return word in w.IRREGULAR or (word.endswith("ed") and len(word) > 4)


def _ended(kind: str, verb: str, rest: str) -> bool:
    """Return whether a role has ended: 'resigned as R of', 'was replaced as R of'."""
    base = find_base(verb)
    leaves = base in w.ENDED or kind == "passive" and base in ("replace", "succeed")
    return leaves and bool(re.match(r"(?:down )?(?:as|from)\b", rest))


def _turned(triplet: Triplet, kind: str, verb: str, rest: str) -> Triplet | None:
    """Return (S, R, O) if the subject is the R of the object; with an empty relation if that has
    ended.
    """
    base = find_base(verb)
    filled = (
        kind == "be"
        or base in w.APPOINT
        and kind == "passive"
        or base in w.ROLE_VERBS
        and kind == "active"
    )
    if not filled:
        return None
    if rest in ("", "as") and (match := _OWNED.match(triplet.object)):
        owner, role, bare = match["owner"], match["role"], False
    elif (match := _ROLE.match(rest)) and match["article"] in (None, "the "):
        owner, role, bare = triplet.object, match["role"], kind == "be" and not match["article"]
    else:
        return None
    if kind != "passive" and (kind == "active") != (
        rest == "as" or bool(match.groupdict().get("as"))
    ):
        # 'serves as the R of' and 'is the R of', but not 'serves the R of' and 'is as the R of'
        return None
    return _owned(triplet.subject, role, owner, bare)


def _owned(thing: str, role: str, owner: str, bare: bool) -> Triplet | None:
    words = role.split()
    inner = w.PREPOSITIONS | w.AUXILIARIES | w.RELATIVES | w.DETERMINERS | {"to", "of"}
    if inner.intersection(words) or len(words) > 5 or not (has_name(owner) and has_name(thing)):
        return None
    if _is_past(words) or words[0] in w.PAST_FIRST:
        return Triplet(subject=owner, relation="", object=thing)
    if (bare and words[-1] in w.TAKE_OF) or not (plain := parse_role(role)):
        return None
    return Triplet(
        subject=owner.removeprefix("the "), relation=plain, object=thing.removeprefix("the ")
    )


def _noun(text: str) -> str:
    """'the new capital is' is 'capital'."""
    words = _SAID.sub("", text).split()
    while len(words) > 1 and words[0].lower() in w.CURRENT | {"the", "its"}:
        words = words[1:]
    return " ".join(words)
