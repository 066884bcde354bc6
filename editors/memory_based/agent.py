"""Tool-calling agent: the model gets tools for the memory and decides itself when to use them."""

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
        rounds: maximum number of rounds of tool calls.
        tools: `mcp:COMMAND`, a Model Context Protocol server that offers further tools. It runs
            while a group of edits is applied.
        writes: the model reads each edit, writes its facts into a memory of facts by tool calls,
            and answers with tools that search that memory.
    """

    k: Annotated[int, Field(ge=1)] = 5
    rounds: Annotated[int, Field(ge=1, le=ROUNDS_LIMIT)] = ROUNDS
    tools: str = ""
    writes: bool = False


class Agent(MemoryEditor):
    """Tool-calling agent that can search the memory, look up facts and list updates.

    With the setting `writes`, a `WritingAgent` is created.

    Raises:
        EditorUnusable: the model cannot call tools.
        BadSettings: further tools cannot be used.
    """

    name: ClassVar[str] = "agent"
    schema: ClassVar[type[Any]] = AgentSettings
    graph: ClassVar[str] = "agent"

    def __new__(cls, context: EditorContext) -> "Agent":
        """Create an `Agent`, or a `WritingAgent` if the settings ask for it."""
        writes = bool(build_settings(cls.schema, context.settings, cls.name).writes)
        return super().__new__(WritingAgent if writes else cls)

    def __init__(self, context: EditorContext) -> None:
        model = context.model
        if not can_call_tools(model):
            name = (
                getattr(model, "spec", "")
                or getattr(model, "model_name", "")
                or type(model).__name__
            )
            raise EditorUnusable(
                f"editor 'agent' needs a model that calls tools, and '{name}' does not: use one "
                "of a provider (openai:NAME, anthropic:NAME), a local one whose chat template "
                "supports tools, or the editor 'rag' or 'mello'."
            )
        super().__init__(context)
        if self.settings.tools:
            check_tools(self.settings.tools)

    @contextmanager
    def edit(self, edits: Sequence[Edit]) -> Iterator[Answerer]:
        """Apply the edits as the base class does, with any server of further tools running."""
        with open_tools(self.settings.tools) if self.settings.tools else nullcontext(()) as tools:
            context = replace(self.graph_context(self.retriever_over(edits), edits), tools=tools)
            yield graph_answerer(self.app, context, self.scorer)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The fingerprint of `Rag` with an id of the tools' descriptions."""
        return super().fingerprint | {"prompts": tools_prompt_id()}

    def graph_context(self, retriever: Retriever, edits: Sequence[Edit]) -> AgentContext:
        """Return the context with tools over the applied edits' entries that are not superseded."""
        view = self.memory.view([edit.id for edit in edits]).entries() if edits else ()
        toolbox = Toolbox(
            retriever, tuple(edits), self.settings.k, frozenset(entry.id for entry in view)
        )
        return AgentContext(
            **self.common_fields(retriever),
            toolbox=toolbox,
            rounds=self.settings.rounds,
            empty=not edits,
        )


class WritingAgent(Agent):
    """Agent that writes each edit, in order, into a memory of facts and answers from it."""

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The fingerprint of `Agent` with an id of the reading prompt and the memory's tools."""
        return super().fingerprint | {"prompts": fact_tools_prompt_id()}

    @contextmanager
    def edit(self, edits: Sequence[Edit]) -> Iterator[Answerer]:
        """Read the edits into a new memory of facts."""
        with self.sequence() as read:
            yield read(edits)

    @contextmanager
    def sequence(self) -> Iterator[ApplyMore]:
        """Read the edits of each call into one memory of facts."""
        further = open_tools(self.settings.tools) if self.settings.tools else nullcontext(())
        embedding = getattr(self.memory, "embedding", None)
        with FactMemory(None, embedding=embedding, follows_clock=False) as memory, further as tools:
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
