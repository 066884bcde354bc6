"""Part-of-speech tagging with one letter per word, so that patterns are regular expressions over
letters.

The letters: `N` word of a name, `n` noun or adjective, `#` number, `D` determiner, `P` preposition,
`o` of, `t` to, `B` auxiliary, `V` verb, `G` verb in -ing, `A` adverb, `C` comma, `K` conjunction,
`W` relative word, `O` pronoun, `s` the possessive mark, `X` anything that ends a clause.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from emend.memory.relations import words as w

_TOKEN = re.compile(
    r"(?:[A-Z]\.){2,}|[A-Z]\.(?=\s[A-Z])|(?:Dr|Mr|Mrs|Ms|St|Jr|Sr|Mt|Prof|Inc)\."
    r"|\d+(?:[.,:]\d+)*(?:st|nd|rd|th|s)?(?!\w)"
    r"|['’]s\b|\w+(?:[-&]\w+)*(?:['’](?!s\b)\w+)*|[,;:()]|[^\w\s]"
)
_PLAIN = {",": "C", "of": "o", "to": "t", "'s": "s", "’s": "s", "'": "s", "’": "s"}
# Roles that are written like names.
ROLES = frozenset(("CEO", "CFO", "COO", "CTO"))
_QUOTES = frozenset('"“”*‘`')


@dataclass(frozen=True)
class Tagged:
    """Words of a sentence, and their classes as a string with one letter per word."""

    words: tuple[str, ...]
    tags: str

    def text(self, start: int, end: int) -> str:
        """Return the text of a span of words."""
        joined = " ".join(self.words[start:end])
        return re.sub(r"\s+(['’]s\b|[,.;:)])", r"\1", re.sub(r"\s+(['’])$", r"\1", joined)).replace(
            "( ", "("
        )


@lru_cache(maxsize=4096)
def tag(sentence: str) -> Tagged:
    """Tag a sentence, without its quotation marks."""
    plain = sentence.replace(" is that of ", " is ")
    tokens = tuple(token for token in _TOKEN.findall(plain) if token not in _QUOTES)
    tags = ""
    for place in range(len(tokens)):
        tags += _letter(tokens, place, tags)
    return Tagged(tokens, _joined_names(tokens, tags))


def names(sentence: Tagged) -> Iterator[tuple[int, int]]:
    """Yield the spans of names, from left to right."""
    for match in re.finditer(r"N[N#]*", sentence.tags):
        yield match.span()


def _letter(tokens: tuple[str, ...], place: int, before: str) -> str:
    token = tokens[place]
    if not token[0].isalnum():
        return _PLAIN.get(token, "X")
    if token[0].isdigit():
        return "N" if re.search(r"[A-Z]", token) else "#"
    if token in ROLES:
        return "n"
    if token[0].isupper() and not (place == 0 or before.endswith("X")) and token != "I":
        return "N"
    if token[0].isupper() and _names_something(tokens, place):
        return "N"
    return _lower(
        token.lower(), before, tokens[place + 1].lower() if place + 1 < len(tokens) else ""
    )


def _names_something(tokens: tuple[str, ...], place: int) -> bool:
    """Return whether a capitalised word at the beginning of a sentence belongs to a name."""
    word, after = tokens[place].lower(), tokens[place + 1] if place + 1 < len(tokens) else ""
    if word in w.DETERMINERS:  # 'The Iron Tower is', but 'The United States'
        return word == "the" and after[:1].isupper() and after not in ROLES
    closed = (
        w.PREPOSITIONS
        | w.AUXILIARIES
        | w.PRONOUNS
        | w.RELATIVES
        | w.CONJUNCTIONS
        | w.ADVERBS
        | w.QUANTITIES
    )
    if word in closed | {"of", "to"} or (word.endswith("ly") and not after[:1].isupper()):
        return False
    beyond = tokens[place + 2] if place + 2 < len(tokens) else ""
    if after[:1].isupper() or after in ("'s", "’s") or after == "and" and beyond[:1].isupper():
        return True
    plural = word.endswith("s") and after not in ("is", "was", "has")
    known = word in w.BASES | w.IRREGULAR or plural or word.endswith(("ed", "ing"))
    return not known and (
        after in w.AUXILIARIES or after == "," or after in w.THIRD_PERSON or after.endswith("ly")
    )


def _lower(word: str, before: str, after: str) -> str:
    last = before[-1:]
    for letters, known in (
        ("B", w.AUXILIARIES),
        ("D", w.DETERMINERS),
        ("W", w.RELATIVES),
        ("K", w.CONJUNCTIONS),
        ("O", w.PRONOUNS),
    ):
        if word in known:
            return letters
    if word in _PLAIN:
        return _PLAIN[word]
    if word in w.PREPOSITIONS:
        return "A" if word == "since" and last == "B" else "P"  # 'has since become'
    if word in w.ADVERBS or (word.endswith("ly") and len(word) > 4 and word not in w.NOT_ADVERBS):
        return "A"
    return _verb(word, last, before, after) or "n"


def _verb(word: str, last: str, before: str, after: str) -> str:
    """Return `V` or `G` if a word can be a verb at its position, else an empty string."""
    opened = bool(re.search(r"[Ds]A*$", before))  # 'a renowned actress', 'her works'
    if opened or (word in w.NOUN_LIKE and last not in ("N", "O", "W", "B", "A", "V", "t")):
        return ""
    if word.endswith("ing") and len(word) > 5 and last != "o":
        return "G" if after[:1].isalnum() else ""  # 'is cycling.'

    if word in w.IRREGULAR or word in w.THIRD_PERSON or (word.endswith("ed") and len(word) > 4):
        return "V"
    return "V" if word in w.BASES and last in ("t", "B", "A") and before[-2:-1] != "o" else ""


def _joined_names(tokens: tuple[str, ...], tags: str) -> str:
    """Return the tags with small words between capitalised words as `N`: 'University of Oxford' is
    one name.
    """
    out = list(tags)
    for place in range(1, len(tokens) - 1):
        if tokens[place] == "&" and tags[place - 1] == tags[place + 1] == "N":  # 'Ernst & Young'
            out[place] = "N"
        small = (
            tokens[place] in w.JOINERS
            or tokens[place] == "the"
            and out[place - 1] == "N"
            and tags[place - 1] != "N"
        )
        if (
            small
            and out[place - 1] == "N"
            and (tags[place + 1] == "N" or tokens[place + 1] in ("the", *w.JOINERS))
        ):
            if tags[place + 1] == "N" or tags[place + 2 : place + 3] == "N":
                out[place] = "N"
    return "".join(out)
