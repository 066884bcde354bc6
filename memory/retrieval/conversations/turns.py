"""Order of the turns in a memory: sessions, speakers and neighbours, derived from the entries.

A turn's text begins with its speaker (`Ida: I moved to Oslo.`). The turns of a session have the
same time, and ids that differ only in their last number (`chat:D2:10`), which counts the turns.
"""

import re
from collections import Counter
from collections.abc import Sequence
from functools import cached_property

from emend.memory.retrieval.base import Entry

# A session of more than `LONG_SESSION` turns covers several topics and is split into stretches of
# about `STRETCH` turns.
LONG_SESSION, STRETCH = 50, 25
USER, ASSISTANT = "user", "assistant"
_SPEAKER = re.compile(r"\s*([^\W\d_][^:\n]{0,40}?):\s")
_NUMBERS = re.compile(r"(\d+)")


def speaker_of(text: str) -> str:
    """Return the speaker's name at the start of a turn; empty if there is none."""
    match = _SPEAKER.match(text)
    return match[1] if match else ""


def utterance(text: str) -> str:
    """Return a turn's text without its speaker."""
    match = _SPEAKER.match(text)
    return text[match.end() :] if match else text


def natural_key(name: str) -> tuple[tuple[int, str], ...]:
    """Return a key that sorts names by the numbers in them: `D2:9` before `D2:10`."""
    parts = _NUMBERS.split(name)
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in parts)


class TurnOrder:
    """The entries of a memory as turns of sessions.

    Args:
        entries: the entries, in any order.
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = entries
        self.speakers = [speaker_of(entry.text) for entry in entries]
        keys = [(entry.time or "", natural_key(entry.edit_id), entry.id) for entry in entries]
        self.order = sorted(range(len(entries)), key=keys.__getitem__)
        """Positions of the entries, oldest first."""

    @cached_property
    def ranks(self) -> list[int]:
        """Rank of each entry in chronological order, from 0."""
        ranks = [0] * len(self.order)
        for rank, position in enumerate(self.order):
            ranks[position] = rank
        return ranks

    @cached_property
    def sessions(self) -> list[str]:
        """Session of each entry; one without time and numbered id is its own session."""
        return [self._session(entry) for entry in self.entries]

    def _session(self, entry: Entry) -> str:
        stem = entry.edit_id.rpartition(":")[0]
        return f"{stem} {entry.time}" if stem or entry.time else entry.id

    @cached_property
    def stretches(self) -> list[str]:
        """Session of each entry, or stretch of a long session."""
        sizes = Counter(self.sessions)
        counts: Counter[str] = Counter()
        stretches = [""] * len(self.entries)
        for position in self.order:
            session = self.sessions[position]
            size = sizes[session]
            parts = max(1, round(size / STRETCH)) if size > LONG_SESSION else 1
            stretches[position] = f"{session} {counts[session] * parts // size}"
            counts[session] += 1
        return stretches

    def previous_requests(self) -> list[int]:
        """Return the user's previous message in the session of each message of a user to an
        assistant; other turns have their own position.
        """
        previous = list(range(len(self.entries)))
        latest: dict[str, int] = {}
        for position in self.order:
            if self.speakers[position] == USER:
                previous[position] = latest.get(self.sessions[position], position)
                latest[self.sessions[position]] = position
        return previous

    def neighbours(self, distance: int) -> list[int | None]:
        """Return the turn `distance` turns later in the session of each entry, or None.

        A negative distance means earlier turns. Turns of the same known speaker are not neighbours,
        since a window joins a turn with what it replies to. Turns of an assistant are not
        neighbours either, since they repeat what they reply to.
        """
        others: list[int | None] = [None] * len(self.entries)
        step = 1 if distance > 0 else -1
        for rank, position in enumerate(self.order):
            if self._replies(rank, rank + step) and self._is_with(rank, rank + distance):
                others[position] = self.order[rank + distance]
        return others

    def _replies(self, rank: int, other: int) -> bool:
        if not self._is_with(rank, other):
            return False
        first, second = (self.speakers[self.order[each]] for each in (rank, other))
        return (first != second or not first) and ASSISTANT not in (first, second)

    def _is_with(self, rank: int, other: int) -> bool:
        if not 0 <= other < len(self.order):
            return False
        return self.sessions[self.order[rank]] == self.sessions[self.order[other]]
