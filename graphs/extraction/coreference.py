"""Puts the name in the place of what only points at it: pronouns, short names, and 'the city' for the city at hand.

Own rules that need no model: a document of news or encyclopaedia length is mostly about one thing, its main subject.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from emend.graphs.extraction import words as w
from emend.graphs.extraction.tagging import names, tag

PERSONAL = re.compile(r"\b(?:he|she|his|her|him|himself|herself)\b", re.I)
NEUTER = re.compile(r"\b(?:it|its)\b", re.I)
_POSSESSIVE = re.compile(r"\b(his|her|its)\b(?=\s+[a-zA-Z])", re.I)
_SUBJECTIVE = re.compile(r"\b(he|she|it)\b(?!['’])", re.I)
_EMPTY_IT = re.compile(
    r"\bit(?='s\b)|\bit(?=\s+(?:\w+\s+){0,3}?(?:\w+ed|known|clear|certain|evident|obvious|true|likely|possible|important|sure|time|come|light|"
    r"turns?|seems?|worth|said)\b[^.]{0,40}?\bthat\b)|\bas it\b",
    re.I,
)
_NOT_NAMES = frozenset("January February March April May June July August September October November December".split())
_SAID = re.compile(rf"\b(?:{'|'.join(sorted(w.REPORTING))})\b", re.I)


@dataclass(frozen=True)
class Cast:
    """Who a document speaks of.

    `main` is its main subject, empty if it names nobody; `full` the full name of each short one; `kinds` the nouns that
    the document uses for the main subject ('a city in ...').
    """

    main: str = ""
    person: bool = False
    full: dict[str, str] = field(default_factory=dict)
    kinds: frozenset[str] = frozenset()


def resolve(sentences: Sequence[str]) -> list[str]:
    """The sentences with names for pronouns, short names and definite descriptions; what is not plain stays."""
    cast = cast_of(sentences)
    focus, out = cast.main, []
    for sentence in sentences:
        told = _whole_names(sentence, cast)
        leader = _leading_name(told) or ""
        told = _described(told, cast)
        told = _pronouns(told, cast, focus, leader)
        if leader and cast.person:
            focus = leader if _like_a_person(leader, cast) else focus
        out.append(told)
    return out


def cast_of(sentences: Iterable[str]) -> Cast:
    """The main subject: the name that most sentences have, the more so where it stands before a verb or in front.

    A name that only ever follows a preposition ('Born in Oslo, ...') is none.
    """
    sentences = list(sentences)
    found = [list(_names(sentence)) for sentence in sentences]
    text = " ".join(sentences)
    people = len(PERSONAL.findall(text)) > len(NEUTER.findall(text))
    full = _full_names([[one.name for one in present] for present in found], people)
    counts: Counter[str] = Counter()
    for place, present in enumerate(found):
        best: dict[str, int] = {}
        front = next((one for one in present if one.free), None) if place == 0 else None
        for one in present:
            whole = full.get(one.name, one.name)
            points = 1 + 2 * one.acts + (3 if one is front else 1 if place == 0 else 0)
            best[whole] = max(points, best.get(whole, 0))
        counts.update(best)
    free = {full.get(one.name, one.name) for present in found for one in present if one.free}
    counts = Counter({name: count for name, count in counts.items() if name in free})
    if not counts:
        return Cast(full=full)
    main = max(counts, key=lambda name: counts[name])  # the earlier one in a tie
    return Cast(main, people, full, frozenset(_kinds(main, sentences)))


class _Named(NamedTuple):
    """A name, whether something is said of it, and whether it is free.

    Of what is said a verb, a possessive mark or an apposition follows; before a free name stands no preposition.
    """

    name: str
    acts: bool
    free: bool


def _names(sentence: str) -> Iterable[_Named]:
    tagged = tag(sentence)
    for start, end in names(tagged):
        name = tagged.text(start, end)
        if name not in _NOT_NAMES:
            after = tagged.tags[end:].lstrip("A")
            free = not tagged.tags[:start].rstrip("DA").endswith(("P", "t", "o"))
            yield _Named(name, after.startswith(("s", "B", "V")) or free and after.startswith(("C", "W")), free)


def _full_names(found: Sequence[Sequence[str]], people: bool) -> dict[str, str]:
    """'Buza' is George Buza, once George Buza was named; a word that two names end with is nobody's.

    Where the document is about a person, so is 'George', if he was named at its beginning.
    """
    every = {name for present in found for name in present}
    early = {name for present in found[:2] for name in present}
    owners: dict[str, set[str]] = {}
    for name in every:
        parts = name.split()
        if 2 <= len(parts) <= 4 and not re.search(r"\bof\b|^The\b", name):
            first = {parts[0]} if people and name in early else set()
            for short in {parts[-1], " ".join(parts[1:])} | first:
                owners.setdefault(short, set()).add(name)
    full = {}
    for short in sorted(owners.keys() & every):
        name = min(owners[short], key=lambda one: (len(one), one))
        if short[0].isupper() and all(other.endswith(name) for other in owners[short]):
            full[short] = name
    return full


def _kinds(main: str, sentences: Sequence[str]) -> Iterable[str]:
    """The nouns that the main subject is said to be."""
    said = re.compile(
        rf"{re.escape(main)}(?:,| is| was| are|, (?:which|who) is)\s+(?:\w+ly\s+)?(?:a|an|the|one of the)\s+"
        r"(?P<np>(?:[\w-]+,?\s+){0,6}?[\w-]+)(?=\s+(?:in|on|at|of|by|from|for|that|which|who|located|known|and|with|based|"
        r"created|developed|produced|situated|founded)\b|[,.;])"
    )
    before = re.compile(rf"\b(?:the|The)\s+(?:[a-z-]+\s+)*?(?P<np>[a-z-]+)\s+(?:called\s+)?[\"“]?{re.escape(main)}")
    for sentence in sentences:
        for found in [*said.finditer(sentence), *before.finditer(sentence)]:
            noun = found["np"].split()[-1]
            if noun.islower() and len(noun) > 2 and not noun.endswith(("ing", "ed")) and noun not in w.DETERMINERS:
                yield noun


def _whole_names(sentence: str, cast: Cast) -> str:
    """Short names made whole."""
    tagged = tag(sentence)
    spans = {tagged.text(*span) for span in names(tagged)}
    for short in sorted(spans & cast.full.keys()):
        whole = cast.full[short]
        before, _, after = whole.partition(short)
        behind = rf"(?<!{re.escape(before)})" if before else ""  # where the name is whole already
        ahead = rf"(?!{re.escape(after)})" if after else ""
        sentence = re.sub(rf"(?<![\w-]){behind}{re.escape(short)}{ahead}(?![\w-])", whole, sentence)
    return sentence


def _described(sentence: str, cast: Cast) -> str:
    """'the city' where the main subject was called a city."""
    if not cast.kinds or re.search(rf"(?<!\w){re.escape(cast.main)}(?!\w)", sentence):
        return sentence
    kinds = "|".join(re.escape(kind) for kind in sorted(cast.kinds))
    return re.sub(
        rf"\b[Tt]h(?:e|is)\s+(?:{kinds})\b(?!\s+(?:of|in|that|where|which|who)\b)", lambda _: cast.main, sentence
    )


def _leading_name(sentence: str) -> str | None:
    """The name that a sentence is about, if it begins with one, or that of whoever spoke it."""
    tagged = tag(sentence)
    spans = list(names(tagged))
    if not spans:
        return None
    said = _SAID.search(sentence)
    if said and (after := [span for span in spans if said.end() <= sentence.find(tagged.text(*span))]):
        return tagged.text(*after[0])
    return tagged.text(*spans[0]) if not re.search(r"[BV]", tagged.tags[: spans[0][0]]) else None


def _like_a_person(name: str, cast: Cast) -> bool:
    return name == cast.main or 2 <= len(name.split()) <= 4 and not re.search(r"\bof\b|^The\b", name)


def _pronouns(sentence: str, cast: Cast, focus: str, leader: str) -> str:
    """Personal pronouns stand for the person in focus, 'it' for a main subject that is no person."""
    if not cast.main:
        return sentence
    person = (leader if leader and _like_a_person(leader, cast) else focus) if cast.person else ""
    thing = "" if cast.person else cast.main
    empty = {found.end() for found in _EMPTY_IT.finditer(sentence)}

    def name_of(found: re.Match[str]) -> str:
        word = found.group(1).lower()
        name = thing if word in ("it", "its") else person
        return found.group() if not name or found.end() in empty else name

    def owner_of(found: re.Match[str]) -> str:
        name = name_of(found)
        return name if name == found.group() else f"{name}'s"

    return _SUBJECTIVE.sub(name_of, _POSSESSIVE.sub(owner_of, sentence))
