"""The memory of facts: operations that change it, and answers about what holds when."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emend.memory.edit import content_id
from emend.memory.embeddings.embed import Embedding
from emend.memory.errors import BadData
from emend.memory.facts.database import FILE, FactDatabase
from emend.memory.facts.fact import (
    SHARED,
    Change,
    Conflict,
    Dependency,
    Fact,
    FactHit,
    JournalEntry,
    Lookup,
    Operation,
    Provenance,
)
from emend.memory.facts.fact_reader import FactReader, View
from emend.memory.facts.fact_search import FactSearch
from emend.memory.facts.fact_store import ConflictRow, FactStore
from emend.memory.facts.fact_writer import Action, Draft, FactWriter
from emend.memory.facts.instants import now, read_instant, read_zone
from emend.memory.json_files import replace_surrogates
from emend.memory.relations.relation_table import RelationTable, canonical_statement

if TYPE_CHECKING:
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.tools import BaseTool

_UNKNOWN = Provenance()


class FactMemory:
    """Facts with the time during which they hold and the time at which they were said; nothing is lost by a change.

    Safe to use from several threads, and by several processes at once. Every change is one transaction. Times are ISO
    8601 years, months, days or instants, and mean their start; questions are about the present unless they say `at`.
    A question about a user's facts is answered by their own facts, and by those of `SHARED` where they have none.

    Args:
        folder: holds the file `facts.sqlite3`; None keeps everything in this process.
        table: the kinds of relations; the built-in table by default.
        embedding: makes searches rank by meaning, too.
        time_zone: of times that name none.

    Raises:
        BadData: the file is none of Emend's.
        BadSettings: unknown time zone.
        MemoryMismatch: the file was written by another version.
        MemoryUnavailable: the file cannot be opened; from any later call: another process does not release it.
    """

    def __init__(
        self,
        folder: Path | str | None,
        table: RelationTable | None = None,
        embedding: Embedding | None = None,
        time_zone: str = "UTC",
    ) -> None:
        self._zone = read_zone(time_zone)
        self.table = table or RelationTable.load()
        self._database = FactDatabase(Path(folder) / FILE if folder is not None else None)
        self._store = FactStore(self._database)
        self._reader = FactReader(self._store, self.table)
        self._writer = FactWriter(self._reader)
        self._search = FactSearch(self._reader, embedding)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def __enter__(self) -> "FactMemory":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Context in which all operations of this thread are one transaction, which is faster for many."""
        with self._database.transaction():
            yield

    def remember(
        self,
        subject: str,
        relation: str,
        object: str,
        valid_from: str = "",
        valid_to: str = "",
        provenance: Provenance = _UNKNOWN,
    ) -> Change:
        """State a fact. The kind of its relation decides what becomes of an earlier one (see `RelationTable`).

        Args:
            subject: what the fact is about.
            relation: in any wording; a canonical one is stored.
            object: the value.
            valid_from: when it began to hold; by default when it was said.
            valid_to: when it ceases to hold.
            provenance: who says so, where and when.

        Raises:
            BadData: a part is blank, a time is none, or it says what no longer holds.
        """
        draft = self._draft(subject, relation, object, valid_from, valid_to)
        return self._change("remember", provenance, lambda action: self._writer.remember(draft, action))

    def update(
        self,
        subject: str,
        relation: str,
        object: str,
        replaces: str = "",
        valid_from: str = "",
        provenance: Provenance = _UNKNOWN,
    ) -> Change:
        """State a fact that takes the place of another one, or with an empty object that it holds no longer.

        Args:
            subject: what the fact is about.
            relation: in any wording.
            object: the new value; empty if nothing takes the place of the old one.
            replaces: the old value, or the id of its fact; needed where several hold.
            valid_from: when the change took place; by default when it was said.
            provenance: who says so, where and when.

        Raises:
            BadData: nothing that could be replaced holds, or several facts do.
        """
        draft = self._draft(subject, relation, object, valid_from, "", ends=not object.strip())
        return self._change("update", provenance, lambda action: self._writer.update(draft, replaces.strip(), action))

    def correct(
        self, fact_id: str, object: str, valid_from: str = "", valid_to: str = "", provenance: Provenance = _UNKNOWN
    ) -> Change:
        """Say what should have been said in place of a fact, which counts as if it had never held.

        Raises:
            BadData: the user has no such fact, or it was corrected already.
        """
        _refuse_blank(object=object)
        times = self._instant(valid_from), self._instant(valid_to)
        text = replace_surrogates(object).strip()
        return self._change("correct", provenance, lambda action: self._writer.correct(fact_id, text, times, action))

    def retract(self, id: str, provenance: Provenance = _UNKNOWN) -> Change:
        """Take back a fact or a dependency: what it had replaced or corrected holds again.

        Raises:
            BadData: the user has none of that id.
        """
        return self._change("retract", provenance, lambda action: self._writer.retract(id, action))

    def resolve(self, conflict_id: str, keep: Sequence[str], provenance: Provenance = _UNKNOWN) -> Change:
        """Decide a conflict: the facts of the ids `keep` stand, and the others are taken back.

        Raises:
            BadData: the user has no such open conflict, or an id is not that of one of its facts.
        """

        def decide(action: Action) -> list[str]:
            return self._writer.resolve(conflict_id, keep, self._present(action.user), action)

        return self._change("resolve", provenance, decide)

    def depend(
        self,
        subject: str,
        relation: str,
        base: tuple[str, str],
        condition: Sequence[str] = (),
        value: str | None = None,
        provenance: Provenance = _UNKNOWN,
    ) -> Change:
        """State that a fact depends on another one.

        With a value, the fact is derived: it has that value as long as the other fact has an object of `condition`.
        Without one, the fact becomes unknown when the other one changes, until it is stated anew.

        Args:
            subject: what the derived fact is about.
            relation: its relation.
            base: subject and relation of the other fact.
            condition: objects of the other fact; none means any.
            value: the derived object, in which `{object}` stands for the object of the other fact.
            provenance: who says so, where and when.

        Raises:
            BadData: the fact would follow from itself.
        """
        _refuse_blank(subject=subject, relation=relation, base_subject=base[0], base_relation=base[1])

        def add(action: Action) -> list[str]:
            dependency = Dependency(
                id=content_id("dependency", action.user, action.id),
                subject=_clean(subject),
                relation=self.table.name_of(relation),
                base_subject=_clean(base[0]),
                base_relation=self.table.name_of(base[1]),
                condition=tuple(map(_clean, condition)),
                value=None if value is None else _clean(value),
                user=action.user,
                recorded_at=action.recorded_at,
                source=action.source,
            )
            return self._writer.depend(dependency)

        return self._change("depend", provenance, add)

    def forget(self, id: str = "", subject: str = "", relation: str = "", provenance: Provenance = _UNKNOWN) -> Change:
        """Erase a fact or dependency, all facts of one relation of a subject, or all about a subject, from the file.

        Raises:
            BadData: the user has none of that id, or both or neither of `id` and `subject` are given.
        """
        if bool(id) == bool(subject.strip()) or (id and relation):
            raise BadData(
                "say what to forget: the id of a fact or dependency, or a subject, or a subject and relation."
            )

        def erase(action: Action) -> list[str]:
            if id:
                return self._writer.forget(id, action)
            return self._writer.forget_about(_clean(subject), relation and self.table.name_of(relation), action)

        return self._change("forget", provenance, erase)

    def lookup(self, subject: str, relation: str, user: str = "", at: str = "", known_at: str = "") -> Lookup:
        """Look up one relation of a subject: no fact, one, several of a set, or the sides of a dispute.

        Args:
            subject: what the facts are about.
            relation: in any wording.
            user: whose facts.
            at: the instant at which they hold.
            known_at: leaves out what was said later.
        """
        name = self.table.name_of(relation)
        resolution = self._reader.resolve(_clean(subject), name, self._view(user, at, known_at))
        return Lookup(
            subject=_clean(subject),
            relation=name,
            facts=resolution.facts,
            disputed=resolution.disputed,
            reason=resolution.reason,
        )

    def history(self, subject: str, relation: str, user: str = "", known_at: str = "") -> tuple[Fact, ...]:
        """All statements of one relation of a subject in the order in which they began to hold, shared ones first."""
        facts: list[Fact] = []
        present, known = self._present(user), self._instant(known_at)
        for owner in dict.fromkeys((SHARED, user)):
            timeline = self._reader.timeline(owner, _clean(subject), self.table.name_of(relation), known)
            in_time = sorted(timeline.known, key=lambda each: (each.start, each.number))
            facts += [self._reader.describe(each, known or present, timeline) for each in in_time]
        return tuple(facts)

    def as_of(self, at: str, subject: str = "", user: str = "", known_at: str = "") -> tuple[Fact, ...]:
        """All facts that held at an instant, about one subject or about all, in the order in which they were said."""
        view = self._view(user, at, known_at)
        places: dict[tuple[str, str], None] = {}
        for owner in dict.fromkeys((view.user, SHARED)):
            places |= self._reader.places(owner, _clean(subject))
        return tuple(fact for place in places for fact in self._reader.resolve(*place, view).facts)

    def search(self, query: str, k: int = 5, user: str = "", at: str = "", known_at: str = "") -> tuple[FactHit, ...]:
        """At most k facts that hold, best first; ranked by the words of the query, and by similarity if embedded."""
        return self._search.search(query, k, self._view(user, at, known_at))

    def conflicts(self, user: str = "") -> tuple[Conflict, ...]:
        """The contradictions that wait for a decision, oldest first."""
        return tuple(map(self._conflict, self._store.open_conflicts(user)))

    def journal(self, after: int = 0) -> tuple[JournalEntry, ...]:
        """The operations of all users after that number, in order."""
        return tuple(self._store.journal(after))

    def count(self) -> int:
        """Number of stored statements, of all users and times."""
        return self._store.count()

    def as_tools(self, user: str = "", writes: bool = True, shared: bool = False) -> "list[BaseTool]":
        """The operations as tools of LangChain; see `emend.memory.tools.fact_tools`."""
        from emend.memory.tools import fact_tools

        return fact_tools(self, user, writes, shared)

    def as_retriever(self, user: str = "", k: int = 5) -> "BaseRetriever":
        """The search as a retriever of LangChain; see `emend.memory.tools.FactRetriever`."""
        from emend.memory.tools import FactRetriever

        return FactRetriever(memory=self, user=user, k=k)

    def _change(self, operation: Operation, provenance: Provenance, run: Callable[[Action], list[str]]) -> Change:
        """Do an operation in one transaction, unless it was done before."""
        user, id_ = provenance.user, provenance.operation_id or uuid.uuid4().hex
        recorded_at = self._instant(provenance.recorded_at) or now()
        with self._database.transaction():
            earlier = self._store.find_operation(user, id_)
            if earlier is None:
                number = self._store.add_operation(user, id_, operation, recorded_at)
                ids = run(Action(number, id_, user, replace_surrogates(provenance.source), recorded_at))
                self._store.finish_operation(number, ids)
            elif earlier.operation == operation:
                ids = list(earlier.ids)
            else:
                raise BadData(
                    f"operation '{id_}' was '{earlier.operation}', not '{operation}': give each operation its own id."
                )
            return self._outcome(operation, user, id_, ids, earlier is not None)

    def _outcome(self, operation: Operation, user: str, id_: str, ids: Sequence[str], repeated: bool) -> Change:
        present = self._present(user)
        statements = [each for id_ in ids if (each := self._store.find_statement(id_)) and not each.erased]
        rules = [rule for id_ in ids if (rule := self._store.find_rule(id_))]
        keys = dict.fromkeys(each.key for each in statements)
        rows = [row for key in keys for row in self._store.conflicts(key) if not row.resolved_at]
        return Change(
            operation_id=id_,
            operation=operation,
            repeated=repeated,
            facts=tuple(self._reader.describe(each, present) for each in statements),
            dependency=rules[0].dependency if rules else None,
            conflicts=tuple(map(self._conflict, rows)),
            forgotten=len(ids) if operation == "forget" else 0,
        )

    def _conflict(self, row: ConflictRow) -> Conflict:
        statements = [each for each in self._store.statements(row.key) if not each.erased]
        first = statements[0]
        present = self._present(first.user)
        timeline = self._reader.timeline(first.user, first.subject, first.relation)
        facts = tuple(self._reader.describe(each, present, timeline) for each in timeline.holding(present))
        return Conflict(id=row.id, subject=first.subject, relation=first.relation, facts=facts, user=first.user)

    def _draft(self, subject: str, relation: str, object_: str, start: str, end: str, ends: bool = False) -> Draft:
        """A fact in canonical form."""
        _refuse_blank(subject=subject, relation=relation, **({} if ends else {"object": object_}))
        subject, relation, object_ = map(_clean, (subject, relation, object_))
        triplet = canonical_statement(subject, relation, object_)
        if triplet is None:
            raise BadData(
                f"'{subject} {relation} {object_}' says what no longer holds: say it as a fact with `valid_to`, or "
                "as an update without object."
            )
        times = self._instant(start), self._instant(end)
        if all(times) and times[1] <= times[0]:
            raise BadData(f"a fact that holds from {start} cannot end at {end}: give a later `valid_to`, or none.")
        return Draft(triplet.subject, self.table.name_of(triplet.relation), triplet.object, *times)

    def _instant(self, time: str) -> str:
        return read_instant(time, self._zone) if time else ""

    def _present(self, user: str) -> str:
        """The present, or the latest time at which the user said something, if that is later."""
        return max(now(), self._store.last_recorded(user), self._store.last_recorded(SHARED))

    def _view(self, user: str, at: str, known_at: str) -> View:
        return View(user, self._instant(at) or self._present(user), self._instant(known_at))


def _clean(text: str) -> str:
    return replace_surrogates(text).strip()


def _refuse_blank(**parts: Any) -> None:
    for name, text in parts.items():
        if not text.strip():
            raise BadData(f"the {name.replace('_', ' ')} of a fact is blank: name one.")
