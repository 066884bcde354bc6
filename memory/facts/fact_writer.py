"""The statements and rules that an operation adds, ends or takes back; called inside its transaction."""

from collections.abc import Sequence
from typing import NamedTuple

from emend.memory.edit import content_id
from emend.memory.errors import BadData
from emend.memory.facts.dependency_store import DependencyStore
from emend.memory.facts.fact import Dependency
from emend.memory.facts.fact_reader import FactReader, Resolution, View
from emend.memory.facts.fact_store import FactStore, fact_key, owner_key
from emend.memory.facts.timeline import Statement, Timeline
from emend.memory.facts.word_index import WordIndex
from emend.memory.typography import fold_text


class Action(NamedTuple):
    """The operation that is being done: its number and id, the user and source, and when it was said."""

    number: int
    id: str
    user: str
    source: str
    recorded_at: str


class Draft(NamedTuple):
    """A fact to be stated, in canonical form, with the start and end that were said (empty if none)."""

    subject: str
    relation: str
    object: str
    start: str
    end: str


class FactWriter:
    """Adds to the store, and opens and closes conflicts.

    Args:
        store: the statements.
        dependencies: the rules.
        words: the index of texts.
        reader: tells what holds.
    """

    def __init__(self, store: FactStore, dependencies: DependencyStore, words: WordIndex, reader: FactReader) -> None:
        self._store = store
        self._dependencies = dependencies
        self._words = words
        self._reader = reader

    def remember(self, draft: Draft, action: Action) -> list[str]:
        """State a fact and return its id; one that is known already is not stated again.

        One that was known without the end that is said now takes that end.
        """
        start = _start(draft, action)
        timeline = self._reader.timeline(action.user, draft.subject, draft.relation)
        valid = {fact.id for fact in self._resolve(draft, View(action.user, start)).facts}
        for each in timeline.holding(start):
            same = fold_text(each.object) == fold_text(draft.object) and each.end == draft.end
            if same and draft.start in ("", each.start) and each.id in valid:
                return [each.id]
        ended = _ended_by(draft, timeline)
        start = min((each.start for each in ended), default=start)
        statement = self._add(draft._replace(start=start), action, replaces=[each.number for each in ended])
        if timeline.kind == "undecided":
            self._open_conflict(statement, action)
        return [statement.id]

    def update(self, draft: Draft, replaced: str, action: Action) -> list[str]:
        """State a fact that takes the place of others, or that they hold no longer, and return the ids of all.

        Args:
            draft: the fact; without object nothing takes their place.
            replaced: object or id of the fact that ends; empty if there is only one that can be meant.
            action: the operation.

        Raises:
            BadData: no such fact holds, or it does not say which of several.
        """
        start = _start(draft, action)
        timeline = self._reader.timeline(action.user, draft.subject, draft.relation)
        holding = timeline.holding(start)
        targets = [
            each for each in holding if replaced in ("", each.id) or fold_text(replaced) == fold_text(each.object)
        ]
        if not targets and (replaced or not draft.object) and (timeline.kind != "functional" or not draft.object):
            raise BadData(f"{_name(draft)}: {_held(holding)}, so that nothing can be replaced or end: use `remember`.")
        if timeline.kind == "set" and len(targets) > 1:
            raise BadData(f"{_name(draft)}: {_held(holding)}: say which of them is replaced.")
        objects = {fold_text(each.object) for each in targets}
        numbers = [each.number for each in timeline.standing(start) if fold_text(each.object) in objects]
        statement = self._add(draft._replace(start=start), action, replaces=numbers)
        if timeline.kind == "undecided":
            self.close_conflicts(statement, action)
        return [statement.id, *(each.id for each in targets)]

    def correct(self, fact_id: str, object_: str, times: tuple[str, str], action: Action) -> list[str]:
        """State what should have been said in place of a fact, and return the ids of both.

        Raises:
            BadData: the user has no such fact, or it was corrected or taken back.
        """
        wrong = self.find_own(fact_id, action.user)
        timeline = self._reader.timeline(action.user, wrong.subject, wrong.relation)
        if wrong not in timeline.live:
            state = "corrected" if timeline.is_corrected(wrong) else "taken back"
            raise BadData(
                f"fact '{fact_id}' was {state} already: correct one of those that `history` shows as current."
            )
        start, end = times
        draft = Draft(wrong.subject, wrong.relation, object_, start or wrong.start, end or wrong.end)
        statement = self._add(draft, action, corrects=wrong.number, replaces=wrong.replaces)
        return [statement.id, wrong.id]

    def retract(self, id_: str, action: Action) -> list[str]:
        """Take back a fact or a rule: what it had replaced or corrected holds again.

        Raises:
            BadData: the user has none of that id.
        """
        rule = self._dependencies.find(id_)
        if rule and rule.dependency.user == action.user:
            self._dependencies.retract(rule.number, action.recorded_at)
            return [id_]
        statement = self.find_own(id_, action.user)
        if not statement.retracted_at:
            self._store.retract(statement.number, action.recorded_at)
            self.close_conflicts(statement, action)
        return [id_]

    def resolve(self, conflict_id: str, keep: Sequence[str], at: str, action: Action) -> list[str]:
        """Decide a conflict: the facts to keep stand, the others are taken back; return the ids of all.

        Raises:
            BadData: the user has no such open conflict, or a fact to keep is not one of its facts.
        """
        row = self._store.find_conflict(conflict_id)
        if row is None or row.resolved_at or row.owner != owner_key(action.user):
            raise BadData(f"no open conflict '{conflict_id}': take one that `conflicts` shows.")
        statements = self._store.statements(row.key)
        timeline = self._reader.timeline(action.user, statements[0].subject, statements[0].relation)
        holding = timeline.holding(at)
        if unknown := set(keep) - {each.id for each in holding}:
            raise BadData(f"'{min(unknown)}' is no fact of this conflict: keep {_ids(holding)}.")
        rejected = {fold_text(each.object) for each in holding if each.id not in keep}
        for each in timeline.standing(at):
            if fold_text(each.object) in rejected:
                self._store.retract(each.number, action.recorded_at)
        self._store.resolve_conflict(conflict_id, action.recorded_at)
        return [each.id for each in holding]

    def depend(self, dependency: Dependency) -> list[str]:
        """State a rule and return its id.

        Raises:
            BadData: a fact would follow from itself.
        """
        number = self._dependencies.add(dependency)
        self._words.add(number, dependency.user, rule_text(dependency))
        return [dependency.id]

    def find_own(self, id_: str, user: str) -> Statement:
        """The statement of that id, which must be the user's.

        Raises:
            BadData: the user has none.
        """
        statement = self._store.find_statement(id_)
        if statement is None or statement.erased or statement.user != user:
            raise BadData(f"no fact '{id_}' of this user: take an id that `history` or `search` shows.")
        return statement

    def close_conflicts(self, statement: Statement, action: Action) -> None:
        """Close the conflicts of which a change has left at most one side."""
        key = _key(statement)
        timeline = self._reader.timeline(statement.user, statement.subject, statement.relation)
        if len(timeline.holding(max(statement.start, action.recorded_at))) <= 1:
            for row in self._store.conflicts(key):
                if not row.resolved_at:
                    self._store.resolve_conflict(row.id, action.recorded_at)

    def _resolve(self, draft: Draft, view: View) -> Resolution:
        return self._reader.resolve(draft.subject, draft.relation, view)

    def _add(self, draft: Draft, action: Action, corrects: int = 0, replaces: Sequence[int] = ()) -> Statement:
        statement = Statement(
            number=0,
            id=content_id("statement", action.user, action.id),
            subject=draft.subject,
            relation=draft.relation,
            object=draft.object,
            user=action.user,
            source=action.source,
            start=draft.start,
            end=draft.end,
            recorded_at=action.recorded_at,
            retracted_at="",
            corrects=corrects,
            replaces=tuple(replaces),
            operation=action.number,
            erased=0,
        )
        number = self._store.add_statement(statement)
        self._words.add(number, action.user, statement_text(statement))
        return statement._replace(number=number)

    def _open_conflict(self, statement: Statement, action: Action) -> None:
        """Queue a question if the statement contradicts another one and none is queued yet."""
        key = _key(statement)
        timeline = self._reader.timeline(statement.user, statement.subject, statement.relation)
        is_open = any(not row.resolved_at for row in self._store.conflicts(key))
        if len(timeline.holding(max(statement.start, action.recorded_at))) > 1 and not is_open:
            self._store.add_conflict(
                content_id("conflict", action.user, action.id), key, action.user, action.recorded_at
            )


