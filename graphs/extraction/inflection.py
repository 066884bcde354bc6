"""Inflection of English verbs and nouns, by spelling rules and a list of irregular verbs."""

from emend.graphs.extraction import vocabulary as v
from emend.graphs.extraction import words as w

_VERBS = (
    "become became; begin began begun; bring brought; build built; buy bought; choose chose chosen; come came; "
    "deal dealt; draw drew drawn; drive drove driven; fall fell fallen; feel felt; fight fought; fly flew flown; "
    "give gave given; go went gone; get got gotten; grow grew grown; hold held; hear heard; hide hid; keep kept; "
    "know knew known; lead led; leave left; lend lent; lie lay; lose lost; make made; mean meant; meet met; pay "
    "paid; ride rode ridden; ring rang; rise rose risen; run ran; sing sang sung; sit sat; see saw seen; sell "
    "sold; send sent; shoot shot; show shown; sleep slept; speak spoke spoken; spend spent; stand stood; strike "
    "struck; swear swore sworn; swim swam; take took taken; teach taught; tell told; think thought; throw threw "
    "thrown; understand understood; wear wore worn; win won; write wrote written"
)
_IRREGULAR = {base: forms for base, _, forms in (verb.partition(" ") for verb in _VERBS.split("; "))}
"""Irregular past forms by base: the past tense, then the participle where it differs."""
_BASE_OF = {form: base for base, forms in _IRREGULAR.items() for form in forms.split()}
_KNOWN = w.BASES | frozenset(_IRREGULAR) | v.APPOINT | v.ROLE_VERBS | v.ENDED
_ALIKE = frozenset("cast cost cut hit hurt let put quit read set spread broadcast".split())
"""Verbs whose past tense equals their base."""
_ENDINGS = (("ies", "y"), ("ied", "y"), ("ying", "ie"), ("es", ""), ("s", ""), ("ed", ""), ("d", ""))


def base_of(verb: str) -> str:
    """The base of a verb in any of its forms; an empty string for a word that is not a known verb."""
    if verb in _KNOWN or verb in _ALIKE:
        return verb
    if verb in _BASE_OF:
        return _BASE_OF[verb]
    stems = [verb.removesuffix(ending) + rest for ending, rest in _ENDINGS if verb.endswith(ending)]
    if verb.endswith("ing"):
        stems += [verb[:-3], verb[:-3] + "e"]
    undoubled = [stem[:-1] for stem in stems if stem[-2:-1] == stem[-1:]]  # 'planned', 'running'
    return next((stem for stem in stems + undoubled if stem in _KNOWN or stem in _ALIKE), "")


def past(base: str) -> str:
    """The past tense: 'lived' of 'live'."""
    if base in _IRREGULAR:
        return _IRREGULAR[base].split()[0]
    if base in _ALIKE:
        return base
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ied"
    return base + ("d" if base.endswith("e") else "ed")


def is_plural(noun: str) -> bool:
    """Return whether a noun is plural, by its ending."""
    return noun.endswith("s") and not noun.endswith(("ss", "us", "is", "ics", "headquarters"))
