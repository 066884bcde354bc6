"""A chat model that calls a provider under a policy: retries, rate limits, budget, cache, and
errors with a remedy.
"""

import inspect
import json
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, ClassVar

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LangSmithParams, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.tools import BaseTool
from pydantic import BaseModel, Field, PrivateAttr, SkipValidation
from tenacity import RetryCallState

from emend.agents.parsing.messages import (
    ReplySchema,
    cut_off_error,
    read_usage,
    reasoning_beside,
    refusal_error,
    was_cut_off,
)
from emend.agents.providers.errors.conversion import TRANSIENT, as_model_error
from emend.agents.providers.errors.rejection import find_status, retry_after
from emend.agents.providers.http_network import call_end
from emend.agents.providers.journal import call_key, in_unit, replay_or_call
from emend.agents.providers.policy import CallPolicy
from emend.agents.providers.repair import attach_responses
from emend.agents.providers.repetition import current_repeat
from emend.agents.providers.request import (
    address_of,
    build_payload,
    call_once,
    client_settings,
    reply_limit_in,
    secrets_of,
)
from emend.agents.providers.tool_binding import bound_arguments, structured_result
from emend.agents.providers.usage import ProviderUsage
from emend.agents.structured import supports_structure
from emend.memory.errors import (
    BadGeneration,
    ModelError,
    ModelReplyError,
    ProviderPaused,
    RateLimited,
)
from emend.memory.redaction import add_headers_of_user, add_secrets, hide_keys

# Fields of a request that are not recorded: prompt, reply schema, and fields that may contain a
# key.
NOT_PARAMETERS = {
    "messages", "prompt", "input", "system", "instructions", "tools", "response_format", "text",
    "output_config",
    "extra_headers",
}  # fmt: skip
# Call arguments of callers that set their own limit, or use the text of a truncated reply.
OWN_LIMIT = {"max_tokens", "max_completion_tokens", "response_format", "tools", "output_config"}
# Clients of providers that take a final assistant message as the beginning of the reply.
TAKES_PREFILL = ("ChatAnthropic",)
# Approximate characters per token, for rate limits until the reply reports the number.
CHARACTERS = 4


