"""A tool-calling agent: the model gets tools over the memory, and decides itself when to use them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import reduce
from typing import Annotated, Any, ClassVar

from pydantic import Field

from emend.agents.mcp_tools import check_tools, open_tools
from emend.agents.roles.tools import Toolbox, can_call_tools
from emend.editors.answerers import graph_answerer, with_first_steps
from emend.editors.base import Answerer, ApplyMore, EditCost, EditorContext
from emend.editors.hyperparameters import build_settings
from emend.editors.memory_based.fact_agent import FactAgent, fact_tools_prompt_id
from emend.editors.memory_based.rag import MemoryEditor, RagSettings
from emend.graphs.agent import ROUNDS, ROUNDS_LIMIT, AgentContext
from emend.graphs.agent_tools import tools_prompt_id
from emend.memory.edit import Edit
from emend.memory.errors import EditorUnusable
from emend.memory.facts.fact import Provenance
from emend.memory.facts.fact_memory import FactMemory
from emend.memory.probe import Usage
from emend.memory.retrieval.base import Retriever


@dataclass(frozen=True)
class AgentSettings(RagSettings):
    """Settings of the agent.

    Attributes:
        k: number of entries that a search returns.
        rounds: maximum number of tool calls.
        tools: `mcp:COMMAND`, a server of the Model Context Protocol whose tools are offered too. It is started for
            each group of edits that are applied together, and ends with it.
        writes: the model reads each edit and writes what it states into a memory of facts, by tools, and answers with
            tools that look facts up there.
    """

    k: Annotated[int, Field(ge=1)] = 5
    rounds: Annotated[int, Field(ge=1, le=ROUNDS_LIMIT)] = ROUNDS
    tools: str = ""
    writes: bool = False


class Agent(MemoryEditor):
    """Lets the model search the memory, look facts up and list updates; with `writes` it is a `WritingAgent`.

    Raises:
        EditorUnusable: the model cannot call tools.
        BadSettings: further tools cannot be used.
    """

    name: ClassVar[str] = "agent"
    schema: ClassVar[type[Any]] = AgentSettings
    graph: ClassVar[str] = "agent"

    def __new__(cls, context: EditorContext) -> "Agent":
        """An agent of the kind that the settings ask for."""
        writes = bool(build_settings(cls.schema, context.settings, cls.name).writes)
        return super().__new__(WritingAgent if writes else cls)

    def __init__(self, context: EditorContext) -> None:
        model = context.model
        if not can_call_tools(model):
            name = getattr(model, "spec", "") or getattr(model, "model_name", "") or type(model).__name__
            raise EditorUnusable(
                f"editor 'agent' needs a model that calls tools, and '{name}' does not: take "
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


class WritingAgent(Agent):
    """Lets the model write each edit into a memory of facts, and look facts up there; the edits are read in order."""

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The fingerprint of `Agent` with the id of the prompt for reading and of the tools of the memory of facts."""
        return super().fingerprint | {"prompts": fact_tools_prompt_id()}

    @contextmanager
    def edit(self, edits: Sequence[Edit]) -> Iterator[Answerer]:
        """The edits are read into a memory of their own."""
        with self.sequence() as read:
            yield read(edits)

    @contextmanager
    def sequence(self) -> Iterator[ApplyMore]:
        """The edits of each call are read into the same memory."""
        further = open_tools(self.settings.tools) if self.settings.tools else nullcontext(())
        with FactMemory(None, embedding=getattr(self.memory, "embedding", None)) as memory, further as tools:
            agent = FactAgent(self.context.model, memory, self.settings.rounds)
            context = agent.answering()
            context = replace(context, tools=(*context.tools, *tools), wording=self.context.wording)

            def read(edits: Sequence[Edit]) -> Answerer:
                readings = [agent.read(edit.text, _origin(edit)) for edit in edits]
                usage = reduce(Usage.plus, (each.usage for each in readings), Usage())
                cost = EditCost(tokens=usage.input_tokens + usage.output_tokens)
                answerer = graph_answerer(self.app, context, self.scorer, cost)
                steps = tuple(step for each in readings for step in each.steps)
                return with_first_steps(answerer, steps) if steps else answerer

            yield read


def _origin(edit: Edit) -> Provenance:
    return Provenance(source=edit.id, recorded_at=edit.time or "")
