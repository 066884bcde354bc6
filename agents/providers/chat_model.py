"""The one layer between Emend and a provider: retries, limits, budget, kept replies, and errors one can act on."""

import json
from collections.abc import Callable, Sequence
from typing import Any, cast

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LangSmithParams, LanguageModelInput
from langchain_core.language_models.chat_models import generate_from_stream
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.tools import BaseTool
from pydantic import BaseModel, Field, PrivateAttr, SecretStr, SkipValidation
from tenacity import RetryCallState

from emend.agents.parsing.messages import Shape, cut_off, ended, refusal_of, usage_of, was_cut
from emend.agents.providers.binding import bound, told
from emend.agents.providers.errors import TRANSIENT, BrokenReply, as_model_error, retry_after
from emend.agents.providers.journal import call_key, in_unit, replay_or_call
from emend.agents.providers.policy import CallPolicy, current_repeat
from emend.agents.providers.repair import mended, unreadable_call
from emend.agents.providers.request import address_of, held_by, limit_in, payload_of
from emend.agents.providers.usage import Spent
from emend.agents.structured import supports_structure
from emend.memory.errors import ModelError, ModelReplyError, RateLimited, ReplyRefused
from emend.memory.redaction import hide_keys

TEXTS = {"messages", "input", "system", "instructions", "tools", "response_format", "text", "output_config"}
"""What of a request is no parameter: the prompt and the form of the reply."""
OWN_LIMIT = {"max_tokens", "max_completion_tokens", "response_format", "tools", "output_config"}
"""A call with one of these limits its reply itself, or reads what there is of it."""
UNREADABLE = (ValueError, TypeError, LookupError, AttributeError)
"""What clients stumble with over a body that is not what they expect, a page in HTML, an error with status 200."""
CHARACTERS = 4
"""Of one token, about: for limits, until the reply tells the number."""


