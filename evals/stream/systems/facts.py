"""Emend's memory of facts as a memory system: written by exact reading, or by an agent with tools."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import Field

from emend.agents.roles.tools import can_call_tools
from emend.agents.tiny.world import relations
from emend.editors.answerers import graph_answerer
from emend.editors.hyperparameters import build_settings
from emend.editors.memory_based.fact_agent import FactAgent
from emend.evals.stream.benchmark import as_probe
from emend.evals.stream.gold import StateFact
from emend.evals.stream.system import ContextItem, StoreSize, SystemContext, item_of
from emend.evals.stream.turn import FactClaim, StreamQuestion, StreamRule, Turn
from emend.evals.stream.wordings import DERIVED, UNKNOWN, QuestionTarget, read_question, read_turn, split_phrase, state
from emend.graphs.agent import ROUNDS, ROUNDS_LIMIT
from emend.graphs.registry import GRAPHS
from emend.memory.errors import BadSettings
from emend.memory.facts.fact import Fact, Provenance
from emend.memory.facts.fact_memory import FactMemory
from emend.memory.probe import Answer, Step
from emend.memory.relations.relation_table import RelationTable

REFERENCE = "the "
"""Beginning of a derived object that is to be looked up: the relation of a subject, or of another reference."""
MAX_DEPTH = 8
MANY = 50
PRESENT = "9999"
"""A time after all turns."""


@dataclass(frozen=True)
class FactsSettings:
    """Settings of the memory of facts.

    Attributes:
        questions: `exact` looks up what questions of generated streams ask for; `search` searches with their words.
        k: number of facts that a search recalls at most, before the budget.
    """

    questions: Literal["exact", "search"] = "exact"
    k: Annotated[int, Field(ge=1)] = 20


def _one_object_each(table: RelationTable) -> RelationTable:
    """The table with relations of one object alone: in a stream a newer fact always takes the place of an older one."""
    return replace(table, kinds=dict.fromkeys(table.kinds, "functional"))


def nouns_of_streams(table: RelationTable) -> dict[str, str]:
    """The relations of generated streams by the names that a memory gives them."""
    nouns = (*(each.noun for each in relations().values()), *DERIVED)
    return {table.name_of(noun): noun for noun in nouns}


class _Value(NamedTuple):
    """The object of a fact that was looked up, derived ones with the facts that they follow from, and since when."""

    object: str
    since: str


class Facts:
    """Emend's memory of facts. It takes the sentences of generated streams, and from users alone.

    A rule along two relations is a dependency whose derived value names what is to be looked up.
    """

    persistent: ClassVar[bool] = True

    def __init__(self, context: SystemContext) -> None:
        self.settings: FactsSettings = build_settings(FactsSettings, context.settings, "facts")
        self._folder = context.folder
        self.memory = FactMemory(context.folder, _one_object_each(RelationTable.load()))
        self._users: set[str] = set()
        self._nouns = nouns_of_streams(self.memory.table)

    def observe(self, turn: Turn) -> None:
        """Do the operations that the turn asks for; a document asks for none."""
        self._users.add(turn.user)
        if turn.role == "document":
            return
        for number, each in enumerate(read_turn(turn.text)):
            provenance = Provenance(
                user=turn.user, source=turn.id, recorded_at=turn.date, operation_id=f"{turn.id}-{number}"
            )
            self._nouns.setdefault(self.memory.table.name_of(each.relation), each.relation)
            if isinstance(each, StreamRule):
                self._depend(each, provenance)
            elif each.object is None:
                self._forget(each.subject, each.relation, provenance)
            else:
                self._remember(each, each.object, provenance)

    def _remember(self, claim: FactClaim, value: str, provenance: Provenance) -> None:
        present = self.memory.lookup(claim.subject, claim.relation, provenance.user).facts if claim.corrects else ()
        if present and present[0].source == provenance.source:
            return  # a correction that is observed again would correct itself
        if present:
            self.memory.correct(present[0].id, value, provenance=provenance)
        else:
            self.memory.remember(claim.subject, claim.relation, value, claim.since, provenance=provenance)

    def _depend(self, rule: StreamRule, provenance: Provenance) -> None:
        first, *last = rule.path
        condition = () if rule.condition is None else (rule.condition,)
        value = rule.object if rule.condition is not None else f"the {last[0]} of {{object}}"
        self.memory.depend(rule.subject, rule.relation, (rule.subject, first), condition, value, provenance)

    def _forget(self, subject: str, relation: str, provenance: Provenance) -> None:
        self.memory.forget(subject=subject, relation=relation, provenance=provenance)

    def context_for(self, question: StreamQuestion, at: str) -> Sequence[ContextItem]:
        """The facts that the question asks for, or that a search with its words finds."""
        self._users.add(question.user)
        target = read_question(question.text) if self.settings.questions == "exact" else None
        if target is None:
            hits = self.memory.search(question.text, self.settings.k, question.user, at)
            return [self._item(hit.fact) for hit in hits]
        return list(
            self._subjects(question.user, target, at) if target.value else self._path(question.user, target, at)
        )

    def _path(self, user: str, target: QuestionTarget, at: str) -> list[ContextItem]:
        """A fact for each relation of the path, or that it is unknown."""
        items: list[ContextItem] = []
        subject = target.subject
        for relation in target.path:
            value = self._value(user, subject, relation, target.on or at)
            if value is None:
                unknown = UNKNOWN.format(relation=relation, subject=subject)
                return [*items, ContextItem(f"{user}: {unknown}", date=target.on or at)]
            items.append(ContextItem(f"{user}: {state(relation, subject, value.object)}", date=value.since))
            subject = value.object
        return items

    def _value(self, user: str, subject: str, relation: str, at: str, depth: int = 0) -> _Value | None:
        """The object of a fact, a derived one looked up; None where it is not known or disputed."""
        result = self.memory.lookup(subject, relation, user, at)
        if len(result.facts) != 1 or result.disputed or depth > MAX_DEPTH:
            return None
        fact = result.facts[0]
        value = self._refer(user, fact.object, at, depth) if fact.status == "derived" else fact.object
        return None if value is None else _Value(value, (fact.valid_from or at)[:10])

    def _refer(self, user: str, text: str, at: str, depth: int) -> str | None:
        """The object that a derived one stands for."""
        if not text.startswith(REFERENCE):
            return text
        inner, relation = split_phrase(text.removeprefix(REFERENCE))
        subject = self._refer(user, inner, at, depth + 1)
        value = None if subject is None else self._value(user, subject, relation, at, depth + 1)
        return None if value is None else value.object

    def _subjects(self, user: str, target: QuestionTarget, at: str) -> list[ContextItem]:
        """The facts of one relation with one object."""
        name = self.memory.table.name_of(target.path[0])
        hits = self.memory.search(f"{target.path[0]} {target.value}", MANY, user, at)
        facts = [hit.fact for hit in hits if (hit.fact.relation, hit.fact.object) == (name, target.value)]
        return [self._item(fact) for fact in facts]

    def _item(self, fact: Fact) -> ContextItem:
        noun = self._nouns.get(fact.relation, fact.relation)
        return ContextItem(
            f"{fact.user}: {state(noun, fact.subject, fact.object)}", fact.source, (fact.valid_from or "")[:10]
        )

    def state(self) -> set[StateFact]:
        """The stated facts that hold, of all users."""
        return {
            StateFact(user, fact.subject, self._nouns.get(fact.relation, fact.relation), fact.object)
            for user in sorted(self._users)
            for fact in self.memory.as_of(PRESENT, user=user)
            if fact.status == "current"
        }

    def history(self, user: str, subject: str, relation: str) -> Sequence[str]:
        """All objects that a fact had, oldest first."""
        return [fact.object for fact in self.memory.history(subject, relation, user)]

    def forget(self, user: str, subject: str, relation: str) -> None:
        """Erase a fact."""
        self._forget(subject, relation, Provenance(user=user))

    def size(self) -> StoreSize:
        """Number of statements, and the bytes of the file."""
        files = [path for path in self._folder.iterdir() if path.is_file()] if self._folder else []
        return StoreSize(self.memory.count(), sum(path.stat().st_size for path in files))

    def close(self) -> None:
        """Close the file."""
        self.memory.close()


@dataclass(frozen=True)
class FactAgentSettings:
    """Settings of the agent.

    Attributes:
        rounds: maximum number of rounds of tools for a turn, and for a question.
    """

    rounds: Annotated[int, Field(ge=1, le=ROUNDS_LIMIT)] = ROUNDS


class FactAgentSystem:
    """The editor `agent` with `writes`, which knows of each turn who speaks and when.

    Raises:
        BadSettings: the model cannot call tools.
    """

    reads_memory: ClassVar[bool] = True

    def __init__(self, context: SystemContext) -> None:
        settings: FactAgentSettings = build_settings(FactAgentSettings, context.settings, "fact_agent")
        if context.model is None or not can_call_tools(context.model):
            raise BadSettings("the memory system 'fact_agent' needs a model that calls tools: name one with --model.")
        self.memory = FactMemory(None, embedding=context.embedding)
        self._nouns = nouns_of_streams(self.memory.table)
        self.changes = 0
        self._agent = FactAgent(context.model, self.memory, settings.rounds)
        self._app = GRAPHS.load("agent")()
        self._turns: dict[str, Turn] = {}
        self._steps: tuple[Step, ...] = ()
        """Those of the turns since the last question."""

    def observe(self, turn: Turn) -> None:
        """Let the model bring the memory up to date with the turn."""
        if turn.id in self._turns or not turn.text.strip():
            return
        self._turns[turn.id] = turn
        text = item_of(turn).text
        origin = Provenance(user=turn.user, source=turn.id, recorded_at=turn.date)
        reading = self._agent.read(f"[{turn.date}] {text}" if turn.date else text, origin)
        self._steps += reading.steps
        self.changes += reading.changes

    def answer(self, question: StreamQuestion, at: str) -> Answer:
        """The agent's answer; its steps begin with those of the turns since the last question."""
        context = self._agent.answering(question.user)
        answer = graph_answerer(self._app, context, context.model).answer(as_probe(question))
        steps, self._steps = self._steps, ()
        return answer.but(steps=(*steps, *answer.steps))

    def state(self) -> Collection[StateFact]:
        """The facts that hold now, with the relations of generated streams in their words."""
        users = dict.fromkeys(turn.user for turn in self._turns.values())
        facts = (fact for user in users for fact in self.memory.as_of("9999", user=user) if fact.status != "derived")
        return {
            StateFact(fact.user, fact.subject, self._nouns.get(fact.relation, fact.relation), fact.object)
            for fact in facts
        }

    def size(self) -> StoreSize:
        """Number of statements; they are kept in this process."""
        return StoreSize(self.memory.count(), 0)

    def close(self) -> None:
        """Close the memory."""
        self.memory.close()
