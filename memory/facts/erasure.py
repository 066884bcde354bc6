"""Forgetting: what is forgotten is overwritten in the file, and found by no word."""

from collections.abc import Iterable

from emend.memory.facts.dependency_store import DependencyStore, Rule
from emend.memory.facts.fact_store import FactStore, fact_key
from emend.memory.facts.fact_writer import Action, FactWriter, rule_text, statement_text
from emend.memory.facts.timeline import Statement
from emend.memory.facts.word_index import WordIndex
from emend.memory.store.superseding import fact_id
from emend.memory.typography import fold_text


class Erasure:
    """Erases statements and rules; called inside an operation's transaction.

    Args:
        store: the statements.
        dependencies: the rules.
        words: the index of texts.
        writer: finds a user's own statements.
    """

    def __init__(self, store: FactStore, dependencies: DependencyStore, words: WordIndex, writer: FactWriter) -> None:
        self._store = store
        self._dependencies = dependencies
        self._words = words
        self._writer = writer

    def forget(self, id_: str, action: Action) -> list[str]:
        """Erase a rule, or a fact with all statements of its object, and return their ids.

        What the fact had replaced does not hold again: its place in time stays empty.

        Raises:
            BadData: the user has none of that id.
        """
        rule = self._dependencies.find(id_)
        if rule and rule.dependency.user == action.user:
            return self._drop_rules([rule])
        chosen = self._writer.find_own(id_, action.user)
        key = fact_key(chosen.user, chosen.subject, chosen.relation)
        statements = self._store.statements(key)
        same = [each for each in statements if fold_text(each.object) == fold_text(chosen.object)]
        if all(each in same or each.erased for each in statements):
            return self._drop_statements(statements)
        for each in same:
            self._words.remove(each.number, each.user, statement_text(each))
            self._store.erase(each.number, action.number)
        self._writer.close_conflicts(chosen, action)
        return [each.id for each in same]

    def forget_about(self, subject: str, relation: str, action: Action) -> list[str]:
        """Erase all that a user said of a subject, or of one relation of it, with the rules; return their ids.

        Facts of others that name the subject as their object go too, since who is the mayor of a place is stated about
        the place; what they had replaced does not hold again.
        """
        key = fact_key(action.user, subject, relation)
        rules = self._dependencies.rules_about(action.user, subject)
        if relation:
            fact = fact_id(subject, relation)
            rules = [rule for rule in rules if _fact(rule) == fact]
            statements = self._store.statements(key)
        else:
            statements = self._store.statements_about(action.user, subject)
        ids = [*self._drop_statements(statements), *self._drop_rules(rules)]
        return ids if relation else [*ids, *self._forget_named(subject, action)]

    def _forget_named(self, name: str, action: Action) -> list[str]:
        ids: list[str] = []
        for number in self._words.find_whole(name, action.user):
            for each in self._store.numbered([number]):
                if not each.erased and fold_text(each.object) == fold_text(name):
                    ids += self.forget(each.id, action)
        return ids

    def _drop_statements(self, statements: Iterable[Statement]) -> list[str]:
        ids = []
        for each in statements:
            if not each.erased:
                self._words.remove(each.number, each.user, statement_text(each))
                self._store.drop_conflicts(fact_key(each.user, each.subject, each.relation))
            self._store.drop(each.number)
            ids.append(each.id)
        return ids

    def _drop_rules(self, rules: Iterable[Rule]) -> list[str]:
        ids = []
        for rule in rules:
            self._words.remove(rule.number, rule.dependency.user, rule_text(rule.dependency))
            self._dependencies.drop(rule.number)
            ids.append(rule.dependency.id)
        return ids


def _fact(rule: Rule) -> str:
    return fact_id(rule.dependency.subject, rule.dependency.relation)
