"""The rules: noun phrases around verb phrases, after ReVerb (Fader et al. 2011, section 4), and what stands for verbs.

ReVerb takes the words from a verb up to a preposition as the relation, and the noun phrases on both sides as its ends.
To that come appositions ("X, a city in Y"), relational nouns ("the R of X is Y", "X's R is Y"), participles ("born in
Y, X ...") and free relatives ("the city where X was born is Y"), all over the letters of `tagging`.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from emend.graphs.extraction import words as w
from emend.graphs.extraction.roles import filled_roles
from emend.graphs.extraction.tagging import Tagged, tag
from emend.memory.edit import Triplet

NP = r"(?:DA*n(?:C?K|C)A*(?=[nN])|DA*)?[nN#]+(?:s[nN#]+)*"
CHAIN = rf"{NP}(?:o{NP})*"
NAMED = r"D?[nN#]*N[N#]*"
VERB = r"A*(?:(?:BA*)*V|B(?:A*B)*)(?:A*tA*[BV](?:A*V)?|A*P?A*G)*A*"
COPULA = re.compile(
    r"(?:(?:has|have|had|would|will|can|could|may) )?(?:is|are|was|were|be|been|became|becomes|remains)"
)
MOST = 3
"""So many phrases are read after one verb; what comes later seldom belongs to it."""


class Subject(NamedTuple):
    """What a clause is about, and a relational noun where the clause is about that: 'the *capital* of *X* is'."""

    name: str
    noun: str = ""


def find_triplets(sentence: str) -> list[Triplet]:
    """The triplets of one English sentence, in its order, each once; every subject has a name in it."""
    tagged = tag(sentence)
    filled = list(filled_roles(tagged))
    clauses = _clauses(tagged, [one.span for one in filled])
    found = [*clauses, *(one.triplet for one in filled), *_beside_nouns(tagged), *_turned(tagged)]
    return list(dict.fromkeys(triplet for triplet in found if triplet is not None))


def _clauses(s: Tagged, told: Sequence[tuple[int, int]]) -> Iterator[Triplet | None]:
    """Subject, verb, and each phrase after it; not where the span was told already."""
    subjects: dict[int, Subject] = {}
    for found in re.finditer(VERB, s.tags):
        if any(start <= found.start() < end for start, end in told):
            continue
        subject = _subject(s, found.start(), subjects)
        if subject is None:
            continue
        subjects[found.start()] = subject
        verb = _verb_text(s, *found.span())
        for relation, thing in _complements(s, found.end(), verb):
            yield _triplet(subject, relation, thing)


def _subject(s: Tagged, at: int, earlier: dict[int, Subject]) -> Subject | None:
    """What the verb phrase that begins at `at` is said of; None if it is not said of a name, or that is not plain."""
    left = s.tags[:at]
    if found := re.search(rf"({CHAIN})C?W$", left):  # X, who was ...
        return _antecedent(s, found.span(1), s.words[at - 1].lower(), earlier)
    if re.search(r"C?K$", left) and earlier:  # X was ... and was ...
        return earlier[max(earlier)]
    if re.search(r"C$", left):  # X, ..., was
        for aside in (r"[^CXBV]+C", r"[^CX]+C", r"[^X]+C"):
            if found := re.search(rf"({CHAIN})C(?:{aside})$", left):
                return _noun_phrase(s, *found.span(1))
        return None
    found = re.search(rf"({CHAIN})$", left)
    if not found or re.search(r"NC?K$", left[: found.start()]) and not re.search(r"[BV].*CK$", left[: found.start()]):
        return None  # 'X and Y were'
    before = left[: found.start()].rstrip("A")
    if before.endswith(("B", "V", "G")) and s.words[len(before) - 1].lower() not in w.REPORTING:
        return None  # an object, as in 'who coaches X is'
    return _noun_phrase(s, *found.span(1))


def _antecedent(s: Tagged, span: tuple[int, int], relative: str, earlier: dict[int, Subject]) -> Subject | None:
    if relative not in ("who", "which", "that"):
        return None
    last = re.search(rf"{NP}$", s.tags[slice(*span)])
    if last and "N" in last.group():
        return _noun_phrase(s, span[0] + last.start(), span[1])
    if earlier and re.search(rf"^{VERB}{CHAIN}C?W$", s.tags[max(earlier) : span[1]] + "W"):
        return earlier[max(earlier)]  # X is a person who ...
    return None


def _noun_phrase(s: Tagged, start: int, end: int) -> Subject | None:
    """The name in a phrase, with the noun that it is related by; None if there is no name."""
    tags = s.tags[start:end]
    if start and s.tags[start - 1] in "Pt":  # 'X in Y is': X; 'In Y': nobody
        if "N" not in tags or not (found := re.search(rf"({CHAIN})[Pt]$", s.tags[:start])):
            return _after_setting(s, start, end)
        if "N" in found.group(1):
            return _noun_phrase(s, *found.span(1))
        if on := _after_setting(s, start, end):
            return on
        plain = not re.search(r"[Pto]$", s.tags[: found.start()]) and re.fullmatch(NAMED, tags)
        return _related(s, found.span(1), (start, end)) if plain else None
    if found := re.fullmatch(rf"({NP}(?:o{NP})?)o({NAMED})", tags):
        if "N" not in found.group(1):
            return _related(s, (start, start + found.end(1)), (start + found.start(2), end))
    if found := re.fullmatch(r"(D?[nN#]*N[N#]*)s([nN#]+(?:on+)?)", tags):
        return _related(s, (start + found.start(2), end), (start, start + found.end(1)))
    if "o" in tags and "N" not in tags.split("o")[0]:
        return None
    if "s" in tags or "N" not in tags:
        return None
    return Subject(_name(s, start, end))


def _after_setting(s: Tagged, start: int, end: int) -> Subject | None:
    """'At a small wedding X has', 'From this season on X has': X."""
    if found := re.fullmatch(r"Dn+(N[N#]*)", s.tags[start:end] if start == 1 else ""):
        return Subject(s.text(start + found.start(1), end))
    on = s.words[0].lower() == "from" and s.words[start - 1] == "on" and re.fullmatch(r"P?D?n+P", s.tags[:start])
    return Subject(_name(s, start, end)) if on and re.fullmatch(NAMED, s.tags[start:end]) else None


def _related(s: Tagged, noun: tuple[int, int], name: tuple[int, int]) -> Subject | None:
    if "N" not in s.tags[slice(*name)]:
        return None
    return Subject(_name(s, *name), _bare(s, *noun))


def _complements(s: Tagged, at: int, verb: str) -> Iterator[tuple[str, str]]:
    """Relation and object for the phrases from `at` on, which follow the verb."""
    direct = ""
    for place in range(MOST):
        found = re.compile(rf"([Pto]{{1,2}}(?:A*G)?A*)?({CHAIN})").match(s.tags, at)
        if not found or (found.group(1) is None and place):
            return
        before = s.text(*found.span(1)) if found.group(1) else ""
        start, end = found.span(2)
        if found.group(1) is None and "N" not in found.group(2) and re.match(r"[Pto]", s.tags[end:]):
            direct = s.text(start, end)  # 'is a citizen of', 'received citizenship of'
        relation = " ".join(part for part in (verb, direct if start != found.start() else "", before) if part)
        more, thing = _parted(s, start, end)
        yield f"{relation} {more}".strip(), thing
        yield from _listed(s, end, f"{relation} {more}".strip())
        if found.group(1) is None and "N" in found.group(2) and COPULA.fullmatch(verb):
            return  # 'became mayor of X in 2019': what comes now belongs to the whole, not to X or the subject
        at = end


def _listed(s: Tagged, at: int, relation: str) -> Iterator[tuple[str, str]]:
    """Further names of a list: 'wrote A, B and C'."""
    while found := re.compile(rf"(?:C|C?K)({NAMED})(?![N#nsoBVAW])").match(s.tags, at):
        yield relation, _name(s, *found.span(1))
        at = found.end()


def _parted(s: Tagged, start: int, end: int) -> tuple[str, str]:
    """An object in what belongs to the relation and the object itself: 'a citizen of | X', 'the language | X'."""
    tags = s.tags[start:end]
    if found := re.fullmatch(rf"(.*[nN#]o)(?={NP}$)({NP})", tags):
        if "N" not in found.group(1) and "N" in found.group(2):
            more, thing = _parted(s, start + found.start(2), end)
            return f"{s.text(start, start + found.end(1))} {more}".strip(), thing
    if found := re.fullmatch(r"(D?n+)(N[N#]*)", tags):
        return s.text(start, start + found.end(1)), s.text(start + found.end(1), end)
    if tags.startswith("D") and "N" not in tags and s.words[start].lower() in ("a", "an"):
        return s.words[start], s.text(start + 1, end)
    return "", _name(s, start, end)


def _beside_nouns(s: Tagged) -> Iterator[Triplet | None]:
    """Appositions, participles after a comma or at the beginning, possessives, and nouns before names."""
    for found in re.finditer(rf"({NAMED})C(?=D[nN#])", s.tags):  # X, a city in Y
        if s.words[found.end()].lower() in ("a", "an", "the") and not re.search(
            rf"[Pto]{NAMED}C$", s.tags[: found.end()]
        ):
            yield from _of(s, found.span(1), found.end(), "is")
    for found in re.finditer(rf"({NAMED})C?(?:W(?:B))?(A*V)(?=[PtoNnD#])", s.tags):  # X, located in Y
        if s.tags[found.end(1)] == "C":
            yield from _of(s, found.span(1), found.end(), f"was {_verb_text(s, *found.span(2))}")
    if front := re.match(rf"A*(V[Pto]?[^CXBVW]*)C({NAMED})(?=[BVAC])", s.tags):  # Born in Y, X
        yield from _of(s, front.span(2), front.start(1) + 1, f"was {s.words[front.start(1)].lower()}")
    for found in re.finditer(rf"({NAMED})K({NAMED})(B)A*(n+)(?=[XC]|$)", s.tags):  # X and Y are twin cities
        relation = f"{s.text(found.start(3), found.end())} with"
        yield _triplet(Subject(_name(s, *found.span(1))), relation, _name(s, *found.span(2)))
    for found in re.finditer(rf"({NAMED})s(n+)C?(N[N#]*)(?![sN#n])", s.tags):  # X's wife Y
        yield _triplet(Subject(_name(s, *found.span(1))), s.text(*found.span(2)), s.text(*found.span(3)))
    for found in re.finditer(rf"({NAMED})(?:BDn+)?C?W(n+)({VERB})(?=[PtoNnD#])", s.tags):  # X, whose R is Y
        if s.words[found.start(2) - 1].lower() == "whose":
            yield from _of(
                s, found.span(1), found.end(), _joined(_bare(s, *found.span(2)), _verb_text(s, *found.span(3)))
            )


def _turned(s: Tagged) -> Iterator[Triplet | None]:
    """Statements that name the relation first: 'in X the R is Y', 'the city where X was born is Y'."""
    if found := re.match(rf"P({NAMED})C?(D?n+V?)({VERB})({CHAIN})", s.tags):
        if COPULA.fullmatch(_verb_text(s, *found.span(3))):
            more, thing = _parted(s, *found.span(4))
            yield _triplet(Subject(_name(s, *found.span(1))), f"{_bare(s, *found.span(2))} {more}".strip(), thing)
    free = rf"D?n+([Pto]?)W({NAMED})(A*(?:B?A*VG?|B(?=[DPto])))((?:Dn+)?[Pto]?(?:n+[Pto]?)?)BA*({CHAIN})"
    for found in re.finditer(free, s.tags):  # the city in which X lives is Y
        parts = _verb_text(s, *found.span(3)), s.text(*found.span(4)), s.text(*found.span(1))
        relation = " ".join(part for part in parts if part)
        yield _triplet(Subject(_name(s, *found.span(2))), relation, _parted(s, *found.span(5))[1])
    for found in re.finditer(rf"D?(n+)W?(A*B?A*V)([Pt]?)({NAMED})BA*({CHAIN})", s.tags):
        # the person who coaches X is Y; the sport played by X is Y
        relation = f"{_verb_text(s, *found.span(2))} {s.text(*found.span(3))}".strip()
        name, thing = _name(s, *found.span(4)), _parted(s, *found.span(5))[1]
        if "W" in s.tags[found.start() : found.start(2)]:
            yield _triplet(Subject(thing), relation, name)
        else:
            yield _triplet(Subject(name), f"{_bare(s, *found.span(1))} {relation.removesuffix(' by')}", thing)
    for found in re.finditer(rf"(?:^|[^N])n({VERB})({NAMED})P(?={NP})", s.tags):  # critics have called X as Y
        if s.words[found.end() - 1] == "as":
            past = s.words[found.end(1) - 1].lower()
            yield from _of(s, found.span(2), found.end() - 1, f"was {past}")


def _of(s: Tagged, name: tuple[int, int], at: int, verb: str) -> Iterator[Triplet | None]:
    for relation, thing in _complements(s, at, verb):
        yield _triplet(Subject(_name(s, *name)), relation, thing)


def _triplet(subject: Subject, relation: str, thing: str) -> Triplet | None:
    """The triplet, unless it says who said something, or says nothing."""
    verbs = relation.lower().split()
    if not thing or not relation or subject.name == thing or w.REPORTING.intersection(verbs[:3]):
        return None
    return Triplet(subject=subject.name, relation=_joined(subject.noun, relation), object=thing)


def _joined(noun: str, relation: str) -> str:
    """'capital' and 'is' make 'capital'; 'head office' and 'has moved to' stay whole."""
    if not noun:
        return relation
    plain = COPULA.match(relation)
    rest = relation[plain.end() :].strip() if plain and plain.group() else relation
    return f"{noun} {rest}".strip() if plain and not rest else f"{noun} {relation}" if rest else noun


def _verb_text(s: Tagged, start: int, end: int) -> str:
    """The verb phrase without adverbs, which carry opinion, not fact; 'not' and 'never' stay."""
    kept = [i for i in range(start, end) if s.tags[i] != "A" or s.words[i].lower() in w.KEPT]
    return " ".join(s.words[i].lower() for i in kept)


def _name(s: Tagged, start: int, end: int) -> str:
    """A phrase as a name: without its determiner, and without a year that only happens to stand before it."""
    while end - start > 1 and (s.tags[start] == "D" or s.tags[start] == "#" and "N" in s.tags[start:end]):
        start += 1
    tags = s.tags[start:end]
    if found := re.fullmatch(r"n+(N[N#]*)", tags):
        start += found.start(1)
    return s.text(start, end)


def _bare(s: Tagged, start: int, end: int) -> str:
    """A noun without its determiner."""
    return s.text(start + (s.tags[start] == "D"), end)
