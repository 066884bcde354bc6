"""A tool-calling agent: the model gets tools over the memory, and decides itself when to use them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from pydantic import Field

from emend.agents.mcp_tools import check_tools, open_tools
from emend.agents.roles.tools import Toolbox, can_call_tools
from emend.editors.answerers import graph_answerer
from emend.editors.base import Answerer, EditorContext
from emend.editors.memory_based.rag import MemoryEditor, RagSettings
from emend.graphs.agent import ROUNDS, ROUNDS_LIMIT, AgentContext
from emend.graphs.agent_tools import tools_prompt_id
from emend.memory.edit import Edit
from emend.memory.errors import EditorUnusable
from emend.memory.retrieval.base import Retriever


@dataclass(frozen=True)
class AgentSettings(RagSettings):
    """Settings of the agent.

    Attributes:
        k: number of entries that a search returns.
        rounds: maximum number of tool calls.
        tools: `mcp:COMMAND`, a server of the Model Context Protocol whose tools are offered too. It is started for
            each group of edits that are applied together, and ends with it.
    """

    k: Annotated[int, Field(ge=1)] = 5
    rounds: Annotated[int, Field(ge=1, le=ROUNDS_LIMIT)] = ROUNDS
    tools: str = ""


def _name_of(model: Any) -> str:
    """Name of a model as its user knows it: its spec or folder."""
    return str(getattr(model, "spec", "") or getattr(model, "model_name", "") or type(model).__name__)


class Agent(MemoryEditor):
    """Lets the model search the memory, look facts up and list updates.

    Raises:
        EditorUnusable: the model cannot call tools.
        BadSettings: further tools cannot be used.
    """

    name: ClassVar[str] = "agent"
    schema: ClassVar[type[Any]] = AgentSettings
    graph: ClassVar[str] = "agent"

    def __init__(self, context: EditorContext) -> None:
        if not can_call_tools(context.model):
            raise EditorUnusable(
                f"editor 'agent' needs a model that calls tools, and '{_name_of(context.model)}' does not: take "
                "one of a provider (openai:NAME, anthropic:NAME), a local one whose chat template shows tools, or the "
                "editor 'rag' or 'mello'."
            )
        super().__init__(context)
        if self.settings.tools:
            check_tools(self.settings.tools)

    @contextmanager
    def edit(self, edits: Sequence[Edit]) -> Iterator[Answerer]:
        """Apply the edits, as the base class does, while the server of further tools runs if there is one."""
        with open_tools(self.settings.tools) if self.settings.tools else nullcontext(()) as tools:
            context = replace(self.graph_context(self.retriever_over(edits), edits), tools=tools)
            yield graph_answerer(self.app, context, self.scorer)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The fingerprint of `Rag` with the id of the tools' descriptions."""
        return super().fingerprint | {"prompts": tools_prompt_id()}

    def graph_context(self, retriever: Retriever, edits: Sequence[Edit]) -> AgentContext:
        """The context with tools over the entries of the applied edits that no later one supersedes."""
        view = self.memory.view([edit.id for edit in edits]).entries() if edits else ()
        toolbox = Toolbox(retriever, tuple(edits), self.settings.k, frozenset(entry.id for entry in view))
        return AgentContext(
            **self.common_fields(retriever), toolbox=toolbox, rounds=self.settings.rounds, empty=not edits
        )