class AskedModel(BaseChatModel):
    """Any chat model, asked through a policy; what it is given and what it returns are those of the inner model.

    Raises:
        ModelError: of the class that says what to do, see `agents/providers/errors.py`; a
            transient one only after all waits.
        ModelReplyError: the model declined, or its reply is empty.
        BudgetReached: the policy's limit of calls or cost does not allow another call.
    """

    inner: BaseChatModel
    spec: str
    policy: SkipValidation[CallPolicy] = Field(default_factory=CallPolicy, exclude=True)
    supports_structure: bool = False
    """Whether the provider is asked for structured replies; no more after it has rejected such a request."""
    supports_stop: bool = True
    """Whether the provider is sent stop texts; no more after it has rejected them."""
    reply_limit: int = 0
    """New tokens of a reply at most, as the user has set them; 0 where nothing is set."""
    _held: dict[str, Any] = PrivateAttr(default_factory=dict)
    _sent: dict[str, dict[str, Any]] = PrivateAttr(default_factory=dict)

    @classmethod
    def around(
        cls, inner: BaseChatModel, spec: str, policy: CallPolicy | None = None, settings: dict[str, Any] | None = None
    ) -> "AskedModel":
        """The model of that name on the command line, asked through the policy; the settings are what it was made with.

        Raises:
            BadSettings: the policy limits the cost, and has no price for the model.
        """
        policy = policy or CallPolicy.of()
        policy.ledger.admit(spec)
        policy.models.add(spec)
        # LangChain's own cache would answer every repeat with the same reply.
        made = cls(inner=inner, spec=spec, policy=policy, supports_structure=supports_structure(inner), cache=False)
        made._held, made.reply_limit = held_by(inner, settings or {}), limit_in(settings or {})
        return made

    @property
    def _llm_type(self) -> str:
        return self.inner._llm_type

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return self.sent_parameters()

    def _get_ls_params(self, stop: list[str] | None = None, **more: Any) -> LangSmithParams:
        """What tracers are told of the model: provider and name of the inner one."""
        return self.inner._get_ls_params(stop=stop, **more)

    @property
    def model_name(self) -> str:
        """The provider's name of the model."""
        return str(getattr(self.inner, "model_name", None) or getattr(self.inner, "model", self.spec))

    def sent_parameters(self, stop: Sequence[str] | None = None, **more: Any) -> dict[str, Any]:
        """What a call is really sent with besides the prompt: clients leave out what they think a model refuses."""
        asked = repr((stop, sorted(more.items(), key=lambda item: item[0])))
        if asked not in self._sent:
            payload = self._payload([HumanMessage("x")], stop, more)
            payload |= payload.pop("extra_body", None) or {}  # part of what goes over the wire
            kept = {key: value for key, value in payload.items() if key not in TEXTS and key != "extra_headers"}
            self._sent[asked] = json.loads(json.dumps(kept, default=str))
        return self._sent[asked]

    def bind_tools(
        self, tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool], **more: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """As the inner model, asked through the policy."""
        return self.bind(**bound(self.inner.bind_tools(tools, **more)))

    def with_structured_output(
        self, schema: dict[str, Any] | type[BaseModel], *, include_raw: bool = False, **more: Any
    ) -> Runnable[LanguageModelInput, Any]:
        """As the inner model, asked through the policy; the reply is read here, so that it and its cost are never lost.

        Without `include_raw` an unreadable reply raises `ModelReplyError`; with it, it stands beside `parsing_error`.
        """
        asked: Runnable[LanguageModelInput, Any] = self
        if self.supports_structure:
            plain = (
                schema if isinstance(schema, dict) else Shape(schema).json_schema
            )  # clients parse into a class, and raise
            asked = self.bind(**bound(self.inner.with_structured_output(plain, include_raw=True, **more)))
        return asked | RunnableLambda(lambda message: told(message, schema, include_raw))

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        cache, key = self.policy.cache, ""
        if cache is not None or in_unit():
            payload = self._payload(messages, stop, kwargs)
            key = call_key(self.spec, address_of(self.inner), payload, current_repeat())
        if cache is not None and (cached := cache.find(key)) is not None:
            self.policy.ledger.kept(self.spec)
            cached.response_metadata |= {"cached": True}
            cached.usage_metadata = None  # it cost nothing
            return ChatResult(generations=[ChatGeneration(message=cached)])
        self.policy.ledger.note_sent(self.spec, self.sent_parameters(stop, **kwargs))
        message = replay_or_call(key, lambda: self._ask(messages, stop, run_manager, kwargs))
        message = self._usable(message, kwargs)
        if cache is not None:
            cache.add(key, message)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _ask(
        self, messages: list[BaseMessage], stop: list[str] | None, run_manager: Any, kwargs: dict[str, Any]
    ) -> AIMessage:
        """The reply, after as many attempts as the policy allows."""
        policy, attempt, waited = self.policy, 1, 0.0
        tokens = sum(len(str(message.text)) for message in messages) // CHARACTERS + 1
        while True:
            sent = policy.limiter.wait(tokens)
            policy.ledger.begin(self.spec, again=attempt > 1)
            try:
                message = asked_once(self.inner, messages, stop, run_manager, kwargs)
            except BaseException as error:
                wait, known = self._after(error, sent, attempt, waited)
                _tell_retry(run_manager, attempt, waited, wait, known)
                policy.ledger.note(self.spec, Spent(seconds_waited=wait))
                policy.pause(wait)
                attempt, waited = attempt + 1, waited + wait
                continue
            used: Any = message.usage_metadata
            if used is not None:
                policy.limiter.settle(tokens, used["total_tokens"])
            policy.ledger.end(self.spec, used, replied=True)
            if attempt > 1:
                message.response_metadata |= {"tries": attempt, "seconds_waited": round(waited, 3)}
            return message

    def _after(self, error: BaseException, sent: float, attempt: int, waited: float) -> tuple[float, ModelError]:
        """Seconds until the next attempt after an error, and what it was; or raises the error to give up with."""
        policy = self.policy
        known = as_model_error(error, self.spec, *keys_of(self.inner))
        usage = known.usage if isinstance(known, ModelReplyError) else None
        used = usage.model_dump(include={"input_tokens", "output_tokens"}) if usage else None
        came = type(known) is ModelReplyError  # and is no use; a refusal or a cut is told by an error of the provider's
        policy.ledger.end(self.spec, used if used and any(used.values()) else None, replied=came)
        if known is None:
            raise error
        asked = retry_after(error)
        limited = isinstance(known, RateLimited)
        if limited:
            policy.limiter.slow_down(sent, min(asked or 0.0, policy.waiting.patience))
        wait = policy.waiting.before(attempt + 1, waited, asked, limited) if isinstance(known, TRANSIENT) else None
        if wait is None:
            raise known from (error if known is not error else error.__cause__)
        if known is not error:
            known.__cause__ = error
        return wait, known

    def _usable(self, message: AIMessage, asked: dict[str, Any]) -> AIMessage:
        declined, usage = refusal_of(message), usage_of(message)
        if declined is not None:
            shown = hide_keys(declined)[:200]
            raise ReplyRefused(f"{self.spec}: the model declined to answer: {shown!r}.", declined, usage)
        said = bool(str(message.text).strip() or message.tool_calls or message.invalid_tool_calls)
        if was_cut(message) and not (said and OWN_LIMIT & asked.keys()):
            raise cut_off(message, str(message.text), who=f"{self.spec}: ")
        if said:
            return message
        raise ModelReplyError(f"{self.spec}: expected a reply, and it is empty.", "", usage)

    def _payload(self, messages: list[BaseMessage], stop: Sequence[str] | None, more: dict[str, Any]) -> dict[str, Any]:
        return payload_of(self.inner, self._held, messages, stop, more)


