"""Coreference resolution by rules: full names replace pronouns, short names, and descriptions such
as 'the city'.

The rules need no model, since a document of news or encyclopaedia length is mostly about one main
subject.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from emend.graphs.extraction.tagging import names, tag
from emend.memory.relations import words as w

PERSONAL = re.compile(r"\b(?:he|she|his|her|him|himself|herself)\b", re.I)
NEUTER = re.compile(r"\b(?:it|its)\b", re.I)
_POSSESSIVE = re.compile(r"\b(his|her|its)\b(?=\s+[a-zA-Z])", re.I)
_SUBJECTIVE = re.compile(r"\b(he|she|it)\b(?!['’])", re.I)
_EMPTY_IT = re.compile(
    r"\bit(?='s\b)|\bit(?=\s+(?:\w+\s+){0,3}?(?:\w+ed|known|clear|certain|evident|obvious|true|"
    r"likely|possible|"
    r"important|sure|time|come|light|turns?|seems?|worth|said)\b[^.]{0,40}?\bthat\b)|\bas it\b",
    re.I,
)
_NOT_NAMES = frozenset(
    "January February March April May June July August September October November December".split()
)
_SAID = re.compile(rf"\b(?:{'|'.join(sorted(w.REPORTING))})\b", re.I)


@dataclass(frozen=True)
class Cast:
    """Names of a document.

    `main` is its main subject, empty if it has no names; `person` is true if the document is mostly
    about people; `full` maps short names to full names; `kinds` are the nouns that the document
    uses for the main subject ('a city in ...').
    """

    main: str = ""
    person: bool = False
    full: dict[str, str] = field(default_factory=dict)
    kinds: frozenset[str] = frozenset()


def resolve(sentences: Sequence[str]) -> list[str]:
    """Replace pronouns, short names and definite descriptions by full names; unclear references
    stay.
    """
    cast = collect_cast(sentences)
    focus, out = cast.main, []
    for sentence in sentences:
        text = _whole_names(sentence, cast)
        leader = _leading_name(text) or ""
        text = _pronouns(_described(text, cast), cast, focus, leader)
        if leader and cast.person:
            focus = leader if _like_a_person(leader, cast) else focus
        out.append(text)
    return out


def collect_cast(sentences: Iterable[str]) -> Cast:
    """Collect the names of a document.

    The main subject is the most frequent name; names before verbs and in the first sentence count
    more. A name that occurs only after prepositions ('Born in Oslo, ...') cannot be the main
    subject.
    """
    sentences = list(sentences)
    mentions = [list(_names(sentence)) for sentence in sentences]
    text = " ".join(sentences)
    people = len(PERSONAL.findall(text)) > len(NEUTER.findall(text))
    full = _full_names([[name.text for name in present] for present in mentions], people)
    counts: Counter[str] = Counter()
    for place, present in enumerate(mentions):
        best: dict[str, int] = {}
        front = next((name for name in present if name.free), None) if place == 0 else None
        for name in present:
            whole = full.get(name.text, name.text)
            points = 1 + 2 * name.acts + (3 if name is front else 1 if place == 0 else 0)
            best[whole] = max(points, best.get(whole, 0))
        counts.update(best)
    free = {full.get(name.text, name.text) for present in mentions for name in present if name.free}
    counts = Counter({name: count for name, count in counts.items() if name in free})
    if not counts:
        return Cast(full=full)
    main = max(counts, key=lambda name: counts[name])  # the earlier one in a tie
    return Cast(main, people, full, frozenset(_kinds(main, sentences)))


class _Mention(NamedTuple):
    """Mention of a name.

    `acts` is true if a verb, possessive mark or apposition follows, `free` if no preposition
    precedes.
    """

    text: str
    acts: bool
    free: bool


def _names(sentence: str) -> Iterable[_Mention]:
    tagged = tag(sentence)
    for start, end in names(tagged):
        name = tagged.text(start, end)
        if name not in _NOT_NAMES:
            after = tagged.tags[end:].lstrip("A")
            free = not tagged.tags[:start].rstrip("DA").endswith(("P", "t", "o"))
            yield _Mention(
                name,
                after.startswith(("s", "B", "V")) or free and after.startswith(("C", "W")),
                free,
            )


def _full_names(mentions: Sequence[Sequence[str]], people: bool) -> dict[str, str]:
    """Return full names by short name, such as 'George Buza' for 'Buza'.

    A word that ends two different names is not a short name. In a document about people, 'George'
    is also a short name if the full name occurs in the first two sentences.
    """
    every = {name for present in mentions for name in present}
    early = {name for present in mentions[:2] for name in present}
    owners: dict[str, set[str]] = {}
    for name in every:
        parts = name.split()
        if 2 <= len(parts) <= 4 and not re.search(r"\bof\b|^The\b", name):
            first = {parts[0]} if people and name in early else set()
            for short in {parts[-1], " ".join(parts[1:])} | first:
                owners.setdefault(short, set()).add(name)
    full = {}
    for short in sorted(owners.keys() & every):
        name = min(owners[short], key=lambda full_name: (len(full_name), full_name))
        if short[0].isupper() and all(other.endswith(name) for other in owners[short]):
            full[short] = name
    return full


def _kinds(main: str, sentences: Sequence[str]) -> Iterable[str]:
    """Yield the nouns that the document uses for the main subject."""
    after = re.compile(
        rf"{re.escape(main)}(?:,| is| was| are|, (?:which|who) is)\s+(?:\w+ly\s+)?(?:a|an|the|one "
        r"of the)\s+"
        r"(?P<np>(?:[\w-]+,?\s+){0,6}?[\w-]+)(?=\s+(?:in|on|at|of|by|from|for|that|which|who|"
        r"located|known|and|with|"
        r"based|created|developed|produced|situated|founded)\b|[,.;])"
    )
    before = re.compile(
        rf"\b(?:the|The)\s+(?:[a-z-]+\s+)*?(?P<np>[a-z-]+)\s+(?:called\s+)?[\"“]?{re.escape(main)}"
    )
    for sentence in sentences:
        for match in [*after.finditer(sentence), *before.finditer(sentence)]:
            noun = match["np"].split()[-1]
            if (
                noun.islower()
                and len(noun) > 2
                and not noun.endswith(("ing", "ed"))
                and noun not in w.DETERMINERS
            ):
                yield noun


def _whole_names(sentence: str, cast: Cast) -> str:
    """Replace short names in the sentence by full names."""
    tagged = tag(sentence)
    spans = {tagged.text(*span) for span in names(tagged)}
    for short in sorted(spans & cast.full.keys()):
        whole = cast.full[short]
        before, _, after = whole.partition(short)
        behind = rf"(?<!{re.escape(before)})" if before else ""  # not within the full name
        ahead = rf"(?!{re.escape(after)})" if after else ""
        sentence = re.sub(rf"(?<![\w-]){behind}{re.escape(short)}{ahead}(?![\w-])", whole, sentence)
    return sentence


def _described(sentence: str, cast: Cast) -> str:
    """Replace a description such as 'the city' by the main subject, if the document calls it a
    city.
    """
    if not cast.kinds or re.search(rf"(?<!\w){re.escape(cast.main)}(?!\w)", sentence):
        return sentence
    kinds = "|".join(re.escape(kind) for kind in sorted(cast.kinds))
    return re.sub(
        rf"\b[Tt]h(?:e|is)\s+(?:{kinds})\b(?!\s+(?:of|in|that|where|which|who)\b)",
        lambda _: cast.main,
        sentence,
    )


def _leading_name(sentence: str) -> str | None:
    """Return the name at the beginning of a sentence, or the name of its speaker; None if there is
    no such name.
    """
    tagged = tag(sentence)
    spans = list(names(tagged))
    if not spans:
        return None
    speech = _SAID.search(sentence)
    if speech and (
        after := [span for span in spans if speech.end() <= sentence.find(tagged.text(*span))]
    ):
        return tagged.text(*after[0])
    return tagged.text(*spans[0]) if not re.search(r"[BV]", tagged.tags[: spans[0][0]]) else None


def _like_a_person(name: str, cast: Cast) -> bool:
    return (
        name == cast.main or 2 <= len(name.split()) <= 4 and not re.search(r"\bof\b|^The\b", name)
    )


def _pronouns(sentence: str, cast: Cast, focus: str, leader: str) -> str:
    """Replace personal pronouns in the sentence by the person in focus; in a document that is not
    about people, replace 'it' by the main subject.
    """
    if not cast.main:
        return sentence
    person = (leader if leader and _like_a_person(leader, cast) else focus) if cast.person else ""
    thing = "" if cast.person else cast.main
    empty = {match.end() for match in _EMPTY_IT.finditer(sentence)}

    def name_of(match: re.Match[str]) -> str:
        word = match.group(1).lower()
        name = thing if word in ("it", "its") else person
        return match.group() if not name or match.end() in empty else name

    def owner_of(match: re.Match[str]) -> str:
        name = name_of(match)
        return name if name == match.group() else f"{name}'s"

    return _SUBJECTIVE.sub(name_of, _POSSESSIVE.sub(owner_of, sentence))
