"""Patterns for triplets: noun phrases around verb phrases, after ReVerb (Fader et al. 2011, section
4).

ReVerb takes the words from a verb up to a preposition as the relation, and the noun phrases on both
sides as subject and object. Further patterns are appositions ("X, a city in Y"), relational nouns
("the R of X is Y", "X's R is Y"), participles ("born in Y, X ...") and free relatives ("the city
where X was born is Y"), all over the letters of `tagging`.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from emend.graphs.extraction.roles import filled_roles
from emend.graphs.extraction.tagging import Tagged, tag
from emend.memory.edit import Triplet
from emend.memory.relations import words as w

NP = r"(?:DA*n(?:C?K|C)A*(?=[nN])|DA*)?[nN#]+(?:s[nN#]+)*"
CHAIN = rf"{NP}(?:o{NP})*"
NAMED = r"D?(?:[N#]*n)*#*N[N#]*"  # D?[nN#]*N[N#]*, with one way to match each text
VERB = r"A*(?:(?:BA*)*V|B(?:A*B)*)(?:A*tA*[BV](?:A*V)?|A*P?A*G)*A*"
COPULA = re.compile(
    r"(?:(?:has|have|had|would|will|can|could|may) "
    r")?(?:is|are|was|were|be|been|became|becomes|remains)"
)
# A parenthetical phrase up to the name that ends it; the words after it are about the phrase before
# it.
_ASIDE = re.compile(r"C(?:D?A*n|A*V|W)[^CX]*[Pto]$")
# Maximum number of phrases to read after a verb; later ones seldom belong to it.
MAX_PHRASES = 3


class Subject(NamedTuple):
    """Subject of a clause, with its relational noun, if any: 'the *capital* of *X* is'."""

    name: str
    noun: str = ""


def find_triplets(sentence: str) -> list[Triplet]:
    """Return the triplets of an English sentence, pattern by pattern and without repeats; every
    subject contains a name.
    """
    tagged = tag(sentence)
    filled = list(filled_roles(tagged))
    clauses = _clauses(tagged, [role.span for role in filled])
    triplets = [
        *clauses,
        *(role.triplet for role in filled),
        *_beside_nouns(tagged),
        *_turned(tagged),
    ]
    return list(dict.fromkeys(triplet for triplet in triplets if triplet is not None))


def _clauses(s: Tagged, used: Sequence[tuple[int, int]]) -> Iterator[Triplet | None]:
    """Yield triplets of a subject, a verb and each phrase after the verb, outside the spans that
    are already used.
    """
    subjects: dict[int, Subject] = {}
    for match in re.finditer(VERB, s.tags):
        if any(start <= match.start() < end for start, end in used):
            continue
        subject = _subject(s, match.start(), subjects)
        if subject is None:
            continue
        subjects[match.start()] = subject
        verb = _verb_text(s, *match.span())
        for relation, thing in _complements(s, match.end(), verb):
            yield _triplet(subject, relation, thing)


def _subject(s: Tagged, at: int, earlier: dict[int, Subject]) -> Subject | None:
    """Return the subject of the verb phrase that begins at `at`; None if it has no name or is
    unclear.
    """
    left = s.tags[:at]
    if match := re.search(rf"({CHAIN})C?W$", left):  # X, who was ...
        return _antecedent(s, match.span(1), s.words[at - 1].lower(), earlier)
    if re.search(r"C?K$", left) and earlier:  # X was ... and was ...
        return earlier[max(earlier)]
    if re.search(r"C$", left):  # X, ..., was
        for aside in (r"[^CXBV]+C", r"[^CX]+C", r"[^X]+C"):
            if match := re.search(rf"({CHAIN})C(?:{aside})$", left):
                return _noun_phrase(s, *match.span(1))
        return None
    match = re.search(rf"({CHAIN})$", left)
    if (
        not match
        or re.search(r"NC?K$", left[: match.start()])
        and not re.search(r"[BV].*CK$", left[: match.start()])
    ):
        return None  # 'X and Y were'
    before = left[: match.start()].rstrip("A")
    if before.endswith(("B", "V", "G")) and s.words[len(before) - 1].lower() not in w.REPORTING:
        return None  # an object, as in 'who coaches X is'
    return _noun_phrase(s, *match.span(1))


def _antecedent(
    s: Tagged, span: tuple[int, int], relative: str, earlier: dict[int, Subject]
) -> Subject | None:
    if relative not in ("who", "which", "that"):
        return None
    last = re.search(rf"{NP}$", s.tags[slice(*span)])
    if last and "N" in last.group():
        return _noun_phrase(s, span[0] + last.start(), span[1])
    if earlier and re.search(rf"^{VERB}{CHAIN}C?W$", s.tags[max(earlier) : span[1]] + "W"):
        return earlier[max(earlier)]  # X is a person who ...
    return None


def _noun_phrase(s: Tagged, start: int, end: int) -> Subject | None:
    """Return the name in a phrase, with its relational noun; None if there is no name."""
    tags = s.tags[start:end]
    if start and s.tags[start - 1] in "Pt":  # 'X in Y is': X; 'In Y': none
        if "N" not in tags or not (match := re.search(rf"({CHAIN})[Pt]$", s.tags[:start])):
            return _after_setting(s, start, end)
        if "N" in match.group(1):
            return _noun_phrase(s, *match.span(1))
        if on := _after_setting(s, start, end):
            return on
        plain = not re.search(r"[Pto]$", s.tags[: match.start()]) and re.fullmatch(NAMED, tags)
        return _related(s, match.span(1), (start, end)) if plain else None
    if match := re.fullmatch(rf"({NP}(?:o{NP})?)o({NAMED})", tags):
        if "N" not in match.group(1):
            return _related(s, (start, start + match.end(1)), (start + match.start(2), end))
    if match := re.fullmatch(r"(D?[nN#]*N[N#]*)s([nN#]+(?:on+)?)", tags):
        return _related(s, (start + match.start(2), end), (start, start + match.end(1)))
    if "o" in tags and "N" not in tags.split("o")[0]:
        return None
    if "s" in tags or "N" not in tags:
        return None
    return Subject(_name(s, start, end))


def _after_setting(s: Tagged, start: int, end: int) -> Subject | None:
    """Return X in 'At a small wedding X has' and 'From this season on X has', else None."""
    if match := re.fullmatch(r"Dn+(N[N#]*)", s.tags[start:end] if start == 1 else ""):
        return Subject(s.text(start + match.start(1), end))
    on = (
        s.words[0].lower() == "from"
        and s.words[start - 1] == "on"
        and re.fullmatch(r"P?D?n+P", s.tags[:start])
    )
    return Subject(_name(s, start, end)) if on and re.fullmatch(NAMED, s.tags[start:end]) else None


def _related(s: Tagged, noun: tuple[int, int], name: tuple[int, int]) -> Subject | None:
    if "N" not in s.tags[slice(*name)]:
        return None
    return Subject(_name(s, *name), _bare(s, *noun))


def _complements(s: Tagged, at: int, verb: str) -> Iterator[tuple[str, str]]:
    """Yield the relations and objects of the phrases that follow the verb, from `at` on."""
    direct = ""
    for place in range(MAX_PHRASES):
        match = re.compile(rf"([Pto]{{1,2}}(?:A*G)?A*)?({CHAIN})").match(s.tags, at)
        if not match or (match.group(1) is None and place):
            return
        before = s.text(*match.span(1)) if match.group(1) else ""
        start, end = match.span(2)
        if (
            match.group(1) is None
            and "N" not in match.group(2)
            and re.match(r"[Pto]", s.tags[end:])
        ):
            direct = s.text(start, end)  # 'is a citizen of', 'received citizenship of'
        relation = " ".join(
            part for part in (verb, direct if start != match.start() else "", before) if part
        )
        rest, thing = _parted(s, start, end)
        yield f"{relation} {rest}".strip(), thing
        yield from _listed(s, end, f"{relation} {rest}".strip())
        if match.group(1) is None and "N" in match.group(2) and COPULA.fullmatch(verb):
            # 'became mayor of X in 2019': the rest is about the whole clause, not X or the subject
            return
        at = end


def _listed(s: Tagged, at: int, relation: str) -> Iterator[tuple[str, str]]:
    """Yield the further names of a list: B and C in 'wrote A, B and C'."""
    while match := re.compile(rf"(?:C|C?K)({NAMED})(?![N#nsoBVAW])").match(s.tags, at):
        yield relation, _name(s, *match.span(1))
        at = match.end()


def _parted(s: Tagged, start: int, end: int) -> tuple[str, str]:
    """Split an object phrase into words of the relation and the object itself: 'a citizen of | X',
    'the language | X'.
    """
    tags = s.tags[start:end]
    if match := re.fullmatch(rf"(.*[nN#]o)(?={NP}$)({NP})", tags):
        if "N" not in match.group(1) and "N" in match.group(2):
            rest, thing = _parted(s, start + match.start(2), end)
            return f"{s.text(start, start + match.end(1))} {rest}".strip(), thing
    if match := re.fullmatch(r"(D?n+)(N[N#]*)", tags):
        return s.text(start, start + match.end(1)), s.text(start + match.end(1), end)
    if tags.startswith("D") and "N" not in tags and s.words[start].lower() in ("a", "an"):
        return s.words[start], s.text(start + 1, end)
    return "", _name(s, start, end)


def _beside_nouns(s: Tagged) -> Iterator[Triplet | None]:
    """Yield triplets of appositions, participles after a comma or at the beginning, possessives,
    and nouns before names.
    """
    for match in re.finditer(rf"({NAMED})C(?=D[nN#])", s.tags):  # X, a city in Y
        if s.words[match.end()].lower() in ("a", "an", "the") and not re.search(
            rf"[Pto]{NAMED}C$", s.tags[: match.end()]
        ):
            yield from _of(s, match.span(1), match.end(), "is")
    # X, located in Y
    for match in re.finditer(rf"({NAMED})C?(?:W(?:B))?(A*V)(?=[PtoNnD#])", s.tags):
        is_finite = s.words[match.end() - 1].lower() in w.THIRD_PERSON
        if (
            s.tags[match.end(1)] == "C"
            and not is_finite
            and not _ASIDE.search(s.tags[: match.start()])
        ):
            yield from _of(s, match.span(1), match.end(), f"was {_verb_text(s, *match.span(2))}")
    if front := re.match(rf"A*(V[Pto]?[^CXBVW]*)C({NAMED})(?=[BVAC])", s.tags):  # Born in Y, X
        yield from _of(
            s, front.span(2), front.start(1) + 1, f"was {s.words[front.start(1)].lower()}"
        )
    # X and Y are twin cities
    for match in re.finditer(rf"({NAMED})K({NAMED})(B)A*(n+)(?=[XC]|$)", s.tags):
        relation = f"{s.text(match.start(3), match.end())} with"
        yield _triplet(Subject(_name(s, *match.span(1))), relation, _name(s, *match.span(2)))
    for match in re.finditer(rf"({NAMED})s(n+)C?(N[N#]*)(?![sN#n])", s.tags):  # X's wife Y
        yield _triplet(
            Subject(_name(s, *match.span(1))), s.text(*match.span(2)), s.text(*match.span(3))
        )
    # X, whose R is Y
    for match in re.finditer(rf"({NAMED})(?:BDn+)?C?W(n+)({VERB})(?=[PtoNnD#])", s.tags):
        if s.words[match.start(2) - 1].lower() == "whose":
            yield from _of(
                s,
                match.span(1),
                match.end(),
                _joined(_bare(s, *match.span(2)), _verb_text(s, *match.span(3))),
            )


def _turned(s: Tagged) -> Iterator[Triplet | None]:
    """Yield triplets of statements that name the relation first: 'in X the R is Y', 'the city where
    X was born is Y'.
    """
    if match := re.match(rf"P({NAMED})C?(D?n+V?)({VERB})({CHAIN})", s.tags):
        if COPULA.fullmatch(_verb_text(s, *match.span(3))):
            rest, thing = _parted(s, *match.span(4))
            yield _triplet(
                Subject(_name(s, *match.span(1))),
                f"{_bare(s, *match.span(2))} {rest}".strip(),
                thing,
            )
    free = (
        rf"D?n+([Pto]?)W({NAMED})(A*(?:B?A*VG?|B(?=[DPto])))"
        rf"((?:Dn+)?[Pto]?(?:n+[Pto]?)?)BA*({CHAIN})"
    )
    for match in re.finditer(free, s.tags):  # the city in which X lives is Y
        parts = _verb_text(s, *match.span(3)), s.text(*match.span(4)), s.text(*match.span(1))
        relation = " ".join(part for part in parts if part)
        yield _triplet(Subject(_name(s, *match.span(2))), relation, _parted(s, *match.span(5))[1])
    for match in re.finditer(rf"D?(n+)W?(A*B?A*V)([Pt]?)({NAMED})BA*({CHAIN})", s.tags):
        # the person who coaches X is Y; the sport played by X is Y
        relation = f"{_verb_text(s, *match.span(2))} {s.text(*match.span(3))}".strip()
        name, thing = _name(s, *match.span(4)), _parted(s, *match.span(5))[1]
        if "W" in s.tags[match.start() : match.start(2)]:
            yield _triplet(Subject(thing), relation, name)
        else:
            yield _triplet(
                Subject(name), f"{_bare(s, *match.span(1))} {relation.removesuffix(' by')}", thing
            )
    # critics have called X as Y
    for match in re.finditer(rf"(?:^|[^N])n({VERB})({NAMED})P(?={NP})", s.tags):
        if s.words[match.end() - 1] == "as":
            past = s.words[match.end(1) - 1].lower()
            yield from _of(s, match.span(2), match.end() - 1, f"was {past}")


def _of(s: Tagged, name: tuple[int, int], at: int, verb: str) -> Iterator[Triplet | None]:
    for relation, thing in _complements(s, at, verb):
        yield _triplet(Subject(_name(s, *name)), relation, thing)


def _triplet(subject: Subject, relation: str, thing: str) -> Triplet | None:
    """Return the triplet; None if it is incomplete, trivial or reported speech."""
    verbs = relation.lower().split()
    if not thing or not relation or subject.name == thing or w.REPORTING.intersection(verbs[:3]):
        return None
    return Triplet(subject=subject.name, relation=_joined(subject.noun, relation), object=thing)


def _joined(noun: str, relation: str) -> str:
    """Join a noun and a relation: 'capital' and 'is' become 'capital', while 'head office' and 'has
    moved to' are kept.
    """
    if not noun:
        return relation
    plain = COPULA.match(relation)
    rest = relation[plain.end() :].strip() if plain and plain.group() else relation
    return (
        f"{noun} {rest}".strip() if plain and not rest else (f"{noun} {relation}") if rest else noun
    )


def _verb_text(s: Tagged, start: int, end: int) -> str:
    """Return the verb phrase without adverbs, except those that change its meaning, such as
    'not'.
    """
    places = [i for i in range(start, end) if s.tags[i] != "A" or s.words[i].lower() in w.KEPT]
    return " ".join(s.words[i].lower() for i in places)


def _name(s: Tagged, start: int, end: int) -> str:
    """Return a phrase as a name, without a determiner, year or noun before the name."""
    while end - start > 1 and (
        s.tags[start] == "D" or s.tags[start] == "#" and "N" in s.tags[start:end]
    ):
        start += 1
    tags = s.tags[start:end]
    if match := re.fullmatch(r"n+(N[N#]*)", tags):
        start += match.start(1)
    return s.text(start, end)


def _bare(s: Tagged, start: int, end: int) -> str:
    """Return a noun without its determiner."""
    return s.text(start + (s.tags[start] == "D"), end)
