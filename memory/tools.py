"""Memories as tools and retrievers of LangChain; the tools' results are JSON, with the records of `facts.fact`."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.messages import ToolMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool, ToolException
from pydantic import create_model

from emend.memory.errors import EmendError, first_problem
from emend.memory.facts.fact import Fact, Provenance
from emend.memory.facts.operations import OPERATIONS, FactOperation
from emend.memory.retrieval.base import Entry, Hit

if TYPE_CHECKING:
    from emend.memory.facts.fact_memory import FactMemory

_UNKNOWN = Provenance()
_READING = frozenset(operation.name for operation in OPERATIONS if not operation.writes)


def fact_tools(
    memory: "FactMemory", user: str = "", writes: bool = True, shared: bool = False, origin: Provenance = _UNKNOWN
) -> list[BaseTool]:
    """The operations of a memory as tools for an agent; a bad call is answered with what is wrong with it.

    They are called with a tool call, as agents do. Where the configuration of the call has a `thread_id`, a call of the
    same id is done once; `message_id` is stored as the source of a fact, or else the id of the call.

    Args:
        memory: stays open while the tools are used.
        user: whose facts are read and written; by default `user_id` in the configuration of the call.
        writes: include the operations that change the memory.
        shared: allow changes of everybody's facts.
        origin: source and time of what is written, where the configuration names no message.
    """
    origin = origin.model_copy(update={"user": user})
    return [_as_tool(memory, origin, each, shared) for each in OPERATIONS if writes or not each.writes]


def _as_tool(memory: "FactMemory", origin: Provenance, operation: FactOperation, shared: bool) -> BaseTool:
    def run(config: RunnableConfig, tool_call_id: str, **arguments: Any) -> str:
        try:
            provenance = _provenance(config, tool_call_id, origin)
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


def _provenance(config: RunnableConfig, tool_call_id: str, origin: Provenance) -> Provenance:
    fields = config.get("configurable") or {}
    thread = str(fields.get("thread_id") or "")
    return Provenance(
        user=origin.user or str(fields.get("user_id") or ""),
        source=str(fields.get("message_id") or origin.source or f"tool call {tool_call_id}"),
        recorded_at=origin.recorded_at,
        operation_id=f"{thread}/{tool_call_id}" if thread else "",
    )


def fact_hits(result: ToolMessage) -> list[Hit]:
    """The facts in the result of a tool that reads a memory of facts, as hits of the messages that they are from."""
    if result.name not in _READING or result.status == "error":
        return []
    facts = {fact.id: fact for fact in _facts_in(json.loads(str(result.text)))}
    return [Hit(entry=Entry(id=fact.id, edit_id=fact.source, text=fact.text), score=0.0) for fact in facts.values()]


def _facts_in(value: Any) -> Iterator[Fact]:
    if isinstance(value, list):
        for each in value:
            yield from _facts_in(each)
    elif isinstance(value, dict) and {"id", "subject", "object", "recorded_at"} <= value.keys():
        yield Fact.model_validate(value)
    elif isinstance(value, dict):
        yield from _facts_in(list(value.values()))


class FactRetriever(BaseRetriever):
    """The facts that hold, as documents: their text, and the record with its score as metadata.

    Attributes:
        memory: a `FactMemory`, which stays open while the retriever is used.
        user: whose facts.
        k: maximum number of documents.
    """

    memory: Any
    user: str = ""
    k: int = 5

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return [_document(hit.fact, hit.score) for hit in self.memory.search(query, self.k, self.user)]


class EditRetriever(BaseRetriever):
    """Edits by the default strategy, as documents: the text of an entry, and its record with its score.

    Attributes:
        strategy: searches a view of a memory of edits.
        k: maximum number of documents.
    """

    strategy: Any
    k: int = 5

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return [_document(hit.entry, hit.score) for hit in self.strategy.search(query, self.k)]


def _document(record: Fact | Entry, score: float) -> Document:
    return Document(page_content=record.text, id=record.id, metadata=record.model_dump() | {"score": score})
