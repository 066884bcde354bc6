"""Recording of all model calls: messages, reply, tokens, time and retries.

LangChain reports the calls of any model in any thread to its callbacks; scoring, which LangChain
does not have, is reported by `score_targets`.
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
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, convert_to_openai_messages
from langchain_core.outputs import LLMResult
from langchain_core.runnables import ensure_config
from langchain_core.tracers.context import register_configure_hook
from tenacity import RetryCallState

from emend.agents.parsing.messages import as_openai, read_finish_reason, read_usage
from emend.agents.providers.errors.rejection import find_status
from emend.agents.scoring import ScoringModel, TargetScores, is_local
from emend.memory.errors import ModelReplyError
from emend.memory.probe import LOCAL_PROVIDER, ModelCall, Retry
from emend.memory.redaction import hide_keys

# State field with the messages of a prompt in OpenAI's format.
TURNS = "turns"
# Metadata key of a call within a graph; its value is `NODE:TASK`, preceded by the values of
# enclosing graphs and separated by `|`.
NAMESPACE = "langgraph_checkpoint_ns"


@dataclass
class _OpenCall:
    """A call in flight; `namespace` names the node's run that makes the call, and the enclosing
    runs.
    """

    namespace: str
    fields: dict[str, Any]
    start: float
    retries: list[Retry] = field(default_factory=list)


class CallRecorder(BaseCallbackHandler):
    """A callback that records the calls made while it is active, see `record_calls`;
    thread-safe.
    """

    run_inline = True
    ignore_chain = ignore_retriever = ignore_agent = ignore_custom_event = True

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[UUID, _OpenCall] = {}
        self._ended: list[tuple[str, ModelCall]] = []

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Record the start of a call."""
        known = metadata or {}
        prompt = [_as_openai(message) for message in messages[0]]
        fields = {
            "model": str(known.get("ls_model_name", "")),
            "provider": str(known.get("ls_provider") or LOCAL_PROVIDER),
            "messages": tuple(prompt),
            "at": round(time.time(), 6),
        }
        with self._lock:
            self._open[run_id] = _OpenCall(
                str(known.get(NAMESPACE, "")), fields, time.perf_counter()
            )

    def on_retry(self, retry_state: RetryCallState, *, run_id: UUID, **kwargs: Any) -> None:
        """Record a failed attempt that is followed by another one."""
        error = retry_state.outcome.exception() if retry_state.outcome else None
        retry = Retry(
            attempt=retry_state.attempt_number,
            wait=round(retry_state.upcoming_sleep, 3),
            error=type(error).__name__,
            status=find_status(error) if error else 0,
            at=round(time.time(), 6),
        )
        with self._lock:
            self._open[run_id].retries.append(retry)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Record a call with its reply."""
        generations = response.generations[0]
        message: Any = getattr(generations[0], "message", None) if generations else None
        fields: dict[str, Any] = {}
        if isinstance(message, AIMessage):
            usage = read_usage(message)
            fields = {
                "reply": _as_openai(message),
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "cached": bool(usage.cached),
                "finish": read_finish_reason(message),
            }
        self._end(run_id, **fields)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Record a call that failed, or whose reply is unusable."""
        fields: dict[str, Any] = {"error": f"{type(error).__name__}: {hide_keys(str(error))}"}
        if isinstance(error, ModelReplyError):
            fields |= error.usage.model_dump(include={"input_tokens", "output_tokens"})
            fields["reply"] = {"role": "assistant", "content": error.reply} if error.reply else {}
        self._end(run_id, **fields)

    def _end(self, run_id: UUID, **fields: Any) -> None:
        with self._lock:
            call = self._open.pop(run_id, None)
            # a reply that was already recorded, and then turned out to be unusable
            if call is None:
                return
            ms = round((time.perf_counter() - call.start) * 1000, 3)
            record = ModelCall(**call.fields, **fields, ms=ms, retries=tuple(call.retries))
            self._ended.append((call.namespace, record))

    def add(self, call: ModelCall, namespace: str = "") -> None:
        """Add a call that LangChain does not report."""
        with self._lock:
            self._ended.append((namespace, call))

    def take(
        self,
        task: str = "",
        before: Mapping[str, Any] | None = None,
        after: Mapping[str, Any] | None = None,
    ) -> tuple[ModelCall, ...]:
        """Return and remove the calls of a node's run, in the order in which they ended.

        Includes calls of graphs within the node, and calls outside of any graph.

        Args:
            task: id of the node's run; "" takes all calls.
            before: the node's input state; a prompt that is one of its texts is replaced by the
                field's name.
            after: the node's update; likewise for a reply.
        """
        with self._lock:
            calls = [call for namespace, call in self._ended if not namespace or task in namespace]
            self._ended = [
                (namespace, call)
                for namespace, call in self._ended
                if namespace and task not in namespace
            ]
        return tuple(drop_state_texts(call, before or {}, after or {}) for call in calls)