def statement_text(statement: Statement) -> str:
    """The text by which a statement is found."""
    return f"{statement.subject} {statement.relation} {statement.object}"


def rule_text(dependency: Dependency) -> str:
    """The text by which a rule is found: what it derives."""
    return f"{dependency.subject} {dependency.relation} {dependency.value or ''}"


def _start(draft: Draft, action: Action) -> str:
    """The start of a fact: as it was said, or when; unknown if the fact had ended by then."""
    if draft.start:
        return draft.start
    return "" if draft.end and draft.end <= action.recorded_at else action.recorded_at


def _ended_by(draft: Draft, timeline: Timeline) -> list[Statement]:
    """The statements of the same fact that are open at an end which is said without a start."""
    if not draft.end or draft.start:
        return []
    return [
        each
        for each in timeline.live
        if fold_text(each.object) == fold_text(draft.object)
        and each.start < draft.end
        and not (each.end and each.end <= draft.end)
    ]


def _key(statement: Statement) -> str:
    return fact_key(statement.user, statement.subject, statement.relation)


def _name(draft: Draft) -> str:
    return f"'{draft.relation}' of '{draft.subject}'"


def _held(statements: Sequence[Statement]) -> str:
    objects = ", ".join(f"'{each.object}'" for each in statements)
    return f"{objects} hold{'s' * (len(statements) == 1)}" if statements else "nothing holds"


def _ids(statements: Sequence[Statement]) -> str:
    return ", ".join(f"'{each.id}' ({each.object})" for each in statements)
