"""Agent with a memory of facts, which it updates and searches with tools."""

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

# Names of the tools that change the memory.
CHANGES = frozenset(operation.name for operation in OPERATIONS if operation.writes)


class MessageReading(NamedTuple):
    """Result of reading a message: the agent's steps, the usage, and the number of changes."""

    steps: tuple[Step, ...]
    usage: Usage
    changes: int


@dataclass(frozen=True)
class FactAgent:
    """An agent's model, its memory of facts, and its maximum number of tool-calling rounds."""

    model: BaseChatModel
    memory: FactMemory
    rounds: int = ROUNDS

    def read(self, message: str, origin: Provenance) -> MessageReading:
        """Let the model update the memory from a message.

        The facts get the user, source and time of `origin`.

        If the model reaches the limit of rounds, the changes it made so far stay.
        """
        opening = [
            SystemMessage(WRITING),
            HumanMessage(f"<message>{strip_delimiters(message, 'message')}</message>"),
        ]
        state = {"probe": Probe(kind="message", prompt=message, gold=()), "messages": opening}
        if origin.source and not origin.operation_id:
            origin = origin.model_copy(update={"operation_id": origin.source})
        tools = fact_tools(self.memory, origin.user, origin=origin)
        final, steps = run_graph(build_reading(), state, self._context(tools))
        changes = sum(
            each.type == "tool" and each.name in CHANGES and each.status != "error"
            for each in final["messages"]
        )
        return MessageReading(steps, final.get("usage", Usage()), changes)

    def answering(self, user: str = "") -> AgentContext:
        """Return the context for a user's question, with tools that only read the memory."""
        return self._context(fact_tools(self.memory, user, writes=False))

    def _context(self, tools: list[BaseTool]) -> AgentContext:
        return AgentContext(self.model, NoRetrieval(), rounds=self.rounds, tools=tuple(tools))


def fact_tools_prompt_id() -> str:
    """Return eight hex digits that identify the prompts and the tools' descriptions and schemas."""
    return prompt_id(
        SYSTEM,
        WRITING,
        [(each.description, each.arguments.model_json_schema()) for each in OPERATIONS],
    )
