"""Graphiti as a memory system: the model under test turns messages into a graph of dated facts.

The graph is in a local Kuzu file.
"""

import asyncio
import contextlib
import os
import warnings
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, Self

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel, Field

from emend.agents.structured import ask_structured
from emend.editors.hyperparameters import build_settings
from emend.evals.streams.gold import StateFact
from emend.evals.streams.system import (
    ContextItem,
    FolderSystem,
    StoreSize,
    SystemContext,
    item_of,
    load_package,
)
from emend.evals.streams.systems.langgraph_store import AsEmbeddings
from emend.evals.streams.turn import StreamQuestion, Turn
from emend.memory.errors import ModelReplyError
from emend.memory.store.superseding import parse_time

# Maximum number of tokens of a local model's reply, a JSON list of entities or facts.
NEW_TOKENS = 1024
FACTS = """
    MATCH (s:Entity)-[:RELATES_TO]->(e:RelatesToNode_)-[:RELATES_TO]->(o:Entity)
    RETURN e.uuid AS id, e.group_id AS partition, s.name AS subject, e.name AS relation,
    o.name AS object,
        e.invalid_at AS invalid_at, e.episodes AS episodes
    ORDER BY e.valid_at, e.created_at
"""


@dataclass(frozen=True)
class GraphitiSettings:
    """Settings of Graphiti.

    Attributes:
        k: maximum number of recalled facts, before the budget.
    """

    k: Annotated[int, Field(ge=1)] = 20


class Graphiti(FolderSystem):
    """Graphiti over Kuzu, with a partition of the graph for each user and an episode for each turn.

    A fact is an edge between two entities with the time since which it holds, and the time at which
    it ended if a later fact contradicts it (Rasmussen et al. 2025, "Zep: A Temporal Knowledge Graph
    Architecture for Agent Memory").

    Raises:
        BadSettings: there is no model.
        MissingExtra: Graphiti is not installed.
    """

    def __init__(self, context: SystemContext) -> None:
        self.settings: GraphitiSettings = build_settings(
            GraphitiSettings, context.settings, "graphiti"
        )
        model = context.require_model("graphiti")
        super().__init__(context)
        self._thread, self._runner = ThreadPoolExecutor(1), asyncio.Runner()
        self._graph = _load(self._folder, model, AsEmbeddings.of(context.embedding))
        if not self._query("CALL SHOW_INDEXES() RETURN *"):
            self._run(
                self._graph.driver.graph_ops.build_indices_and_constraints(self._graph.driver)
            )
        episodes = self._query("MATCH (e:Episodic) RETURN e.uuid AS id, e.name AS turn")
        self._turns = {row["id"]: row["turn"] for row in episodes}
        """Turn id of each episode."""

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in a separate thread, since a notebook has its own event loop."""
        return self._thread.submit(self._runner.run, work, context=copy_context()).result()

    def observe(self, turn: Turn) -> None:
        """Add the turn as an episode, unless the model's reply does not fit Graphiti's schemas."""
        if turn.id in self._turns.values() or not turn.text.strip():
            return
        with contextlib.suppress(ModelReplyError):
            added = self._run(
                self._graph.add_episode(
                    name=turn.id,
                    episode_body=item_of(turn).text,
                    source_description=turn.role,
                    reference_time=_as_time(turn.date),
                    group_id=_group(turn.user),
                )
            )
            self._turns[added.episode.uuid] = turn.id

    def context_for(self, question: StreamQuestion, at: str) -> Sequence[ContextItem]:
        """Return the user's facts that Graphiti finds for the question, with their dates."""
        if not question.text.strip():
            return ()
        groups, k = [_group(question.user)], self.settings.k
        edges = self._run(self._graph.search(question.text, group_ids=groups, num_results=k))
        return [self._item(edge) for edge in edges]

    def _item(self, edge: Any) -> ContextItem:
        text = f"{edge.fact} (until {edge.invalid_at:%Y-%m-%d})" if edge.invalid_at else edge.fact
        turn = next(
            (self._turns[each] for each in reversed(edge.episodes) if each in self._turns), ""
        )
        return ContextItem(text, turn, f"{edge.valid_at:%Y-%m-%d}" if edge.valid_at else "")

    def state(self) -> set[StateFact]:
        """Return the facts without an end; relations are the model's, in lower case."""
        return {row.fact for row in self._facts() if row.invalid_at is None}

    def history(self, user: str, subject: str, relation: str) -> Sequence[str]:
        """Return all objects that a fact had, oldest first."""
        return [
            row.fact.object for row in self._facts() if row.fact[:3] == (user, subject, relation)
        ]

    def forget(self, user: str, subject: str, relation: str) -> None:
        """Delete the edges of a fact and the episodes that state it."""
        rows = [row for row in self._facts() if row.fact[:3] == (user, subject, relation)]
        for episode in dict.fromkeys(
            episode for row in rows for episode in row.episodes if episode in self._turns
        ):
            self._run(self._graph.remove_episode(episode))
        self._query(
            "MATCH (e:RelatesToNode_) WHERE e.uuid IN $ids DETACH DELETE e",
            ids=[row.id for row in rows],
        )

    def size(self) -> StoreSize:
        """Return the number of facts, including former ones, and the folder's size in bytes."""
        return self._size(len(self._facts()))

    def close(self) -> None:
        """Close the store."""
        self._graph.driver.client.close()
        self._graph.driver.db.close()
        self._thread.submit(self._runner.close).result()
        self._thread.shutdown()
        super().close()

    def _facts(self) -> list["_Row"]:
        """Return all facts by the date since which they hold."""
        return [_Row.of(row) for row in self._query(FACTS)]

    def _query(self, cypher: str, **values: Any) -> list[dict[str, Any]]:
        """Return the rows of a Cypher query."""
        rows: list[dict[str, Any]] = self._run(self._graph.driver.execute_query(cypher, **values))[
            0
        ]
        return rows


