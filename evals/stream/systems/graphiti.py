"""Graphiti as a memory system: the model under test reads turns into a graph of dated facts, in a local Kuzu file."""

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
from langchain_core.messages import HumanMessage, SystemMessage
from pydantic import BaseModel, Field

from emend.agents.structured import ask_structured
from emend.editors.hyperparameters import build_settings
from emend.evals.stream.gold import StateFact
from emend.evals.stream.system import ContextItem, FolderSystem, StoreSize, SystemContext, item_of, load_package
from emend.evals.stream.systems.langgraph_store import AsEmbeddings
from emend.evals.stream.turn import StreamQuestion, Turn
from emend.memory.errors import ModelReplyError
from emend.memory.store.superseding import parse_time

NEW_TOKENS = 1024
"""Of a local model's reply, a list of entities or facts in JSON."""
FACTS = """
    MATCH (s:Entity)-[:RELATES_TO]->(e:RelatesToNode_)-[:RELATES_TO]->(o:Entity)
    RETURN e.uuid AS id, e.group_id AS partition, s.name AS subject, e.name AS relation, o.name AS object,
        e.invalid_at AS invalid_at, e.episodes AS episodes
    ORDER BY e.valid_at, e.created_at
"""


@dataclass(frozen=True)
class GraphitiSettings:
    """Settings of Graphiti.

    Attributes:
        k: number of facts that are recalled at most, before the budget.
    """

    k: Annotated[int, Field(ge=1)] = 20


class Graphiti(FolderSystem):
    """Graphiti over Kuzu: a partition of the graph for each user, and every turn an episode.

    A fact is an edge between two entities, with the time from which it holds and, after a fact that contradicts it, the
    time until which it held (Rasmussen et al. 2025, "Zep: A Temporal Knowledge Graph Architecture for Agent Memory").

    Raises:
        BadSettings: there is no model.
        MissingExtra: it is not installed.
    """

    def __init__(self, context: SystemContext) -> None:
        self.settings: GraphitiSettings = build_settings(GraphitiSettings, context.settings, "graphiti")
        model = context.require_model("graphiti")
        super().__init__(context)
        self._thread, self._runner = ThreadPoolExecutor(1), asyncio.Runner()
        self._graph = _load(self._folder, model, AsEmbeddings.of(context.embedding))
        if not self._query("CALL SHOW_INDEXES() RETURN *"):
            self._run(self._graph.driver.graph_ops.build_indices_and_constraints(self._graph.driver))
        episodes = self._query("MATCH (e:Episodic) RETURN e.uuid AS id, e.name AS turn")
        self._turns = {row["id"]: row["turn"] for row in episodes}
        """By episode, its turn."""

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """The result of a coroutine, in a thread of its own, since a notebook's has a running loop already."""
        return self._thread.submit(self._runner.run, work, context=copy_context()).result()

    def observe(self, turn: Turn) -> None:
        """Add the turn as an episode; one that the model cannot put into Graphiti's forms leaves the graph as it is."""
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
        """The facts of the user that Graphiti finds for the question, with their dates."""
        if not question.text.strip():
            return ()
        groups, k = [_group(question.user)], self.settings.k
        edges = self._run(self._graph.search(question.text, group_ids=groups, num_results=k))
        return [self._item(edge) for edge in edges]

    def _item(self, edge: Any) -> ContextItem:
        text = f"{edge.fact} (until {edge.invalid_at:%Y-%m-%d})" if edge.invalid_at else edge.fact
        turn = next((self._turns[each] for each in reversed(edge.episodes) if each in self._turns), "")
        return ContextItem(text, turn, f"{edge.valid_at:%Y-%m-%d}" if edge.valid_at else "")

    def state(self) -> set[StateFact]:
        """The facts without an end, with the model's names of relations in lower case and without underscores."""
        return {row.fact for row in self._facts() if row.invalid_at is None}

    def history(self, user: str, subject: str, relation: str) -> Sequence[str]:
        """All objects that a fact had, oldest first."""
        return [row.fact.object for row in self._facts() if row.fact[:3] == (user, subject, relation)]

    def forget(self, user: str, subject: str, relation: str) -> None:
        """Delete the edges of a fact, and the episodes that state it."""
        rows = [row for row in self._facts() if row.fact[:3] == (user, subject, relation)]
        for episode in dict.fromkeys(episode for row in rows for episode in row.episodes if episode in self._turns):
            self._run(self._graph.remove_episode(episode))
        self._query("MATCH (e:RelatesToNode_) WHERE e.uuid IN $ids DETACH DELETE e", ids=[row.id for row in rows])

    def size(self) -> StoreSize:
        """Number of facts, former ones included, and the bytes of the folder."""
        return self._size(len(self._facts()))

    def close(self) -> None:
        """Close the store."""
        self._graph.driver.client.close()
        self._graph.driver.db.close()
        self._thread.submit(self._runner.close).result()
        self._thread.shutdown()
        super().close()

    def _facts(self) -> list["_Row"]:
        """All facts, in the order of the dates from which they hold."""
        return [_Row.of(row) for row in self._query(FACTS)]

    def _query(self, cypher: str, **values: Any) -> list[dict[str, Any]]:
        """The rows of a query."""
        rows: list[dict[str, Any]] = self._run(self._graph.driver.execute_query(cypher, **values))[0]
        return rows


