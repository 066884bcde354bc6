"""Superseding rules: which edit of a fact is current, by (subject, relation) and not by text
similarity.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Literal, NamedTuple

from emend.memory.edit import Edit, content_id
from emend.memory.typography import fold_text

# `arrival`: the later edit of a fact is current, by time and then by order of arrival. `time`: the
# same, but only among edits that have a time. `never`: all edits of a fact stay current.
Superseding = Literal["arrival", "time", "never"]


class Claim(NamedTuple):
    """An entry's statement about some facts, for an edit that arrived at `order` and is valid from
    `time`.
    """

    entry_id: str
    edit_id: str
    facts: tuple[str, ...]
    time: datetime | None
    order: int


def fact_id(subject: str, relation: str) -> str:
    """Return 16 hex digits that identify a fact, ignoring case, Unicode form, quotes, underscores
    and spacing.
    """
    return content_id("fact", _normalised(subject), _normalised(relation))


def compute_fact_ids(edit: Edit, index: int | None = None) -> tuple[str, ...]:
    """Return the fact ids of an edit, or of its triplet at `index`; none for a text without
    triplets.
    """
    triplets = edit.triplets if index is None else edit.triplets[index : index + 1]
    ids = (
        fact_id(t.subject, t.relation) for t in triplets if t.subject.strip() and t.relation.strip()
    )
    return tuple(dict.fromkeys(ids))


def parse_time(time: str | None, zone: tzinfo = UTC) -> datetime | None:
    """Return the start, in UTC, of an ISO 8601 year, month, day or instant; None for other text.

    Args:
        time: the text.
        zone: the time zone of a text without one.
    """
    text = (time or "").strip()
    if re.fullmatch(r"\d{4}", text):
        text += "-01-01"
    elif re.fullmatch(r"\d{4}-\d{2}", text):
        text += "-01"
    try:
        parsed = datetime.fromisoformat(text)
        return (parsed.replace(tzinfo=zone) if parsed.tzinfo is None else parsed).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def in_order(claims: Iterable[Claim]) -> list[Claim]:
    """Sort claims from oldest to newest: by time, then by arrival.

    A claim without a time gets the latest time known when it arrived, so the last claim to arrive
    is current unless its own time is older.
    """
    known: datetime | None = None
    dated = []
    for claim in sorted(claims, key=lambda claim: claim.order):
        if claim.time is not None:
            known = claim.time if known is None else max(known, claim.time)
        dated.append((claim.time or known or datetime.min.replace(tzinfo=UTC), claim.order, claim))
    return [claim for *_, claim in sorted(dated, key=lambda row: row[:2])]


def current_edits(claims: Iterable[Claim], rule: Superseding) -> Mapping[str, str]:
    """Return the id of the current edit of each fact to which the rule applies."""
    groups: dict[str, list[Claim]] = {}
    for claim in claims:
        if rule == "arrival" or (rule == "time" and claim.time is not None):
            for fact in claim.facts:
                groups.setdefault(fact, []).append(claim)
    return {fact: in_order(group)[-1].edit_id for fact, group in groups.items()}


def superseded(claims: Sequence[Claim], rule: Superseding) -> set[str]:
    """Return the ids of the entries whose facts all have a later edit.

    A text with at least one current fact is not superseded, since no other entry may state that
    fact. An edit never supersedes itself, so an edit with several objects for one relation keeps
    them all.
    """
    latest = current_edits(claims, rule)
    return {
        claim.entry_id
        for claim in claims
        if claim.facts
        and (rule == "arrival" or claim.time is not None)
        and all(latest.get(fact, claim.edit_id) != claim.edit_id for fact in claim.facts)
    }


def _normalised(name: str) -> str:
    return fold_text(name.replace("_", " "))