def _as_openai(message: BaseMessage) -> dict[str, Any]:
    """Return a message in OpenAI's format, or only its text if the format does not support its
    content.
    """
    try:
        return as_openai(message)
    except (ValueError, KeyError, TypeError, AttributeError):
        return as_openai(message.model_copy(update={"content": str(message.text)}))


_RECORDER: ContextVar[CallRecorder | None] = ContextVar("recorder", default=None)
register_configure_hook(_RECORDER, inheritable=True)


@contextmanager
def record_calls() -> Iterator[CallRecorder]:
    """Record every call made inside the `with`, also from nodes in other threads."""
    recorder = CallRecorder()
    token = _RECORDER.set(recorder)
    try:
        yield recorder
    finally:
        _RECORDER.reset(token)


def score_targets(
    model: ScoringModel, prompt: str | Sequence[BaseMessage], targets: Sequence[str]
) -> TargetScores:
    """Score targets with `model.score`, and record the call.

    Raises:
        ModelError: the model raised it.
    """
    at, start = time.time(), time.perf_counter()
    scores = model.score(prompt, targets)
    if recorder := _RECORDER.get():
        sent: Any = [HumanMessage(prompt)] if isinstance(prompt, str) else list(prompt)
        call = ModelCall(
            kind="score",
            provider=_provider_of(model),
            model=str(getattr(model, "model_name", "") or type(model).__name__),
            messages=tuple(convert_to_openai_messages(sent)),
            input_tokens=scores.usage.input_tokens,
            cached=bool(scores.usage.cached),
            ms=round((time.perf_counter() - start) * 1000, 3),
            at=round(at, 6),
        )
        recorder.add(call, str(ensure_config().get("metadata", {}).get(NAMESPACE, "")))
    return scores


def _provider_of(model: Any) -> str:
    return LOCAL_PROVIDER if is_local(model) else str(model._get_ls_params().get("ls_provider", ""))


def drop_state_texts(
    call: ModelCall, before: Mapping[str, Any], after: Mapping[str, Any]
) -> ModelCall:
    """Replace a prompt and a reply that the trace already stores by the name of the state field."""
    only = call.messages[0] if len(call.messages) == 1 else {}
    changes: dict[str, Any] = {}
    if only.get("role") == "user" and (name := _field_with(only.get("content"), before)):
        changes |= {"messages": (), "messages_field": name}
    elif call.messages and list(call.messages) == before.get(TURNS):
        changes |= {"messages": (), "messages_field": TURNS}
    if set(call.reply) <= {"role", "content"} and (
        name := _field_with(call.reply.get("content"), after)
    ):
        changes |= {"reply": {}, "reply_field": name}
    return call.model_copy(update=changes) if changes else call


def _field_with(text: object, state: Mapping[str, Any]) -> str:
    if not isinstance(text, str) or not text:
        return ""
    return next(
        (name for name, value in state.items() if isinstance(value, str) and value == text), ""
    )