class _Row(NamedTuple):
    """A fact of the graph: its id, the end of its time if it has one, and the episodes that state it."""

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
    """A user's partition of the graph, in letters and digits."""
    return f"u{user.encode().hex()}"


def _as_time(date: str) -> datetime:
    """A turn's date as Graphiti's reference time; now where it has none."""
    return parse_time(date) or datetime.now(UTC)


class ModelClient:
    """A chat model as Graphiti's client of language models: replies in the schema of each prompt."""

    max_tokens: ClassVar[int | None] = None
    token_tracker: ClassVar[object] = None

    def __init__(self, model: BaseChatModel) -> None:
        self._model = model

    def set_tracer(self, tracer: object) -> None:
        """Do nothing: calls are in Emend's own trace."""

    async def generate_response(
        self, messages: Sequence[Any], response_model: type[BaseModel], **options: object
    ) -> dict[str, Any]:
        """The model's reply to Graphiti's messages."""
        prompt = [
            SystemMessage(each.content) if each.role == "system" else HumanMessage(each.content) for each in messages
        ]
        return ask_structured(self._model, prompt, response_model, new_tokens=NEW_TOKENS).value.model_dump()


class EmbeddingClient:
    """An embedding as Graphiti's client of embeddings."""

    def __init__(self, embeddings: AsEmbeddings) -> None:
        self._embeddings = embeddings

    async def create(self, input_data: str | list[str]) -> list[float]:
        """The vector of a text."""
        return self._embeddings.embed_query(input_data if isinstance(input_data, str) else input_data[0])

    async def create_batch(self, input_data_list: list[str]) -> list[list[float]]:
        """A vector for each text."""
        return self._embeddings.embed_documents(input_data_list)


class NoReranker:
    """Graphiti's client of cross-encoders, which the search by reciprocal ranks asks for and never calls."""


def _load(folder: Path, model: BaseChatModel, embeddings: AsEmbeddings) -> Any:
    """Graphiti over a folder.

    Raises:
        MissingExtra: it is not installed.
    """
    os.environ["GRAPHITI_TELEMETRY_ENABLED"] = "false"  # it would report its use to a server
    package = "graphiti-core[kuzu]"
    core = load_package("graphiti", package, "graphiti_core")
    kuzu = load_package("graphiti", package, "graphiti_core.driver.kuzu_driver")
    import_module("graphiti_core.llm_client").LLMClient.register(ModelClient)
    import_module("graphiti_core.embedder").EmbedderClient.register(EmbeddingClient)
    import_module("graphiti_core.cross_encoder").CrossEncoderClient.register(NoReranker)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it has no other store that needs no server
        driver = kuzu.KuzuDriver(str(folder / "graph.kuzu"))
    driver._database = ""  # which the driver leaves out: getzep/graphiti, issue 1258
    return core.Graphiti(
        graph_driver=driver,
        llm_client=ModelClient(model),
        embedder=EmbeddingClient(embeddings),
        cross_encoder=NoReranker(),
    )