class _Row(NamedTuple):
    """A fact of the graph: its id, its end if it has one, and the episodes that state it."""

    fact: StateFact
    id: str
    invalid_at: datetime | None
    episodes: list[str]

    @classmethod
    def of(cls, row: dict[str, Any]) -> Self:
        user = bytes.fromhex(row["partition"].removeprefix("u")).decode()
        relation = row["relation"].replace("_", " ").lower()
        fact = StateFact(user, row["subject"], relation, row["object"])
        return cls(fact, row["id"], row["invalid_at"], row["episodes"])


def _group(user: str) -> str:
    """Return the name of a user's graph partition, made of letters and digits only."""
    return f"u{user.encode().hex()}"


def _as_time(date: str) -> datetime:
    """Return a turn's date as Graphiti's reference time; the current time if it has none."""
    return parse_time(date) or datetime.now(UTC)


class ModelClient:
    """Adapter of a chat model to Graphiti's LLM client, with replies in each prompt's schema."""

    max_tokens: ClassVar[int | None] = None
    token_tracker: ClassVar[object] = None

    def __init__(self, model: BaseChatModel) -> None:
        self._model = model

    def set_tracer(self, tracer: object) -> None:
        """Do nothing; calls are recorded in Emend's own trace."""

    async def generate_response(
        self, messages: Sequence[Any], response_model: type[BaseModel], **options: object
    ) -> dict[str, Any]:
        """Return the model's structured reply to Graphiti's messages."""
        prompt: list[BaseMessage] = []
        for message in messages:
            if message.role == "system":
                prompt.append(SystemMessage(message.content))
            else:
                prompt.append(HumanMessage(message.content))
        return ask_structured(
            self._model, prompt, response_model, new_tokens=NEW_TOKENS
        ).value.model_dump()


class EmbeddingClient:
    """Adapter of an embedding to Graphiti's embedding client."""

    def __init__(self, embeddings: AsEmbeddings) -> None:
        self._embeddings = embeddings

    async def create(self, input_data: str | list[str]) -> list[float]:
        """Return the vector of a text."""
        if isinstance(input_data, str):
            return self._embeddings.embed_query(input_data)
        return self._embeddings.embed_query(input_data[0])

    async def create_batch(self, input_data_list: list[str]) -> list[list[float]]:
        """Return a vector for each text."""
        return self._embeddings.embed_documents(input_data_list)


class NoReranker:
    """Placeholder for the cross-encoder client, which Graphiti requires but never calls here."""


def _load(folder: Path, model: BaseChatModel, embeddings: AsEmbeddings) -> Any:
    """Return Graphiti with its store in a folder.

    Raises:
        MissingExtra: Graphiti is not installed.
    """
    os.environ["GRAPHITI_TELEMETRY_ENABLED"] = "false"  # Graphiti would send usage data to a server
    package = "graphiti-core[kuzu]"
    core = load_package("graphiti", package, "graphiti_core")
    kuzu = load_package("graphiti", package, "graphiti_core.driver.kuzu_driver")
    import_module("graphiti_core.llm_client").LLMClient.register(ModelClient)
    import_module("graphiti_core.embedder").EmbedderClient.register(EmbeddingClient)
    import_module("graphiti_core.cross_encoder").CrossEncoderClient.register(NoReranker)
    with warnings.catch_warnings():
        # Kuzu is deprecated, but Graphiti's only store that needs no server
        warnings.simplefilter("ignore", DeprecationWarning)
        driver = kuzu.KuzuDriver(str(folder / "graph.kuzu"))
    driver._database = ""  # not set by the driver: getzep/graphiti, issue 1258
    return core.Graphiti(
        graph_driver=driver,
        llm_client=ModelClient(model),
        embedder=EmbeddingClient(embeddings),
        cross_encoder=NoReranker(),
    )
