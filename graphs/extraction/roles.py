"""Patterns for roles that are not next to their owner: 'S has O as its R', 'O, R of S,', 'As R of
S, O ...'.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from emend.graphs.extraction.tagging import Tagged
from emend.memory.edit import Triplet
from emend.memory.relations import words as w
from emend.memory.relations.inflection import find_base, is_plural

NAME = r"N[N#]*"
ROLE = r"(?P<role>n+)"
_AS = re.compile(
    rf"(?P<owner>{NAME})A*(?P<verb>B*[BV])A*(?P<thing>{NAME})P(?:D|"
    rf"(?P<whose>{NAME})s)?{ROLE}(?:o(?P<of>{NAME}))?"
)
_NAMED = re.compile(
    rf"(?P<owner>{NAME})A*(?P<verb>B*V)A*(?P<thing>{NAME})(?P<how>D|s){ROLE}(?:o(?P<of>{NAME}))?"
)
_BESIDE = re.compile(rf"(?P<thing>{NAME})C{ROLE}o(?P<of>{NAME})(?=[CX]|$)")
_FRONT = re.compile(rf"^P(?:D|(?P<whose>{NAME})s)?{ROLE}(?:o(?P<of>{NAME}))?C(?P<thing>{NAME})")


class Filled(NamedTuple):
    """Triplet (S, R, O), and the span of words that states only this triplet."""

    triplet: Triplet
    span: tuple[int, int]


def filled_roles(s: Tagged) -> Iterator[Filled]:
    """Yield the roles in a sentence, pattern by pattern, each in the order of the sentence."""
    for match in _AS.finditer(s.tags):
        verb = s.words[match.end("verb") - 1].lower()
        as_ = s.words[match.end("thing")].lower() == "as"
        if as_ and (find_base(verb) in w.APPOINT or verb in w.HAVE):
            yield _filled(s, match, match["of"] and "of" or match["whose"] and "whose" or "owner")
    for match in _NAMED.finditer(s.tags):
        if find_base(s.words[match.end("verb") - 1].lower()) in w.APPOINT and (
            filled := _named(s, match)
        ):
            yield filled
    for match in _BESIDE.finditer(s.tags):
        noun = s.words[match.end("role") - 1].lower()
        if not (
            is_plural(noun)
            or noun in w.SEVERAL | w.TAKE_OF
            or s.tags[: match.start()].endswith("K")
        ):
            yield _filled(s, match, "of")
    front = _FRONT.match(s.tags)
    if front and s.words[0].lower() == "as" and (front["of"] or front["whose"]):
        yield _filled(s, front, "of" if front["of"] else "whose")


def _filled(s: Tagged, match: re.Match[str], owner: str) -> Filled:
    role, thing = s.text(*match.span("role")), s.text(*match.span("thing"))
    return Filled(
        Triplet(subject=s.text(*match.span(owner)), relation=role, object=thing), match.span()
    )


def _named(s: Tagged, match: re.Match[str]) -> Filled | None:
    """Return the triplet of 'S named O its R', where 'its' may have been replaced by the name of
    S.
    """
    if match["how"] == "D":
        its = s.words[match.start("how")].lower() in ("its", "their", "his", "her", "the")
        return _filled(s, match, "of" if match["of"] else "owner") if its else None
    owner, both = s.text(*match.span("owner")), s.text(*match.span("thing"))
    if both == owner or not both.endswith(owner):
        return None
    triplet = Triplet(
        subject=owner, relation=s.text(*match.span("role")), object=both.removesuffix(owner).strip()
    )
    return Filled(triplet, match.span())