class ProviderChatModel(BaseChatModel):
    """A wrapper that calls any chat model under a policy; input and output are those of the inner
    model.

    Raises:
        ModelError: the call failed, for transient errors after all attempts; the class determines
            the remedy, see `agents/providers/errors`.
        ModelReplyError: the model declined, or its reply is empty.
        BudgetReached: the policy's limit of calls or cost does not allow another call.
    """

    is_local: ClassVar[bool] = False
    inner: BaseChatModel
    spec: str
    policy: SkipValidation[CallPolicy] = Field(default_factory=CallPolicy, exclude=True)
    supports_structure: bool = False
    """True if the provider is asked for structured replies; False after it has rejected such a
    request."""
    supports_stop: bool = True
    """True if the provider is sent stop texts; False after it has rejected them."""
    supports_prefill: bool = False
    """True if the provider is sent the beginning of a reply; False after it has rejected one."""
    reply_limit: int = 0
    """The user's maximum of new tokens of a reply; 0 if it is not set."""
    deadline: float = 600.0
    """Time limit of a call in seconds, including its retries and the waits between them."""
    _settings: dict[str, Any] = PrivateAttr(default_factory=dict)
    _sent: dict[str, dict[str, Any]] = PrivateAttr(default_factory=dict)
    _named: dict[str, LangSmithParams] = PrivateAttr(default_factory=dict)

    @classmethod
    def wrap(
        cls,
        inner: BaseChatModel,
        spec: str,
        policy: CallPolicy | None = None,
        settings: dict[str, Any] | None = None,
    ) -> "ProviderChatModel":
        """Wrap a provider's client so that it is called under the policy.

        Args:
            inner: the provider's client.
            spec: the model's name on the command line.
            policy: the policy; by default one without limits.
            settings: the settings that the client was created with.

        Raises:
            BadSettings: the policy limits the cost, and has no price for the model.
        """
        policy = policy or CallPolicy()
        policy.ledger.require_price(spec)
        policy.models.add(spec)
        attach_responses(inner)
        add_secrets(*secrets_of(inner))
        add_headers_of_user({name: getattr(inner, name, None) for name in type(inner).model_fields})
        # LangChain's own cache would return the same reply in every repeat.
        model = cls(
            inner=inner,
            spec=spec,
            policy=policy,
            supports_structure=supports_structure(inner),
            cache=False,
        )
        model.supports_prefill |= type(inner).__name__ in TAKES_PREFILL
        model.deadline = float((settings or {}).get("deadline", model.deadline))
        model._settings, model.reply_limit = (
            client_settings(inner, settings or {}),
            reply_limit_in(settings or {}),
        )
        return model

    @property
    def chats(self) -> bool:
        """True: prompts reach a provider as messages."""
        return True

    @property
    def _llm_type(self) -> str:
        return self.inner._llm_type

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return self.sent_parameters()

    def _get_invocation_params(
        self, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Return the cached parameters, which LangChain would compute again in every call."""
        return {**self.sent_parameters(), "_type": self._llm_type, "stop": stop, **kwargs}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        """Return provider and name of the inner model, for tracers."""
        named, call = self._named, _call_id(stop, kwargs)
        if call not in named:
            named[call] = self.inner._get_ls_params(stop=stop, **kwargs)
        return named[call].copy()  # LangChain adds to it

    @property
    def model_name(self) -> str:
        """The provider's name of the model."""
        return str(
            getattr(self.inner, "model_name", None) or getattr(self.inner, "model", self.spec)
        )

    def sent_parameters(self, stop: Sequence[str] | None = None, **kwargs: Any) -> dict[str, Any]:
        """Return the parameters that a call really sends besides the prompt, since clients omit
        unsupported ones.
        """
        sent, call = self._sent, _call_id(stop, kwargs)
        if call not in sent:
            payload = self._payload([HumanMessage("x")], stop, kwargs)
            payload |= payload.pop("extra_body", None) or {}  # sent as part of the body
            parameters = {key: value for key, value in payload.items() if key not in NOT_PARAMETERS}
            sent[call] = json.loads(json.dumps(parameters, default=str))
        return sent[call]

    def bind_tools(
        self, tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool], **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Bind tools as the inner model does."""
        return self.bind(**bound_arguments(self.inner.bind_tools(tools, **kwargs)))

    def with_structured_output(
        self, schema: dict[str, Any] | type[BaseModel], *, include_raw: bool = False, **kwargs: Any
    ) -> Runnable[LanguageModelInput, Any]:
        """Request the schema as the inner model does, but parse the reply here, so that an
        unparsable reply and its cost are kept.

        Without `include_raw` an unparsable reply raises `ModelReplyError`; with it, that error is
        `parsing_error`.
        """
        model: Runnable[LanguageModelInput, Any] = self
        if self.supports_structure:
            # If given a class, clients parse the reply themselves and raise their own errors.
            plain = schema if isinstance(schema, dict) else ReplySchema(schema).json_schema
            model = self.bind(
                **bound_arguments(
                    self.inner.with_structured_output(plain, include_raw=True, **kwargs)
                )
            )
        return model | RunnableLambda(
            lambda message: structured_result(message, schema, include_raw)
        )

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        cache, key = self.policy.cache, ""
        payload = self._payload(messages, stop, kwargs)
        if cache is not None or in_unit():
            key = call_key(self.spec, address_of(self.inner), payload, current_repeat())
        if cache is not None and (cached := cache.find(key)) is not None:
            self.policy.ledger.add(self.spec, ProviderUsage(cached=1))
            cached.response_metadata |= {"cached": True}
            cached.usage_metadata = None  # a cached reply costs nothing
            return ChatResult(generations=[ChatGeneration(message=cached)])
        self.policy.ledger.add_sent(self.spec, self.sent_parameters(stop, **kwargs))
        tokens = sum(len(str(message.text)) for message in messages) // CHARACTERS + 1
        request = partial(call_once, self.inner, messages, stop, run_manager, kwargs, payload)
        # held until the journal has the reply, so that a kill loses at most the calls in flight
        with self.policy.in_flight():
            message = replay_or_call(key, lambda: self._call(request, tokens, run_manager))
        message = self._usable(message, kwargs)
        if cache is not None:
            cache.add(key, message)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _call(
        self,
        request: Callable[[], AIMessage],
        tokens: int,
        run_manager: CallbackManagerForLLMRun | None,
    ) -> AIMessage:
        """Return the reply, retrying as long as the policy and the deadline allow."""
        exchanges = 0.0

        def exchange(waited: float, is_retry: bool) -> AIMessage:
            try:
                return exchange_once(waited, is_retry)
            # happens occasionally; if it persists, the reply is unscored
            except BadGeneration as first:
                try:
                    return exchange_once(waited, is_retry=True)
                except BadGeneration as second:
                    second.usage = first.usage.plus(second.usage)
                    raise

        def exchange_once(waited: float, is_retry: bool) -> AIMessage:
            nonlocal exchanges
            sent = self.policy.limiter.acquire(tokens)
            start = time.monotonic()
            try:
                with call_end(start + self.deadline - exchanges - waited):
                    return self._attempt(request, tokens, sent, is_retry)
            finally:
                exchanges += time.monotonic() - start

        def before_sleep(state: RetryCallState) -> None:
            self.policy.ledger.add(self.spec, ProviderUsage(seconds_waited=state.upcoming_sleep))
            self.policy.on_wait(state.upcoming_sleep, self._reason_to_wait(state))
            if run_manager is not None:
                run_manager.on_retry(state)

        def is_over(state: RetryCallState) -> bool:
            return exchanges + state.idle_for + state.upcoming_sleep > self.deadline

        for attempt in self.policy.retrying(before_sleep, is_over):
            state = attempt.retry_state
            with attempt:
                message = exchange(state.idle_for, is_retry=state.attempt_number > 1)
        if state.attempt_number > 1:
            message.response_metadata |= {
                "tries": state.attempt_number,
                "seconds_waited": round(state.idle_for, 3),
            }
        return message

    def _reason_to_wait(self, state: RetryCallState) -> str:
        error = state.outcome.exception() if state.outcome else None
        status, number = find_status(error) if error else 0, state.attempt_number
        seconds = state.upcoming_sleep
        wait = f"{seconds:.0f}" if seconds >= 10 else f"{seconds:.1f}"
        return (
            f"{status or 'no answer'} from {self.spec.partition(':')[0]}, waiting {wait} s, "
            f"attempt {number}"
        )

    def _attempt(
        self, request: Callable[[], AIMessage], tokens: int, sent: float, is_retry: bool
    ) -> AIMessage:
        """Make one attempt within the budget; `tokens` is the estimate for the rate limit, `sent`
        the time from the limiter.
        """
        policy = self.policy
        policy.ledger.start_call(self.spec, is_retry)
        try:
            message = request()
        except BaseException as error:
            known = as_model_error(error, self.spec)
            # Count a refusal or a truncated reply as an error of the provider; any other unusable
            # reply was delivered.
            policy.ledger.end_call(
                self.spec, _usage_in(known), replied=type(known) is ModelReplyError
            )
            pause = retry_after(error) or 0.0
            if isinstance(known, TRANSIENT) and pause > policy.backoff.total:
                known = _paused(known, pause)
            if isinstance(known, RateLimited):
                policy.limiter.slow_down(sent, pause)
            if known is None or known is error:
                raise
            raise known from error
        policy.limiter.passed()
        usage: Any = message.usage_metadata
        if usage is not None:
            policy.limiter.correct(tokens, usage["total_tokens"])
        policy.ledger.end_call(self.spec, usage, replied=True)
        return message

    def _usable(self, message: AIMessage, arguments: dict[str, Any]) -> AIMessage:
        """Return the message if it is usable.

        Raises:
            ModelReplyError: it is empty, truncated, or a refusal.
        """
        # no tools were requested, so nobody would run the calls
        if not {"tools", "functions"} & arguments.keys():
            message.tool_calls, message.invalid_tool_calls = [], []
        if (refusal := refusal_error(message, who=f"{self.spec}: ")) is not None:
            raise refusal
        has_content = bool(
            str(message.text).strip() or message.tool_calls or message.invalid_tool_calls
        )
        if was_cut_off(message) and not (has_content and OWN_LIMIT & arguments.keys()):
            raise cut_off_error(message, str(message.text), who=f"{self.spec}: ")
        if has_content:
            return message
        thoughts = hide_keys(reasoning_beside(message))
        beside = (
            f" beside reasoning_content {thoughts[-100:]!r}: allow more new tokens, or less effort"
        )
        detail = beside if thoughts else ""
        raise ModelReplyError(
            f"{self.spec}: expected a reply, but it is empty{detail}.", "", read_usage(message)
        )

    def _payload(
        self, messages: list[BaseMessage], stop: Sequence[str] | None, kwargs: dict[str, Any]
    ) -> dict[str, Any]:
        return build_payload(self.inner, self._settings, messages, stop, kwargs)


# cached, since LangChain reads it in every call.
_signature = inspect.signature(ProviderChatModel._generate)
ProviderChatModel._generate.__signature__ = _signature  # type: ignore[attr-defined]


def _call_id(stop: Sequence[str] | None, kwargs: dict[str, Any]) -> str:
    """Return a text that identifies the arguments of a call other than its prompt."""
    return repr((stop, sorted(kwargs.items(), key=lambda item: item[0])))


def _paused(error: ModelError, seconds: float) -> ProviderPaused:
    until = datetime.now(UTC) + timedelta(seconds=seconds)
    return ProviderPaused(
        f"{error} It asks for a pause of {timedelta(seconds=round(seconds))}: resume after "
        f"{until:%Y-%m-%d %H:%M} UTC."
    )


def _usage_in(error: ModelError | None) -> dict[str, Any] | None:
    """Return the tokens of the unusable reply in an error; None if they are unknown."""
    if not isinstance(error, ModelReplyError):
        return None
    tokens = error.usage.model_dump(include={"input_tokens", "output_tokens"})
    return tokens if any(tokens.values()) else None
