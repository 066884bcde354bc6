"""A tool-calling agent: the model is given tools over the memory, and decides itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field

from emend.agents.roles.tools import Toolbox, can_call_tools, prompt_id
from emend.editors.base import Materials
from emend.editors.memory_based.rag import RagSettings, Remembering
from emend.graphs.agent import ROUNDS, ROUNDS_LIMIT, AgentContext
from emend.memory.edit import Edit
from emend.memory.errors import BadSettings
from emend.memory.retrieval.base import Retriever


@dataclass(frozen=True)
class AgentSettings(RagSettings):
    """How many entries a search returns, and how often the model may use tools."""

    k: Annotated[int, Field(ge=1)] = 5
    rounds: Annotated[int, Field(ge=1, le=ROUNDS_LIMIT)] = ROUNDS


class Agent(Remembering):
    """Lets the model search the memory, look facts up and list updates, as it sees fit.

    Raises:
        BadSettings: the model cannot call tools.
    """

    name: ClassVar[str] = "agent"
    schema: ClassVar[type[Any]] = AgentSettings
    graph: ClassVar[str] = "agent"

    def __init__(self, materials: Materials) -> None:
        if not can_call_tools(materials.model):
            raise BadSettings(
                f"editor 'agent' needs a model that calls tools, and {type(materials.model).__name__} does not: take "
                "one of a provider (openai:NAME, anthropic:NAME), a local one whose chat template shows tools, or the "
                "editor 'rag' or 'mello'."
            )
        super().__init__(materials)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """As for `Rag`, with the id of what the model is told about the tools."""
        return super().fingerprint | {"prompts": prompt_id()}

    def context(self, found: Retriever, edits: Sequence[Edit]) -> AgentContext:
        """With the tools over what the standing edits say that no later one supersedes."""
        view = self.memory.view([edit.id for edit in edits]).entries() if edits else ()
        toolbox = Toolbox(found, tuple(edits), self.settings.k, frozenset(entry.id for entry in view))
        return AgentContext(**self.shared(found), toolbox=toolbox, rounds=self.settings.rounds, empty=not edits)
