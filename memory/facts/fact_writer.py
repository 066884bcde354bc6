"""Changes to the stored statements and rules, each inside the transaction of its operation."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from emend.memory.edit import content_id
from emend.memory.errors import BadData
from emend.memory.facts.fact import Dependency, fact_key, owner_key
from emend.memory.facts.fact_reader import FactReader, View
from emend.memory.facts.fact_store import FactStore, Rule
from emend.memory.facts.timeline import Statement, Timeline
from emend.memory.typography import fold_text


class Action(NamedTuple):
    """The current operation: its number, id, user and source, and the time of the statement."""

    number: int
    id: str
    user: str
    source: str
    recorded_at: str


class Draft(NamedTuple):
    """A fact to state, in canonical form; start and end are empty if they were not given."""

    subject: str
    relation: str
    object: str
    start: str
    end: str


@dataclass(frozen=True)
class FactWriter:
    """Writer that adds and erases statements and rules, and opens and closes conflicts.

    Erased texts are overwritten in the file and removed from the word index.

    Attributes:
        reader: resolves the facts that hold.
    """

    reader: FactReader

    @property
    def _store(self) -> FactStore:
        return self.reader.store

    def remember(self, draft: Draft, action: Action) -> list[str]:
        """State a fact and return its id; a fact that already holds is not stated again.

        If an end is given without a start, statements of the same fact that are open then end
        there.
        """
        start = _start(draft, action)
        timeline = self.reader.timeline(action.user, draft.subject, draft.relation)
        resolution = self.reader.resolve(draft.subject, draft.relation, View(action.user, start))
        valid = {fact.id for fact in resolution.facts}
        for each in timeline.holding(start):
            same = fold_text(each.object) == fold_text(draft.object) and each.end == draft.end
            if same and draft.start in ("", each.start) and each.id in valid:
                return [each.id]
        ended = _ended_by(draft, timeline)
        start = min((each.start for each in ended), default=start)
        statement = self._add(
            draft._replace(start=start), action, replaces=[each.number for each in ended]
        )
        if timeline.kind == "undecided":
            self._open_conflict(statement, action)
        return [statement.id]

    def update(self, draft: Draft, replaced: str, action: Action) -> list[str]:
        """State a fact that replaces others, or that they have ended, and return the ids of all.

        Args:
            draft: the fact; an empty object ends the others without a replacement.
            replaced: object or id of the fact that ends; may be empty if only one fact holds.
            action: the operation.

        Raises:
            BadData: no such fact holds, or several do and `replaced` does not tell which is meant.
        """
        start = _start(draft, action)
        timeline = self.reader.timeline(action.user, draft.subject, draft.relation)
        holding = timeline.holding(start)
        targets = [
            each
            for each in holding
            if replaced in ("", each.id) or fold_text(replaced) == fold_text(each.object)
        ]
        if (
            not targets
            and (replaced or not draft.object)
            and (timeline.kind != "functional" or not draft.object)
        ):
            raise BadData(
                f"{_name(draft)}: {_held(holding)}, so that nothing can be replaced or "
                "end: use `remember`."
            )
        if timeline.kind == "set" and len(targets) > 1:
            raise BadData(f"{_name(draft)}: {_held(holding)}: say which of them is replaced.")
        objects = {fold_text(each.object) for each in targets}
        numbers = [
            each.number for each in timeline.standing(start) if fold_text(each.object) in objects
        ]
        statement = self._add(draft._replace(start=start), action, replaces=numbers)
        if timeline.kind == "undecided":
            self.close_conflicts(statement, action)
        return [statement.id, *(each.id for each in targets)]

    def correct(
        self, fact_id: str, object_: str, times: tuple[str, str], action: Action
    ) -> list[str]:
        """State the corrected version of a fact and return the ids of both.

        Raises:
            BadData: the user has no such fact, or it was already corrected or retracted.
        """
        wrong = self.find_own(fact_id, action.user)
        timeline = self.reader.timeline(action.user, wrong.subject, wrong.relation)
        if wrong not in timeline.live:
            state = "corrected" if timeline.is_corrected(wrong) else "taken back"
            raise BadData(
                f"fact '{fact_id}' was {state} already: correct one of those that `history` shows "
                "as current."
            )
        start, end = times
        draft = Draft(
            wrong.subject, wrong.relation, object_, start or wrong.start, end or wrong.end
        )
        statement = self._add(draft, action, corrects=wrong.number, replaces=wrong.replaces)
        return [statement.id, wrong.id]

    def retract(self, id_: str, action: Action) -> list[str]:
        """Retract a fact or rule, so that what it had replaced or corrected holds again.

        Raises:
            BadData: the user has no fact or rule with that id.
        """
        rule = self._store.find_rule(id_)
        if rule and rule.dependency.user == action.user:
            self._store.retract("dependencies", rule.number, action.recorded_at)
            return [id_]
        statement = self.find_own(id_, action.user)
        if not statement.retracted_at:
            self._store.retract("statements", statement.number, action.recorded_at)
            self.close_conflicts(statement, action)
        return [id_]

    def resolve(self, conflict_id: str, keep: Sequence[str], at: str, action: Action) -> list[str]:
        """Resolve a conflict by retracting all but the facts to keep, and return the ids of all.

        Raises:
            BadData: the user has no such open conflict, or a fact to keep does not belong to it.
        """
        row = self._store.find_conflict(conflict_id)
        if row is None or row.resolved_at or row.owner != owner_key(action.user):
            raise BadData(f"no open conflict '{conflict_id}': take one that `conflicts` shows.")
        statements = self._store.statements(row.key)
        timeline = self.reader.timeline(action.user, statements[0].subject, statements[0].relation)
        holding = timeline.holding(at)
        if unknown := set(keep) - {each.id for each in holding}:
            raise BadData(f"'{min(unknown)}' is not a fact of this conflict: keep {_ids(holding)}.")
        rejected = {fold_text(each.object) for each in holding if each.id not in keep}
        for each in timeline.standing(at):
            if fold_text(each.object) in rejected:
                self._store.retract("statements", each.number, action.recorded_at)
        self._store.resolve_conflict(conflict_id, action.recorded_at)
        return [each.id for each in holding]

    def depend(self, dependency: Dependency) -> list[str]:
        """State a rule and return its id.

        Raises:
            BadData: the derived fact would depend on itself.
        """
        self._store.add_rule(dependency)
        return [dependency.id]

    def forget(self, id_: str, action: Action) -> list[str]:
        """Erase a rule, or a fact with all statements of its object, and return their ids.

        What the fact had replaced does not hold again: the fact's period stays without a value.

        Raises:
            BadData: the user has no fact or rule with that id.
        """
        rule = self._store.find_rule(id_)
        if rule and rule.dependency.user == action.user:
            return self._drop_rules([rule])
        chosen = self.find_own(id_, action.user)
        statements = self._store.statements(chosen.key)
        same = [each for each in statements if fold_text(each.object) == fold_text(chosen.object)]
        if all(each in same or each.erased for each in statements):
            return self._drop_statements(statements)
        for each in same:
            self._store.erase(each, action.number)
        self.close_conflicts(chosen, action)
        return [each.id for each in same]

    def forget_about(self, subject: str, relation: str, action: Action) -> list[str]:
        """Erase a user's statements and rules about a subject or one of its relations.

        Returns their ids. Without a relation, facts of other subjects that have the subject as
        their object are erased too, since "who is the mayor of Oslo" is stated about Oslo; what
        they had replaced does not hold again.
        """
        if relation:
            key = fact_key(action.user, subject, relation)
            statements, rules = self._store.statements(key), self._store.rules(key)
        else:
            statements = self._store.statements_about(action.user, subject)
            rules = self._store.rules_about(action.user, subject)
        ids = [*self._drop_statements(statements), *self._drop_rules(rules)]
        return ids if relation else [*ids, *self._forget_named(subject, action)]

    def _forget_named(self, name: str, action: Action) -> list[str]:
        ids: list[str] = []
        for number in self._store.words.find_whole(name, action.user):
            for each in self._store.numbered([number]):
                if not each.erased and fold_text(each.object) == fold_text(name):
                    ids += self.forget(each.id, action)
        return ids

    def _drop_statements(self, statements: Sequence[Statement]) -> list[str]:
        for each in statements:
            if not each.erased:
                self._store.drop_conflicts(each.key)
            self._store.drop("statements", each.number, each)
        return [each.id for each in statements]

    def _drop_rules(self, rules: Sequence[Rule]) -> list[str]:
        for rule in rules:
            self._store.drop("dependencies", rule.number, rule.dependency)
        return [rule.dependency.id for rule in rules]

    def find_own(self, id_: str, user: str) -> Statement:
        """Return the user's statement with that id.

        Raises:
            BadData: the user has no such statement, or it was erased.
        """
        statement = self._store.find_statement(id_)
        if statement is None or statement.erased or statement.user != user:
            raise BadData(
                f"no fact '{id_}' of this user: take an id that `history` or `search` shows."
            )
        return statement

    def close_conflicts(self, statement: Statement, action: Action) -> None:
        """Close the conflicts about a statement's fact if at most one side is left."""
        timeline = self.reader.timeline(statement.user, statement.subject, statement.relation)
        if len(timeline.holding(max(statement.start, action.recorded_at))) <= 1:
            for row in self._store.conflicts(statement.key):
                if not row.resolved_at:
                    self._store.resolve_conflict(row.id, action.recorded_at)

    def _add(
        self, draft: Draft, action: Action, corrects: int = 0, replaces: Sequence[int] = ()
    ) -> Statement:
        statement = Statement(
            **draft._asdict(),
            id=content_id("statement", action.user, action.id),
            user=action.user,
            source=action.source,
            recorded_at=action.recorded_at,
            operation=action.number,
            corrects=corrects,
            replaces=tuple(replaces),
        )
        return self._store.add_statement(statement)

    def _open_conflict(self, statement: Statement, action: Action) -> None:
        """Open a conflict if the statement contradicts another one and no conflict is open yet."""
        key = statement.key
        timeline = self.reader.timeline(statement.user, statement.subject, statement.relation)
        is_open = any(not row.resolved_at for row in self._store.conflicts(key))
        if len(timeline.holding(max(statement.start, action.recorded_at))) > 1 and not is_open:
            self._store.add_conflict(
                content_id("conflict", action.user, action.id), key, action.user, action.recorded_at
            )


def _start(draft: Draft, action: Action) -> str:
    """Return the start of a fact, by default the time of the statement.

    It is empty (unknown) if the fact had already ended by then.
    """
    if draft.start:
        return draft.start
    return "" if draft.end and draft.end <= action.recorded_at else action.recorded_at


def _ended_by(draft: Draft, timeline: Timeline) -> list[Statement]:
    """Return the open statements of the same fact, if an end is given without a start."""
    if not draft.end or draft.start:
        return []
    return [
        each
        for each in timeline.live
        if fold_text(each.object) == fold_text(draft.object)
        and each.start < draft.end
        and not (each.end and each.end <= draft.end)
    ]


def _name(draft: Draft) -> str:
    return f"'{draft.relation}' of '{draft.subject}'"


def _held(statements: Sequence[Statement]) -> str:
    objects = ", ".join(f"'{each.object}'" for each in statements)
    return f"{objects} hold{'s' * (len(statements) == 1)}" if statements else "nothing holds"


def _ids(statements: Sequence[Statement]) -> str:
    return ", ".join(f"'{each.id}' ({each.object})" for each in statements)
