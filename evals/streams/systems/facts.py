"""Emend's memory of facts as a memory system.

It is written by an extractor, by an exact parser of generated sentences, or by an agent with tools.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import Field

from emend.agents.roles.tools import can_call_tools
from emend.agents.tiny.world import relations
from emend.editors.answerers import graph_answerer
from emend.editors.hyperparameters import NoSettings, build_settings
from emend.editors.memory_based.fact_agent import FactAgent
from emend.evals.streams.gold import StateFact
from emend.evals.streams.question_probe import question_probe
from emend.evals.streams.sentences.wordings import (
    DERIVED,
    UNKNOWN,
    QuestionTarget,
    read_question,
    read_turn,
    split_phrase,
    state,
)
from emend.evals.streams.system import ContextItem, StoreSize, SystemContext, item_of
from emend.evals.streams.systems.memory import claims_reader
from emend.evals.streams.turn import FactClaim, StreamQuestion, StreamRule, Turn
from emend.graphs.agent import ROUNDS, ROUNDS_LIMIT
from emend.graphs.registry import GRAPHS
from emend.memory.errors import BadSettings
from emend.memory.facts.fact import Fact, Provenance
from emend.memory.facts.fact_memory import FactMemory
from emend.memory.probe import Answer, Step, Usage
from emend.memory.relations.relation_table import RelationTable

# Prefix of a derived object that has to be looked up, such as "the capital of X".
REFERENCE = "the "
MAX_DEPTH = 8
MANY = 50
# A date later than all turns.
PRESENT = "9999"


@dataclass(frozen=True)
class FactsSettings:
    """Settings of the memory of facts.

    Attributes:
        extractor: extracts facts from turns: `rules` uses rules for English, `llm` the model under
            test.
        k: maximum number of facts that a search recalls, before the budget.
    """

    extractor: Literal["rules", "llm"] = "rules"
    k: Annotated[int, Field(ge=1)] = 20


# Reads the statements of a turn: facts, retractions and rules.
ReadStatements = Callable[[Turn], Sequence[FactClaim | StreamRule]]


def _one_object_each(table: RelationTable) -> RelationTable:
    """Return the table with all relations functional, since newer facts replace older ones."""
    return replace(table, kinds=dict.fromkeys(table.kinds, "functional"))


def nouns_of_streams(table: RelationTable) -> dict[str, str]:
    """Return the nouns of relations in generated streams, by their names in the memory."""
    nouns = (*(each.noun for each in relations().values()), *DERIVED)
    return {table.name_of(noun): noun for noun in nouns}


class _Value(NamedTuple):
    """The object of a looked-up fact, and the date since which it holds."""

    object: str
    since: str


class Facts:
    """Emend's memory of facts, written by an extractor and searched with the words of the question.

    Documents are ignored.
    """

    persistent: ClassVar[bool] = True
    k = FactsSettings.k

    def __init__(self, context: SystemContext) -> None:
        self._read = self._reader(context)
        self._folder = context.folder
        self.memory = FactMemory(context.folder, _one_object_each(RelationTable.load()))
        self._users: set[str] = set()
        self._nouns = nouns_of_streams(self.memory.table)

    def _reader(self, context: SystemContext) -> ReadStatements:
        """Return the function that reads a turn, by the settings."""
        settings: FactsSettings = build_settings(FactsSettings, context.settings, "facts")
        self.k = settings.k
        return claims_reader(settings.extractor, context.model)

    def observe(self, turn: Turn) -> None:
        """Apply the statements of the turn to the memory; documents are ignored."""
        self._users.add(turn.user)
        if turn.role == "document":
            return
        for number, each in enumerate(self._read(turn)):
            provenance = Provenance(
                user=turn.user,
                source=turn.id,
                recorded_at=turn.date,
                operation_id=f"{turn.id}-{number}",
            )
            self._nouns.setdefault(self.memory.table.name_of(each.relation), each.relation)
            if isinstance(each, StreamRule):
                self._depend(each, provenance)
            elif each.object is None:
                self._forget(each.subject, each.relation, provenance)
            else:
                self._remember(each, each.object, provenance)

    def _remember(self, claim: FactClaim, value: str, provenance: Provenance) -> None:
        if claim.corrects:
            present = self.memory.lookup(claim.subject, claim.relation, provenance.user).facts
        else:
            present = ()
        if present and present[0].source == provenance.source:
            return  # otherwise a repeated correction would correct itself
        if present:
            self.memory.correct(present[0].id, value, provenance=provenance)
        else:
            self.memory.remember(
                claim.subject, claim.relation, value, claim.since, provenance=provenance
            )

    def _depend(self, rule: StreamRule, provenance: Provenance) -> None:
        first, *last = rule.path
        condition = () if rule.condition is None else (rule.condition,)
        value = rule.object if rule.condition is not None else f"the {last[0]} of {{object}}"
        self.memory.depend(
            rule.subject, rule.relation, (rule.subject, first), condition, value, provenance
        )

    def _forget(self, subject: str, relation: str, provenance: Provenance) -> None:
        self.memory.forget(subject=subject, relation=relation, provenance=provenance)

    def context_for(self, question: StreamQuestion, at: str) -> Sequence[ContextItem]:
        """Return the facts that a search with the words of the question finds."""
        self._users.add(question.user)
        hits = self.memory.search(question.text, self.k, question.user, at)
        return [self._item(hit.fact) for hit in hits]

    def _item(self, fact: Fact) -> ContextItem:
        noun = self._nouns.get(fact.relation, fact.relation)
        return ContextItem(
            f"{fact.user}: {state(noun, fact.subject, fact.object)}",
            fact.source,
            (fact.valid_from or "")[:10],
        )

    def state(self) -> set[StateFact]:
        """Return the stated facts that hold, of all users."""
        return {
            StateFact(
                user, fact.subject, self._nouns.get(fact.relation, fact.relation), fact.object
            )
            for user in sorted(self._users)
            for fact in self.memory.as_of(PRESENT, user=user)
            if fact.status == "current"
        }

    def history(self, user: str, subject: str, relation: str) -> Sequence[str]:
        """Return all objects that a fact had, oldest first."""
        return [fact.object for fact in self.memory.history(subject, relation, user)]

    def forget(self, user: str, subject: str, relation: str) -> None:
        """Erase a fact."""
        self._forget(subject, relation, Provenance(user=user))

    def size(self) -> StoreSize:
        """Return the number of statements and the size of the file in bytes."""
        files = [path for path in self._folder.iterdir() if path.is_file()] if self._folder else []
        return StoreSize(self.memory.count(), sum(path.stat().st_size for path in files))

    def close(self) -> None:
        """Close the file."""
        self.memory.close()


class FactsGold(Facts):
    """Memory of facts with an exact parser of generated sentences instead of an extractor.

    It is an upper bound that shows the effect of the store's rules. A rule along two relations is a
    dependency whose derived value names the fact to look up.
    """

    def _reader(self, context: SystemContext) -> ReadStatements:
        build_settings(NoSettings, context.settings, "facts_gold")
        return lambda turn: read_turn(turn.text)

    def context_for(self, question: StreamQuestion, at: str) -> Sequence[ContextItem]:
        """Return the facts that the question asks for; if it cannot be parsed, search."""
        target = read_question(question.text)
        if target is None:
            return super().context_for(question, at)
        self._users.add(question.user)
        if target.value:
            return self._subjects(question.user, target, at)
        return self._path(question.user, target, at)

    def _path(self, user: str, target: QuestionTarget, at: str) -> list[ContextItem]:
        """Return a fact for each relation of the path, up to a statement that one is unknown."""
        items: list[ContextItem] = []
        subject = target.subject
        for relation in target.path:
            value = self._value(user, subject, relation, target.on or at)
            if value is None:
                unknown = UNKNOWN.format(relation=relation, subject=subject)
                return [*items, ContextItem(f"{user}: {unknown}", date=target.on or at)]
            items.append(
                ContextItem(f"{user}: {state(relation, subject, value.object)}", date=value.since)
            )
            subject = value.object
        return items

    def _value(
        self, user: str, subject: str, relation: str, at: str, depth: int = 0
    ) -> _Value | None:
        """Return the object of a fact, with references resolved; None if unknown or disputed."""
        result = self.memory.lookup(subject, relation, user, at)
        if len(result.facts) != 1 or result.disputed or depth > MAX_DEPTH:
            return None
        fact = result.facts[0]
        value = (
            self._refer(user, fact.object, at, depth) if fact.status == "derived" else fact.object
        )
        return None if value is None else _Value(value, (fact.valid_from or at)[:10])

    def _refer(self, user: str, text: str, at: str, depth: int) -> str | None:
        """Return the object that a reference in a derived object resolves to, or None."""
        if not text.startswith(REFERENCE):
            return text
        inner, relation = split_phrase(text.removeprefix(REFERENCE))
        subject = self._refer(user, inner, at, depth + 1)
        value = None if subject is None else self._value(user, subject, relation, at, depth + 1)
        return None if value is None else value.object

    def _subjects(self, user: str, target: QuestionTarget, at: str) -> list[ContextItem]:
        """Return the facts with the relation and the object that the question names."""
        name = self.memory.table.name_of(target.path[0])
        hits = self.memory.search(f"{target.path[0]} {target.value}", MANY, user, at)
        facts = [
            hit.fact for hit in hits if (hit.fact.relation, hit.fact.object) == (name, target.value)
        ]
        return [self._item(fact) for fact in facts]


@dataclass(frozen=True)
class FactAgentSettings:
    """Settings of the agent.

    Attributes:
        rounds: maximum number of tool rounds per turn and per question.
    """

    rounds: Annotated[int, Field(ge=1, le=ROUNDS_LIMIT)] = ROUNDS


class FactAgentSystem:
    """The editor `agent` with `writes`, which also gets the speaker and date of each turn.

    Raises:
        BadSettings: the model cannot call tools.
    """

    reads_memory: ClassVar[bool] = True

    def __init__(self, context: SystemContext) -> None:
        settings: FactAgentSettings = build_settings(
            FactAgentSettings, context.settings, "fact_agent"
        )
        if context.model is None or not can_call_tools(context.model):
            raise BadSettings(
                "the memory system 'fact_agent' needs a model that calls tools: name "
                "one with --model."
            )
        self.memory = FactMemory(None, embedding=context.embedding, follows_clock=False)
        self._nouns = nouns_of_streams(self.memory.table)
        self.changes = 0
        self._agent = FactAgent(context.model, self.memory, settings.rounds)
        self._app = GRAPHS.load("agent")()
        self._turns: dict[str, Turn] = {}
        self._steps: tuple[Step, ...] = ()
        """Steps of the turns since the last question."""
        self.usage = Usage()
        """Usage of all model calls made while observing turns."""

    def observe(self, turn: Turn) -> None:
        """Let the model update the memory with the turn."""
        if turn.id in self._turns or not turn.text.strip():
            return
        self._turns[turn.id] = turn
        text = item_of(turn).text
        origin = Provenance(user=turn.user, source=turn.id, recorded_at=turn.date)
        reading = self._agent.read(f"[{turn.date}] {text}" if turn.date else text, origin)
        self._steps += reading.steps
        self.changes += reading.changes
        self.usage = self.usage.plus(reading.usage)

    def answer(self, question: StreamQuestion, at: str) -> Answer:
        """Return the agent's answer, preceded by the steps of the turns since the last question."""
        context = self._agent.answering(question.user)
        answer = graph_answerer(self._app, context, context.model).answer(question_probe(question))
        steps, self._steps = self._steps, ()
        return answer.but(steps=(*steps, *answer.steps))

    def state(self) -> Collection[StateFact]:
        """Return the facts that hold now, with relations in the words of generated streams."""
        users = dict.fromkeys(turn.user for turn in self._turns.values())
        facts = (
            fact
            for user in users
            for fact in self.memory.as_of("9999", user=user)
            if fact.status != "derived"
        )
        return {
            StateFact(
                fact.user, fact.subject, self._nouns.get(fact.relation, fact.relation), fact.object
            )
            for fact in facts
        }

    def size(self) -> StoreSize:
        """Return the number of statements; the store is in memory and has no size."""
        return StoreSize(self.memory.count(), 0)

    def close(self) -> None:
        """Close the memory."""
        self.memory.close()
