"""English function words and verbs from `words.toml`."""

import tomllib
from pathlib import Path

_LISTS = tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8"))


def third_person(base: str) -> str:
    """Return the third person singular of a regular verb: 'lives' for 'live'."""
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ies"
    return base + ("es" if base.endswith(("s", "x", "ch", "sh", "o")) else "s")


def _words(name: str) -> frozenset[str]:
    return frozenset(_LISTS[name].split())


DETERMINERS = _words("determiners")
PREPOSITIONS = _words("prepositions")
AUXILIARIES = _words("auxiliaries")
PRONOUNS = _words("pronouns")
RELATIVES = _words("relatives")
CONJUNCTIONS = _words("conjunctions")
ADVERBS = _words("adverbs")
KEPT = _words("kept")
QUANTITIES = _words("quantities")
NOT_ADVERBS = _words("not_adverbs")
JOINERS = _words("joiners")
REPORTING = _words("reporting")
IRREGULAR = _words("irregular")
NOUN_LIKE = _words("noun_like")
BE = _words("be")
HAVE = _words("have")
OPEN = _words("open")
COPULAR = _words("copular")
CURRENT = _words("current")
PAST = _words("past")
PAST_FIRST = _words("past_first")
ROLE_VERBS = _words("role_verbs")
APPOINT = _words("appoint")
ENDED = _words("ended")
SEVERAL = _words("several")
TAKE_OF = _words("take_of")
STATES = _words("states")
INTRANSITIVE = _words("intransitive")
ONE_OF_SEVERAL = _words("one_of_several")
BASES = _words("regular_verbs")
THIRD_PERSON = frozenset(map(third_person, BASES))
INVARIABLE = _words("invariable_verbs")
# Irregular past forms by base: the past tense, then the participle where it differs.
IRREGULAR_FORMS: dict[str, list[str]] = {
    base: forms for base, *forms in map(str.split, _LISTS["irregular_verbs"])
}
PLACES = "|".join(_LISTS["places"].split())
