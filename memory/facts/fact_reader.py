"""Answers from the stored statements and rules.

Each answer is about one instant (`at`), given what was known at another (`known_at`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from emend.memory.edit import content_id
from emend.memory.facts.fact import SHARED, Dependency, Fact, FactStatus, fact_key
from emend.memory.facts.fact_store import FactStore, Rule
from emend.memory.facts.timeline import Statement, Timeline
from emend.memory.relations.relation_table import RelationTable
from emend.memory.store.superseding import fact_id
from emend.memory.typography import fold_text

# Fields that a fact copies from its statement.
SAME_FIELDS = ("id", "subject", "relation", "object", "user", "recorded_at", "source")
ENDED = "it is said to hold no longer"


class Resolution(NamedTuple):
    """The knowledge about one relation of a subject.

    Attributes:
        facts: the facts that hold.
        disputed: whether the facts contradict each other and the conflict is unresolved.
        decided: whether anything was stated, including that nothing holds.
        reason: why no fact is known.
        place: start and number of the latest fact, by which statements and derived facts are
            ordered.
    """

    facts: tuple[Fact, ...] = ()
    disputed: bool = False
    decided: bool = False
    reason: str = ""
    place: tuple[str, int] = ("", 0)


@dataclass(frozen=True)
class View:
    """The viewpoint of a question: a user, an instant, and a time of knowledge (empty: now).

    `resolutions` caches the resolved facts of one question, since chains of dependencies ask for
    the same facts repeatedly.
    """

    user: str
    at: str
    known_at: str = ""
    resolutions: dict[tuple[str, str, str], Resolution] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class FactReader:
    """Resolver of facts from their timelines and dependencies.

    Attributes:
        store: the statements and rules.
        table: the kinds of relations.
    """

    store: FactStore
    table: RelationTable

    def resolve(self, subject: str, relation: str, view: View) -> Resolution:
        """Return the user's facts that hold or, if nothing is stated for the user, the shared ones.

        For a relation of kind "set", both are returned.
        """
        key = (fact_id(subject, relation), view.user, view.at)
        if key not in view.resolutions:
            view.resolutions[key] = self._resolve(subject, relation, view)
        return view.resolutions[key]

    def timeline(self, user: str, subject: str, relation: str, known_at: str = "") -> Timeline:
        """Return the timeline of one relation of a user's subject."""
        statements = self.store.statements(fact_key(user, subject, relation))
        return Timeline(statements, self.table.kind_of(relation), known_at)

    def describe(
        self,
        statement: Statement,
        at: str,
        timeline: Timeline | None = None,
        status: FactStatus | None = None,
    ) -> Fact:
        """Return a statement as a fact, with its end and its status at an instant.

        `timeline` and `status` are computed unless they are given.
        """
        if timeline is None:
            timeline = self.timeline(statement.user, statement.subject, statement.relation)
        corrected = self.store.numbered([statement.corrects]) if statement.corrects else []
        return Fact(
            **{name: getattr(statement, name) for name in SAME_FIELDS},
            valid_from=statement.start or None,
            valid_to=timeline.end_of(statement) or None,
            status=status or self._status(statement, at, timeline),
            corrects=corrected[0].id if corrected else "",
        )

    def places(self, user: str, subject: str) -> dict[tuple[str, str], None]:
        """Return the stated subject-relation pairs of a user, in order.

        They are limited to `subject` unless it is empty.
        """
        if subject:
            statements = self.store.statements_about(user, subject)
            rules = self.store.rules_about(user, subject)
        else:
            statements, rules = self.store.statements_of(user), self.store.rules_of(user)
        places = dict.fromkeys(
            (each.subject, each.relation) for each in statements if not each.erased
        )
        return places | dict.fromkeys(
            (rule.dependency.subject, rule.dependency.relation) for rule in rules
        )

    def is_disputed(self, key: str, holding: Sequence[Statement], view: View) -> bool:
        """Return whether several objects hold and a conflict about them is open."""
        conflicts = self.store.conflicts(key) if len(holding) > 1 else ()
        known = view.known_at
        return any(
            (not known or row.opened_at <= known)
            and (not row.resolved_at or bool(known and known < row.resolved_at))
            for row in conflicts
        )

    def _resolve(self, subject: str, relation: str, view: View) -> Resolution:
        personal = self._resolve_scope(view.user, subject, relation, view)
        if view.user == SHARED or (personal.decided and self.table.kind_of(relation) != "set"):
            return personal
        shared = self._resolve_scope(SHARED, subject, relation, view)
        if not personal.decided:
            return shared
        objects = {fold_text(fact.object) for fact in personal.facts}
        facts = (
            *personal.facts,
            *(fact for fact in shared.facts if fold_text(fact.object) not in objects),
        )
        return personal._replace(facts=facts, disputed=personal.disputed or shared.disputed)

    def _status(self, statement: Statement, at: str, timeline: Timeline) -> FactStatus:
        if statement.erased:
            return "forgotten"
        if timeline.is_retracted(statement):
            return "retracted"
        if timeline.is_corrected(statement):
            return "corrected"
        if statement.start > at:
            return "future"
        end = timeline.end_of(statement)
        if end and end <= at:
            return "past"
        disputed = self.is_disputed(statement.key, timeline.holding(at), View(statement.user, at))
        return "disputed" if disputed else "current"

    def _resolve_scope(self, user: str, subject: str, relation: str, view: View) -> Resolution:
        """Resolve a fact from the statements and rules of one user."""
        timeline = self.timeline(user, subject, relation, view.known_at)
        key = fact_key(user, subject, relation)
        holding = timeline.holding(view.at)
        place = max(((each.start, each.number) for each in holding), default=("", 0))
        rules = [rule for rule in self.store.rules(key) if _is_known(rule, view.known_at)]
        if rules:
            reason = self._outdated(holding[-1], rules, view) if holding else ""
            derived = self._derive(rules, view)
            if derived and (not holding or reason or derived.place > place):
                return derived
            if reason or not holding:
                return Resolution(decided=True, reason=reason or _missing(rules))
        disputed = self.is_disputed(key, holding, view)
        status: FactStatus = "disputed" if disputed else "current"
        facts = (self.describe(each, view.at, timeline, status) for each in holding)
        decided = timeline.decides(view.at)
        return Resolution(
            tuple(facts), disputed, decided, "" if holding or not decided else ENDED, place
        )

    def _outdated(self, statement: Statement, rules: Sequence[Rule], view: View) -> str:
        """Return why a statement is outdated (a fact it depends on has changed since), or ""."""
        for rule in rules:
            before = self._base(rule, replace(view, at=statement.start))
            if before.facts and _objects(before) != _objects(self._base(rule, view)):
                return f"it depends on {_base_name(rule)}, which has changed since"
        return ""

    def _derive(self, rules: Sequence[Rule], view: View) -> Resolution | None:
        """Return the fact derived by the latest rule whose condition holds, or None."""
        for rule in reversed(rules):
            base = self._base(rule, view) if rule.dependency.value is not None else Resolution()
            conditions = {fold_text(each) for each in rule.dependency.condition}
            fitting = [
                fact
                for fact in base.facts
                if not conditions or fold_text(fact.object) in conditions
            ]
            if fitting and not base.disputed:
                place = max(base.place, (rule.dependency.recorded_at, rule.number))
                return Resolution(
                    (_derived_fact(rule.dependency, fitting[-1]),), decided=True, place=place
                )
        return None

    def _base(self, rule: Rule, view: View) -> Resolution:
        return self.resolve(rule.dependency.base_subject, rule.dependency.base_relation, view)


def _is_known(rule: Rule, known_at: str) -> bool:
    if not known_at:
        return not rule.retracted_at
    return rule.dependency.recorded_at <= known_at and not (
        rule.retracted_at and rule.retracted_at <= known_at
    )


def _derived_fact(dependency: Dependency, cause: Fact) -> Fact:
    return Fact(
        id=content_id("derived", dependency.id, cause.id),
        subject=dependency.subject,
        relation=dependency.relation,
        object=(dependency.value or "").replace("{object}", cause.object),
        user=dependency.user,
        valid_from=cause.valid_from,
        valid_to=cause.valid_to,
        recorded_at=max(cause.recorded_at, dependency.recorded_at),
        source=dependency.source,
        status="derived",
        derived_from=(dependency.id, cause.id),
    )


def _objects(resolution: Resolution) -> set[str]:
    return {fold_text(fact.object) for fact in resolution.facts}


def _base_name(rule: Rule) -> str:
    return f"'{rule.dependency.base_relation}' of '{rule.dependency.base_subject}'"


def _missing(rules: Sequence[Rule]) -> str:
    return f"it depends on {_base_name(rules[-1])}, from which it does not follow now"
