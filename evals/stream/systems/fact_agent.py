"""An agent as a memory system: the model writes what each turn states into a memory of facts, and looks it up."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from emend.agents.roles.tools import can_call_tools
from emend.editors.answerers import graph_answerer
from emend.editors.hyperparameters import build_settings
from emend.editors.memory_based.fact_agent import FactAgent
from emend.evals.stream.benchmark import as_probe
from emend.evals.stream.gold import StateFact
from emend.evals.stream.system import StoreSize, SystemContext, item_of
from emend.evals.stream.systems.facts import nouns_of_streams
from emend.evals.stream.turn import StreamQuestion, Turn
from emend.graphs.agent import ROUNDS, ROUNDS_LIMIT
from emend.graphs.registry import GRAPHS
from emend.memory.errors import BadSettings
from emend.memory.facts.fact import Provenance
from emend.memory.facts.fact_memory import FactMemory
from emend.memory.probe import Answer, Step


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
