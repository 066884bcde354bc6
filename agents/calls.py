"""Every call to a model inside a step, as it was made: what was asked and said, tokens, time, and what was retried.

LangChain tells its callbacks of calls, whatever model is called and from which thread; a scoring model's are told here.
"""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, convert_to_openai_messages
from langchain_core.outputs import LLMResult
from langchain_core.runnables import ensure_config
from langchain_core.tracers.context import register_configure_hook
from tenacity import RetryCallState

from emend.agents.parsing.messages import finish_reason_of, usage_of
from emend.agents.providers.errors import status_of
from emend.agents.scoring import Scores, ScoringModel
from emend.memory.errors import ModelReplyError
from emend.memory.probe import LOCAL_PROVIDER, ModelCall, Retry
from emend.memory.redaction import hide_keys


@dataclass
class _Open:
    """A call that is under way; `tasks` are the node's run that makes it and, in a subgraph, those around it."""

    tasks: frozenset[str]
    told: dict[str, Any]
    began: float
    retries: list[Retry] = field(default_factory=list)


class CallRecorder(BaseCallbackHandler):
    """Keeps the calls that are made while it listens; safe for many threads."""

    run_inline = True
    ignore_chain = ignore_retriever = ignore_agent = ignore_custom_event = True

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[UUID, _Open] = {}
        self._ended: list[tuple[frozenset[str], ModelCall]] = []

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        **more: Any,
    ) -> None:
        """A chat model is asked."""
        known = metadata or {}
        asked: Any = convert_to_openai_messages(messages[0])
        told = {
            "model": str(known.get("ls_model_name", "")),
            "provider": str(known.get("ls_provider") or LOCAL_PROVIDER),
            "messages": tuple(asked),
            "at": round(time.time(), 6),
        }
        tasks = tasks_of(str(known.get("langgraph_checkpoint_ns", "")))
        with self._lock:
            self._open[run_id] = _Open(tasks, told, time.perf_counter())

    def on_retry(self, retry_state: RetryCallState, *, run_id: UUID, **more: Any) -> None:
        """An attempt failed, and another one follows."""
        error = retry_state.outcome.exception() if retry_state.outcome else None
        again = Retry(
            attempt=retry_state.attempt_number,
            wait=round(retry_state.upcoming_sleep, 3),
            error=type(error).__name__,
            status=status_of(error) if error else 0,
            at=round(time.time(), 6),
        )
        with self._lock:
            self._open[run_id].retries.append(again)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **more: Any) -> None:
        """It has replied."""
        generations = response.generations[0]
        message: Any = getattr(generations[0], "message", None) if generations else None
        said: dict[str, Any] = {}
        if isinstance(message, AIMessage):
            usage = usage_of(message)
            said = {
                "reply": convert_to_openai_messages(message),
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "cached": bool(usage.cached),
                "finish": finish_reason_of(message),
            }
        self._end(run_id, **said)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **more: Any) -> None:
        """It has not, or with a reply that is no use."""
        told: dict[str, Any] = {"error": f"{type(error).__name__}: {hide_keys(str(error))}"}
        if isinstance(error, ModelReplyError):
            told |= error.usage.model_dump(include={"input_tokens", "output_tokens"})
            told["reply"] = {"role": "assistant", "content": error.reply} if error.reply else {}
        self._end(run_id, **told)

    def _end(self, run_id: UUID, **told: Any) -> None:
        with self._lock:
            call = self._open.pop(run_id)
            ms = round((time.perf_counter() - call.began) * 1000, 3)
            made = ModelCall(**call.told, **told, ms=ms, retries=tuple(call.retries))
            self._ended.append((call.tasks, made))

    def add(self, call: ModelCall, tasks: frozenset[str] = frozenset()) -> None:
        """Add a call that LangChain does not report; `tasks` as in `_Open`."""
        with self._lock:
            self._ended.append((tasks, call))

    def rest(self) -> tuple[ModelCall, ...]:
        """All calls that nobody has taken, in the order in which they ended."""
        with self._lock:
            own, self._ended = [call for _, call in self._ended], []
        return tuple(own)

    def take(
        self, task: str = "", before: Mapping[str, Any] | None = None, after: Mapping[str, Any] | None = None
    ) -> tuple[ModelCall, ...]:
        """The calls of a node's run, which are then forgotten; those of no known run are the next taker's.

        Those that a graph within the node makes are the node's as well.

        Args:
            task: the id of the node's run.
            before: the state that the node was given; a prompt that stands there is not kept twice.
            after: what the node changed; likewise for a reply.
        """
        with self._lock:
            own = [call for tasks, call in self._ended if not tasks or task in tasks]
            self._ended = [one for one in self._ended if one[0] and task not in one[0]]
        return tuple(drop_state_texts(call, before or {}, after or {}) for call in own)


_JOURNAL: ContextVar[CallRecorder | None] = ContextVar("journal", default=None)
register_configure_hook(_JOURNAL, inheritable=True)


@contextmanager
def record_calls() -> Iterator[CallRecorder]:
    """Inside the `with` the journal hears of every call that is made from here, also from nodes in other threads."""
    kept = _JOURNAL.set(journal := CallRecorder())
    try:
        yield journal
    finally:
        _JOURNAL.reset(kept)


def score_targets(model: ScoringModel, prompt: str, targets: Sequence[str]) -> Scores:
    """`model.score`, which LangChain does not know, kept in the journal as a call.

    Raises:
        ModelError: as the model's own.
    """
    at, began = time.time(), time.perf_counter()
    scores = model.score(prompt, targets)
    if journal := _JOURNAL.get():
        journal.add(
            ModelCall(
                kind="score",
                model=str(getattr(model, "model_name", "") or type(model).__name__),
                messages=({"role": "user", "content": prompt},),
                input_tokens=scores.usage.input_tokens,
                ms=round((time.perf_counter() - began) * 1000, 3),
                at=round(at, 6),
            ),
            tasks_of(str(ensure_config().get("metadata", {}).get("langgraph_checkpoint_ns", ""))),
        )
    return scores


def tasks_of(namespace: str) -> frozenset[str]:
    """The ids of the nodes' runs that a namespace of langgraph's names: a graph's, and those of graphs within it.

    >>> sorted(tasks_of("respond:1a|ask:2b"))
    ['1a', '2b']
    """
    return frozenset(run for part in namespace.split("|") if (run := part.partition(":")[2]))


def drop_state_texts(call: ModelCall, before: Mapping[str, Any], after: Mapping[str, Any]) -> ModelCall:
    """The call without texts that the trace holds anyway: it names the field of the state instead."""
    first = call.messages[0] if len(call.messages) == 1 else {}
    alone = first.get("content") if first.get("role") == "user" else None
    changed: dict[str, Any] = {}
    if place := _field_with(alone, before):
        changed |= {"messages": (), "messages_field": place}
    plain = set(call.reply) <= {"role", "content"}
    if plain and (place := _field_with(call.reply.get("content"), after)):
        changed |= {"reply": {}, "reply_field": place}
    return call.model_copy(update=changed) if changed else call


def _field_with(text: object, state: Mapping[str, Any]) -> str:
    if not isinstance(text, str) or not text:
        return ""
    return next((name for name, value in state.items() if isinstance(value, str) and value == text), "")
