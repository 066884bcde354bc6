"""An agent with a memory of facts: it reads messages with tools that change the memory, and answers with others."""

from dataclasses import dataclass
from typing import NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.tools import BaseTool

from emend.agents.parsing.delimiters import strip_delimiters
from emend.agents.roles.tools import SYSTEM, WRITING
from emend.graphs.agent import ROUNDS, AgentContext, build_reading
from emend.graphs.execution import run_graph
from emend.memory.edit import prompt_id
from emend.memory.facts.fact import Provenance
from emend.memory.facts.fact_memory import FactMemory
from emend.memory.facts.operations import OPERATIONS
from emend.memory.probe import Probe, Step, Usage
from emend.memory.retrieval.none import NoRetrieval
from emend.memory.tools import fact_tools

CHANGES = frozenset(operation.name for operation in OPERATIONS if operation.writes)
"""Names of the tools that change a memory."""


class MessageReading(NamedTuple):
    """Steps of an agent that read a message, the usage of its model, and the number of changes that it made."""

    steps: tuple[Step, ...]
    usage: Usage
    changes: int


@dataclass(frozen=True)
class FactAgent:
    """A model that calls tools, its memory, and the maximum number of rounds of calls."""

    model: BaseChatModel
    memory: FactMemory
    rounds: int = ROUNDS

    def read(self, message: str, origin: Provenance) -> MessageReading:
        """Let the model bring the memory up to date with a message; its user, source and time are those of the facts.

        A model that never ends has made the changes of its rounds.
        """
        opening = [SystemMessage(WRITING), HumanMessage(f"<message>{strip_delimiters(message, 'message')}</message>")]
        state = {"probe": Probe(kind="message", prompt=message, gold=()), "messages": opening}
        tools = fact_tools(self.memory, origin.user, origin=origin)
        final, steps = run_graph(build_reading(), state, self._context(tools))
        changes = sum(
            each.type == "tool" and each.name in CHANGES and each.status != "error" for each in final["messages"]
        )
        return MessageReading(steps, final.get("usage", Usage()), changes)

    def answering(self, user: str = "") -> AgentContext:
        """The context of the agent's graph for a question of a user: tools that look facts up, and change none."""
        return self._context(fact_tools(self.memory, user, writes=False))

    def _context(self, tools: list[BaseTool]) -> AgentContext:
        return AgentContext(self.model, NoRetrieval(), rounds=self.rounds, tools=tuple(tools))


def fact_tools_prompt_id() -> str:
    """Eight hex digits that change with the prompts and the schemas of the tools."""
    return prompt_id(SYSTEM, WRITING, [(each.description, each.arguments.model_json_schema()) for each in OPERATIONS])
