"""Which edit of a fact is the current one: a rule over (subject, relation), not over how alike two texts are."""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from emend.memory.edit import Edit, content_id

Superseding = Literal["arrival", "time", "never"]
"""`arrival`: the later edit of a fact is current, by time and then by order of arrival. `time`: only among edits that
have a time. `never`: all edits of a fact stand side by side."""

_QUOTES = str.maketrans("’‘‚‛‹›“”„‟«»_", "'" * 6 + '"' * 6 + " ")


class Claim(NamedTuple):
    """An entry says something about these facts, on behalf of an edit that came at `order` and holds from `time`."""

    entry_id: str
    edit_id: str
    facts: tuple[str, ...]
    time: datetime | None
    order: int


def fact_id(subject: str, relation: str) -> str:
    """Sixteen hex digits for what a fact is about; case, Unicode form, quotes, underscores and spacing do not count."""
    return content_id("fact", _plain(subject), _plain(relation))


def facts_of(edit: Edit, place: int | None = None) -> tuple[str, ...]:
    """The facts that an edit speaks of, or its triplet at `place`; none for a text without triplets."""
    triplets = edit.triplets if place is None else edit.triplets[place : place + 1]
    said = (fact_id(t.subject, t.relation) for t in triplets if t.subject.strip() and t.relation.strip())
    return tuple(dict.fromkeys(said))


def moment(time: str | None) -> datetime | None:
    """When an ISO 8601 time (year, month, day or instant; UTC unless it says otherwise) begins; None for other text."""
    told = (time or "").strip()
    if re.fullmatch(r"\d{4}", told):
        told += "-01-01"
    elif re.fullmatch(r"\d{4}-\d{2}", told):
        told += "-01"
    try:
        read = datetime.fromisoformat(told)
        return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def in_order(claims: Iterable[Claim]) -> list[Claim]:
    """Oldest first: by time, then by arrival.

    A claim without a time counts as of the latest time that was known when it arrived, so that what is said last is
    current unless it says that it is older.
    """
    known: datetime | None = None
    dated = []
    for claim in sorted(claims, key=lambda claim: claim.order):
        if claim.time is not None:
            known = claim.time if known is None else max(known, claim.time)
        dated.append((claim.time or known or datetime.min.replace(tzinfo=UTC), claim.order, claim))
    return [claim for *_, claim in sorted(dated, key=lambda one: one[:2])]


def current_edits(claims: Iterable[Claim], rule: Superseding) -> Mapping[str, str]:
    """For each fact that the rule decides, the edit whose word counts."""
    groups: dict[str, list[Claim]] = {}
    for claim in claims:
        if rule == "arrival" or (rule == "time" and claim.time is not None):
            for fact in claim.facts:
                groups.setdefault(fact, []).append(claim)
    return {fact: in_order(group)[-1].edit_id for fact, group in groups.items()}


def superseded(claims: Sequence[Claim], rule: Superseding) -> set[str]:
    """Ids of the entries all of whose facts have a later edit.

    A text of which one fact still holds stays: nothing else in the memory may say it. An edit never supersedes itself,
    so that one with several objects for one relation keeps them all.
    """
    latest = current_edits(claims, rule)
    return {
        claim.entry_id
        for claim in claims
        if claim.facts and (rule == "arrival" or claim.time is not None) and _all_later(claim, latest)
    }


def _all_later(claim: Claim, latest: Mapping[str, str]) -> bool:
    return all(latest.get(fact, claim.edit_id) != claim.edit_id for fact in claim.facts)


def _plain(name: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", name).translate(_QUOTES).casefold().split())