def asked_once(
    inner: BaseChatModel,
    messages: list[BaseMessage],
    stop: Sequence[str] | None,
    run_manager: Any,
    more: dict[str, Any],
) -> AIMessage:
    """One attempt through the provider's client; raises what the client raises."""
    streamed = bool(getattr(inner, "streaming", False))
    asked: dict[str, Any] = {"stop": None if stop is None else list(stop), "run_manager": run_manager, **more}
    try:
        if streamed:
            result = generate_from_stream(inner._stream(messages, **asked))
        else:
            result = inner._generate(messages, **asked)
        message = result.generations[0].message
    except UNREADABLE as error:
        if (call := unreadable_call(error)) is not None:
            raise call from error
        # A parameter that the client does not take ("unexpected keyword argument") is no reply.
        if not hasattr(inner, "_get_request_payload") or as_model_error(error, "") or "argument" in str(error):
            raise
        raise BrokenReply(error) from error
    assert isinstance(message, AIMessage)
    ending = (result.llm_output or {}) | (result.generations[0].generation_info or {})
    message.response_metadata = ending | message.response_metadata
    status = message.response_metadata.get("status")
    if hasattr(inner, "_get_request_payload") and (streamed or status) and not ended(message):
        # Clients take it for the whole.
        raise ConnectionError(f"the reply is '{status}'" if status else "the stream broke off before the reply ended")
    return mended(message)


def keys_of(inner: BaseChatModel) -> list[str]:
    """Keys that were given as settings, to be kept out of messages."""
    held = [getattr(inner, name, None) for name in type(inner).model_fields]
    return [value.get_secret_value() for value in held if isinstance(value, SecretStr)]


def _tell_retry(run_manager: Any, attempt: int, waited: float, wait: float, error: ModelError) -> None:
    """Tells LangChain's callbacks, Emend's journal among them, that a call is made again."""
    if run_manager is None:
        return
    state = RetryCallState(cast(Any, None), None, (), {})
    state.attempt_number, state.idle_for, state.upcoming_sleep = attempt, waited, wait
    state.set_exception((type(error), error, error.__traceback__))
    run_manager.on_retry(state)
