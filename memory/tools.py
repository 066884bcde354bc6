"""LangChain tools and retrievers for memories; tool results are JSON with the records of
`facts.fact`.
"""

import json
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.messages import ToolMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import (
    BaseTool,
    InjectedToolCallId,
    StructuredTool,
    ToolException,
    create_retriever_tool,
)
from pydantic import BaseModel, Field, create_model

from emend.memory.errors import EmendError, first_problem
from emend.memory.facts.fact import Fact, Provenance
from emend.memory.facts.operations import OPERATIONS, FactOperation, Text
from emend.memory.retrieval.base import Entry, Hit

if TYPE_CHECKING:
    from emend.memory.facts.fact_memory import FactMemory

_UNKNOWN = Provenance()
_READING = frozenset(operation.name for operation in OPERATIONS if not operation.writes)


class EditQuery(BaseModel):
    """The question that a search of edits is for."""

    query: Annotated[Text, Field(description="query to look up in retriever")]


def search_tool(retriever: BaseRetriever) -> BaseTool:
    """Return a tool that searches edits; an invalid call is answered with its first problem."""
    description = "Find the edits whose wording or meaning is nearest to a question."
    tool = create_retriever_tool(retriever, "search_memory", description)
    update = {"args_schema": EditQuery, "handle_validation_error": first_problem}
    return tool.model_copy(update=update)


def fact_tools(
    memory: "FactMemory",
    user: str = "",
    writes: bool = True,
    shared: bool = False,
    origin: Provenance = _UNKNOWN,
) -> list[BaseTool]:
    """Return the operations of a memory as tools for an agent; an invalid call is answered with its
    first problem.

    Invoke the tools with a tool call, as agents do. If the call's configuration has a `thread_id`,
    a call with the same id is executed once. `message_id` of the configuration is stored as the
    source of a fact, or else the id of the call. If `origin` has an `operation_id`, operations get
    it as a prefix and a running number, so that equal calls have equal results.

    Args:
        memory: stays open while the tools are used.
        user: the user whose facts are read and written; by default `user_id` in the configuration
            of the call.
        writes: include the operations that change the memory.
        shared: allow changes of facts shared by all users.
        origin: source and time of written facts, if the configuration names no message.
    """
    origin = origin.model_copy(update={"user": user})
    numbers = count()
    operations = [operation for operation in OPERATIONS if writes or not operation.writes]
    return [_as_tool(memory, origin, operation, shared, numbers) for operation in operations]


def _as_tool(
    memory: "FactMemory",
    origin: Provenance,
    operation: FactOperation,
    shared: bool,
    numbers: Iterator[int],
) -> BaseTool:
    def run(config: RunnableConfig, tool_call_id: str, **arguments: Any) -> str:
        try:
            provenance = _provenance(config, tool_call_id, origin, numbers)
            return operation.call(memory, chosen(**arguments), provenance)
        except EmendError as error:
            raise ToolException(str(error)) from error

    chosen = operation.schema(shared)
    schema = create_model(
        operation.name,
        __base__=chosen,
        __doc__=operation.description,
        tool_call_id=(Annotated[str, InjectedToolCallId], ...),
    )
    return StructuredTool.from_function(
        run,
        name=operation.name,
        description=operation.description,
        args_schema=schema,
        handle_tool_error=True,
        handle_validation_error=first_problem,
    )


def _provenance(
    config: RunnableConfig, tool_call_id: str, origin: Provenance, numbers: Iterator[int]
) -> Provenance:
    fields = config.get("configurable") or {}
    thread = str(fields.get("thread_id") or "")
    operation_id = f"{thread}/{tool_call_id}" if thread else ""
    if origin.operation_id and not thread:
        operation_id = f"{origin.operation_id}/{next(numbers)}"
    return Provenance(
        user=origin.user or str(fields.get("user_id") or ""),
        source=str(fields.get("message_id") or origin.source or f"tool call {tool_call_id}"),
        recorded_at=origin.recorded_at,
        operation_id=operation_id,
    )


def fact_hits(result: ToolMessage) -> list[Hit]:
    """Return the facts in a reading tool's result as hits for the messages that the facts come
    from.
    """
    if result.name not in _READING or result.status == "error":
        return []
    facts = {fact.id: fact for fact in _facts_in(json.loads(str(result.text)))}
    return [
        Hit(entry=Entry(id=fact.id, edit_id=fact.source, text=fact.text), score=0.0)
        for fact in facts.values()
    ]


def _facts_in(value: Any) -> Iterator[Fact]:
    if isinstance(value, list):
        for each in value:
            yield from _facts_in(each)
    elif isinstance(value, dict) and {"id", "subject", "object", "status"} <= value.keys():
        yield Fact.model_validate(value)
    elif isinstance(value, dict):
        yield from _facts_in(list(value.values()))


class FactRetriever(BaseRetriever):
    """A retriever of current facts as documents: their text, with the record and its score as
    metadata.

    Attributes:
        memory: a `FactMemory`, which stays open while the retriever is used.
        user: the user whose facts are searched.
        k: maximum number of documents.
    """

    memory: Any
    user: str = ""
    k: int = 5

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return [
            _document(hit.fact, hit.score) for hit in self.memory.search(query, self.k, self.user)
        ]


class EditRetriever(BaseRetriever):
    """A retriever of edits as documents: the text of an entry, with the record and its score as
    metadata.

    Attributes:
        strategy: searches a view of a memory of edits.
        k: maximum number of documents.
    """

    strategy: Any
    k: int = 5

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return [_document(hit.entry, hit.score) for hit in self.strategy.search(query, self.k)]


def _document(record: Fact | Entry, score: float) -> Document:
    return Document(
        page_content=record.text, id=record.id, metadata=record.model_dump() | {"score": score}
    )
