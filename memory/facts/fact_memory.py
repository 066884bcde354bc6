"""Memory of facts: operations that change it, and queries about what holds when."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emend.memory.edit import content_id
from emend.memory.embeddings.embed import Embedding
from emend.memory.errors import BadData, BadSettings
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
from emend.memory.facts.instants import BEGINNING_OF_TIME, now, read_instant, read_zone, undated
from emend.memory.json_files import replace_surrogates
from emend.memory.relations.relation_table import RelationTable, canonical_statement

if TYPE_CHECKING:
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.tools import BaseTool

_UNKNOWN = Provenance()


class FactMemory:
    """Memory of facts with their validity periods, times of statement and full history.

    Safe to use from several threads and processes at once. Every change is one transaction. Times
    are ISO 8601 years, months, days or times, and stand for their start; queries are about the
    present unless `at` is given. A query about a user is answered from the user's own facts, and
    from those of `SHARED` where the user has none.

    Args:
        folder: folder of the file `facts.sqlite3`; None keeps everything in memory.
        table: the kinds of relations; the built-in table by default.
        embedding: makes searches rank by similarity too.
        time_zone: time zone of times without one.
        follows_clock: take the present from the clock. If False, the present is the time of the
            latest operation, and operations without a time are ordered as they were done, so that
            results do not depend on when the memory is used.

    Raises:
        BadData: the file was not written by Emend.
        BadSettings: the time zone is unknown.
        MemoryMismatch: the file was written by another version.
        MemoryUnavailable: the file cannot be opened; later calls raise it if another process does
            not release the file.
    """

    def __init__(
        self,
        folder: Path | str | None,
        table: RelationTable | None = None,
        embedding: Embedding | None = None,
        time_zone: str = "UTC",
        follows_clock: bool = True,
    ) -> None:
        self._follows_clock = follows_clock
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
        """Run all operations of this thread in one transaction, which is faster for many."""
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
        """State a fact; the kind of its relation decides about earlier facts (see `RelationTable`).

        Args:
            subject: what the fact is about.
            relation: in any wording; the canonical wording is stored.
            object: the value.
            valid_from: when the fact began to hold; by default the time of the statement.
            valid_to: when the fact ceases to hold.
            provenance: user, source and time of the statement.

        Raises:
            BadData: an argument is blank, a time is invalid, or the text says that something no
                longer holds.
        """
        draft = self._draft(subject, relation, object, valid_from, valid_to)
        return self._change(
            "remember", provenance, lambda action: self._writer.remember(draft, action)
        )

    def update(
        self,
        subject: str,
        relation: str,
        object: str,
        replaces: str = "",
        valid_from: str = "",
        provenance: Provenance = _UNKNOWN,
    ) -> Change:
        """State a fact that replaces another one or, with an empty object, ends it.

        Args:
            subject: what the fact is about.
            relation: in any wording.
            object: the new value; empty if nothing replaces the old one.
            replaces: the old value, or the id of its fact; needed if several facts hold.
            valid_from: when the change took place; by default the time of the statement.
            provenance: user, source and time of the statement.

        Raises:
            BadData: no fact that could be replaced holds, or several do.
        """
        draft = self._draft(subject, relation, object, valid_from, "", ends=not object.strip())
        return self._change(
            "update",
            provenance,
            lambda action: self._writer.update(draft, replaces.strip(), action),
        )

    def correct(
        self,
        fact_id: str,
        object: str,
        valid_from: str = "",
        valid_to: str = "",
        provenance: Provenance = _UNKNOWN,
    ) -> Change:
        """Replace a wrong fact with its correction; the wrong one then counts as never having held.

        Raises:
            BadData: the user has no such fact, or it was already corrected or retracted.
        """
        _refuse_blank(object=object)
        times = self._instant(valid_from), self._instant(valid_to)
        text = replace_surrogates(object).strip()
        return self._change(
            "correct", provenance, lambda action: self._writer.correct(fact_id, text, times, action)
        )

    def retract(self, id: str, provenance: Provenance = _UNKNOWN) -> Change:
        """Retract a fact or dependency, so that what it had replaced or corrected holds again.

        Raises:
            BadData: the user has no fact or dependency with that id.
        """
        return self._change("retract", provenance, lambda action: self._writer.retract(id, action))

    def resolve(
        self, conflict_id: str, keep: Sequence[str], provenance: Provenance = _UNKNOWN
    ) -> Change:
        """Resolve a conflict: keep the facts with the ids in `keep` and retract the others.

        Raises:
            BadData: the user has no such open conflict, or an id in `keep` does not belong to it.
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
        """State that a fact depends on a base fact.

        With a value, the fact is derived: it holds as long as the base fact has an object in
        `condition`. Without a value, the fact becomes unknown when the base fact changes, until it
        is stated again.

        Args:
            subject: what the dependent fact is about.
            relation: relation of the dependent fact.
            base: subject and relation of the base fact.
            condition: objects of the base fact; empty for any object.
            value: the derived object, in which `{object}` is replaced by the object of the base
                fact.
            provenance: user, source and time of the statement.

        Raises:
            BadData: the derived fact would depend on itself.
        """
        _refuse_blank(
            subject=subject, relation=relation, base_subject=base[0], base_relation=base[1]
        )

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

    def forget(
        self, id: str = "", subject: str = "", relation: str = "", provenance: Provenance = _UNKNOWN
    ) -> Change:
        """Erase a fact or dependency, or all facts of a subject or of one of its relations.

        The texts are overwritten in the file.

        Raises:
            BadData: the user has no fact or dependency with that id, or not exactly one of `id` and
                `subject` is given.
        """
        if bool(id) == bool(subject.strip()) or (id and relation):
            raise BadData(
                "say what to forget: the id of a fact or dependency, or a subject, or a subject "
                "and relation."
            )

        def erase(action: Action) -> list[str]:
            if id:
                return self._writer.forget(id, action)
            return self._writer.forget_about(
                _clean(subject), relation and self.table.name_of(relation), action
            )

        return self._change("forget", provenance, erase)

    def lookup(
        self, subject: str, relation: str, user: str = "", at: str = "", known_at: str = ""
    ) -> Lookup:
        """Look up one relation of a subject.

        The result has no fact, one, several (relation of kind "set"), or the sides of a dispute.

        Args:
            subject: what the facts are about.
            relation: in any wording.
            user: owner of the facts.
            at: the instant at which they hold.
            known_at: ignore everything that was stated later.
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

    def history(
        self, subject: str, relation: str, user: str = "", known_at: str = ""
    ) -> tuple[Fact, ...]:
        """Return all statements of one relation of a subject by their start, shared ones first."""
        facts: list[Fact] = []
        present, known = self._present(user), self._instant(known_at)
        for owner in dict.fromkeys((SHARED, user)):
            timeline = self._reader.timeline(
                owner, _clean(subject), self.table.name_of(relation), known
            )
            in_time = sorted(timeline.known, key=lambda each: (each.start, each.number))
            facts += [self._reader.describe(each, known or present, timeline) for each in in_time]
        return tuple(facts)

    def as_of(
        self, at: str, subject: str = "", user: str = "", known_at: str = ""
    ) -> tuple[Fact, ...]:
        """Return all facts that held at an instant, about one subject or about all."""
        view = self._view(user, at, known_at)
        places: dict[tuple[str, str], None] = {}
        for owner in dict.fromkeys((view.user, SHARED)):
            places |= self._reader.places(owner, _clean(subject))
        return tuple(fact for place in places for fact in self._reader.resolve(*place, view).facts)

    def search(
        self, query: str, k: int = 5, user: str = "", at: str = "", known_at: str = ""
    ) -> tuple[FactHit, ...]:
        """Return at most k facts that hold, best first.

        They are ranked by the words of the query and, with an embedding, by similarity too.

        Raises:
            BadSettings: k is below 1.
        """
        if k < 1:
            raise BadSettings(f"k is {k}: give the number of facts to find, at least 1.")
        return self._search.search(query, k, self._view(user, at, known_at))

    def conflicts(self, user: str = "") -> tuple[Conflict, ...]:
        """Return the unresolved conflicts, oldest first."""
        return tuple(map(self._conflict, self._store.open_conflicts(user)))

    def journal(self, after: int = 0) -> tuple[JournalEntry, ...]:
        """Return the operations of all users with a number above `after`, in order."""
        return tuple(self._store.journal(after))

    def count(self) -> int:
        """Return the number of stored statements, of all users and times."""
        return self._store.count()

    def as_tools(
        self, user: str = "", writes: bool = True, shared: bool = False
    ) -> "list[BaseTool]":
        """Return the operations as LangChain tools; see `emend.memory.tools.fact_tools`."""
        from emend.memory.tools import fact_tools

        return fact_tools(self, user, writes, shared)

    def as_retriever(self, user: str = "", k: int = 5) -> "BaseRetriever":
        """Return the search as a LangChain retriever; see `emend.memory.tools.FactRetriever`."""
        from emend.memory.tools import FactRetriever

        return FactRetriever(memory=self, user=user, k=k)

    def _change(
        self, operation: Operation, provenance: Provenance, run: Callable[[Action], list[str]]
    ) -> Change:
        """Run an operation in one transaction, unless it was done before."""
        user, id_ = provenance.user, provenance.operation_id or uuid.uuid4().hex
        with self._database.transaction():
            recorded_at = self._instant(provenance.recorded_at) or self._now()
            earlier = self._store.find_operation(user, id_)
            if earlier is None:
                number = self._store.add_operation(user, id_, operation, recorded_at)
                ids = run(
                    Action(number, id_, user, replace_surrogates(provenance.source), recorded_at)
                )
                self._store.finish_operation(number, ids)
            elif earlier.operation == operation:
                ids = list(earlier.ids)
            else:
                raise BadData(
                    f"operation '{id_}' was '{earlier.operation}', not '{operation}': give each "
                    "operation its own id."
                )
            return self._outcome(operation, user, id_, ids, earlier is not None)

    def _outcome(
        self, operation: Operation, user: str, id_: str, ids: Sequence[str], repeated: bool
    ) -> Change:
        present = self._present(user)
        statements = [
            each for id_ in ids if (each := self._store.find_statement(id_)) and not each.erased
        ]
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
        facts = tuple(
            self._reader.describe(each, present, timeline) for each in timeline.holding(present)
        )
        return Conflict(
            id=row.id, subject=first.subject, relation=first.relation, facts=facts, user=first.user
        )

    def _draft(
        self, subject: str, relation: str, object_: str, start: str, end: str, ends: bool = False
    ) -> Draft:
        """Return a fact in canonical form."""
        _refuse_blank(subject=subject, relation=relation, **({} if ends else {"object": object_}))
        subject, relation, object_ = map(_clean, (subject, relation, object_))
        triplet = canonical_statement(subject, relation, object_)
        if triplet is None:
            raise BadData(
                f"'{subject} {relation} {object_}' says what no longer holds: say it as a fact "
                "with `valid_to`, or as an update without object."
            )
        times = self._instant(start), self._instant(end)
        if all(times) and times[1] <= times[0]:
            raise BadData(
                f"a fact that holds from {start} cannot end at {end}: give a later "
                "`valid_to`, or none."
            )
        return Draft(triplet.subject, self.table.name_of(triplet.relation), triplet.object, *times)

    def _instant(self, time: str) -> str:
        return read_instant(time, self._zone) if time else ""

    def _now(self) -> str:
        return now() if self._follows_clock else undated(self._store.count_operations())

    def _present(self, user: str) -> str:
        """Return the present, or the time of the user's latest operation if that is later."""
        clock = now() if self._follows_clock else BEGINNING_OF_TIME
        return max(clock, self._store.last_recorded(user), self._store.last_recorded(SHARED))

    def _view(self, user: str, at: str, known_at: str) -> View:
        return View(user, self._instant(at) or self._present(user), self._instant(known_at))


def _clean(text: str) -> str:
    return replace_surrogates(text).strip()


def _refuse_blank(**parts: Any) -> None:
    for name, text in parts.items():
        if not text.strip():
            raise BadData(f"the {name.replace('_', ' ')} of a fact is blank: name one.")
