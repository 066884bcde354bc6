"""Inflection of English verbs and nouns, by spelling rules and a list of irregular verbs."""

from emend.memory.relations import words as w

_BASE_OF = {form: base for base, forms in w.IRREGULAR_FORMS.items() for form in forms}
_KNOWN = w.BASES | frozenset(w.IRREGULAR_FORMS) | w.APPOINT | w.ROLE_VERBS | w.ENDED
_ENDINGS = (
    ("ies", "y"),
    ("ied", "y"),
    ("ying", "ie"),
    ("es", ""),
    ("s", ""),
    ("ed", ""),
    ("d", ""),
)


def find_base(verb: str) -> str:
    """Return the base form of an inflected verb, or "" for a word that is not a known verb."""
    if verb in _KNOWN or verb in w.INVARIABLE:
        return verb
    if verb in _BASE_OF:
        return _BASE_OF[verb]
    stems = [verb.removesuffix(ending) + rest for ending, rest in _ENDINGS if verb.endswith(ending)]
    if verb.endswith("ing"):
        stems += [verb[:-3], verb[:-3] + "e"]
    undoubled = [stem[:-1] for stem in stems if stem[-2:-1] == stem[-1:]]  # 'planned', 'running'
    return next((stem for stem in stems + undoubled if stem in _KNOWN or stem in w.INVARIABLE), "")


def past(base: str) -> str:
    """Return the past tense: 'lived' for 'live'."""
    if base in w.IRREGULAR_FORMS:
        return w.IRREGULAR_FORMS[base][0]
    if base in w.INVARIABLE:
        return base
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ied"
    return base + ("d" if base.endswith("e") else "ed")


def is_plural(noun: str) -> bool:
    """Return whether a noun is plural, by its ending."""
    return noun.endswith("s") and not noun.endswith(("ss", "us", "is", "ics", "headquarters"))
