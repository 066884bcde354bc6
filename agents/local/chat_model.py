"""A local causal language model as a LangChain chat model that also scores; calls of many threads share batches."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, ClassVar

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LangSmithParams, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

from emend.agents.local.batching import Batcher, More
from emend.agents.local.causal_lm import CausalLM, ScoredTarget
from emend.agents.local.replies import Generated
from emend.agents.parsing.messages import count_tokens
from emend.agents.parsing.tool_calls import parse_reply, render_chat, supports_tools
from emend.agents.scoring import TargetScores, join_target
from emend.memory.edit import content_id
from emend.memory.errors import BadSettings
from emend.memory.probe import LOCAL_PROVIDER, Usage

CALL_TOKENS = 256
"""Maximum new tokens of a reply that may call tools, unless the setting is higher or the call gives one."""


class LocalChatModel(BaseChatModel):
    """A chat model over a local model: a base model gets plain text, one with a chat template that template.

    A single human message to a base model is continued unchanged, and several messages are joined by blank lines. A
    prompt is scored in the same form, with the target in place of the reply. An editor that changes the weights holds
    `lm.lock` and calls `lm`, not this object, whose worker thread would wait for the lock.

    Raises:
        BadSettings: a call requests a feature that a local model does not have.
    """

    supports_structure: ClassVar[bool] = False
    """JSON is requested in the prompt: a tool call, which the model need not make, would not be more reliable."""
    is_local: ClassVar[bool] = True
    supports_prefill: ClassVar[bool] = True
    """A last message of the assistant is the beginning of the reply."""
    lm: CausalLM
    model_name: str = ""
    max_new_tokens: int = 32
    """Maximum length of a reply in tokens."""
    stop_at: tuple[str, ...] = ("\n",)
    """Stop texts for a single message to a base model; any other reply ends with the end token."""
    chat: bool | None = None
    """Use the chat template; None: if the tokenizer has one. Some base models have one."""
    gather: int = 64
    """Maximum number of calls in a batch."""
    score_apart: bool = False
    """Score the targets of each call separately: padding changes the last digits of a log-probability."""
    _batcher: Batcher[Any, Any] = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Validate the settings; the worker thread starts with the first call."""
        super().model_post_init(context)
        if self.chat and not self.lm.tokenizer.chat_template:
            raise BadSettings(f"model.chat: the tokenizer of '{self.model_name}' has no chat template; leave it out.")
        if self.gather < 1:
            raise BadSettings(f"model.gather is {self.gather}: give at least 1.")
        self._batcher = Batcher(self._score_batch, self.gather, {"reply": self._replies})

    @property
    def _llm_type(self) -> str:
        return "emend-local"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        settings = {"model": self.fingerprint, "max_new_tokens": self.max_new_tokens, "stop_at": self.stop_at}
        # Template and end tokens change replies too, and may be in files that are not part of the fingerprint.
        template = {"chat": content_id("chat", self.lm.tokenizer.chat_template)[:8]} if self.chats else {}
        return settings | {"ends": self.lm.ends} | template

    @property
    def chats(self) -> bool:
        """True if prompts go through a chat template."""
        return bool(self.lm.tokenizer.chat_template) if self.chat is None else self.chat

    @property
    def calls_tools(self) -> bool:
        """True if the chat template can show tools and the model's calls can be parsed."""
        return self.chats and supports_tools(self.lm.tokenizer)

    def bind_tools(
        self, tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool], **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """The model with tools, shown by its chat template.

        Raises:
            BadSettings: the template takes none.
        """
        if not self.calls_tools:
            raise BadSettings(f"local model '{self.model_name}' calls no tools: its chat template takes none.")
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        """Parameters for tracers; the provider is this process."""
        return {**super()._get_ls_params(stop=stop, **kwargs), "ls_provider": LOCAL_PROVIDER}

    @property
    def fingerprint(self) -> str:
        """A name that changes whenever replies may change: folder name, sha256 of weights and tokenizer, dtype."""
        return self.lm.fingerprint

    def score(self, prompt: str | Sequence[BaseMessage], targets: Sequence[str]) -> TargetScores:
        """The natural-log probability of each target, joint and by token, as the continuation of the prompt.

        With a chat template a text, unless empty, is a message and the target the beginning of the reply, or goes on
        where a last message of the assistant ends.

        Raises:
            BadData: a target is blank.
            ContextOverflow: a target alone does not fit the window.
        """
        if not isinstance(prompt, str) or (prompt and self.chats):
            prompt = self._text([HumanMessage(prompt)] if isinstance(prompt, str) else prompt)
        for target in targets:
            join_target(prompt, target)  # refuses a blank target before it joins a batch
        scored: list[ScoredTarget] = self._batcher.ask("score", [(prompt, target) for target in targets])
        prompt_tokens = max((target.prompt_tokens for target in scored), default=0)
        return TargetScores(
            log_probs=tuple(target.log_prob for target in scored),
            target_tokens=tuple(target.target_tokens for target in scored),
            token_log_probs=tuple(target.token_log_probs for target in scored),
            greedy_tokens=tuple(target.greedy_tokens for target in scored),
            cut_tokens=max((target.cut_tokens for target in scored), default=0),
            usage=Usage(input_tokens=prompt_tokens + sum(target.target_tokens for target in scored), calls=1),
        )

    def plain(self) -> "LocalChatModel":
        """This model, on the same worker thread, without its chat template: it continues plain text."""
        return self.model_copy(update={"chat": False}) if self.chats else self

    def close(self) -> None:
        """Ends the worker thread after the running batch; further calls fail."""
        self._batcher.close()

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        tools = kwargs.pop("tools", None) or []
        limit = kwargs.pop("max_new_tokens", None) or kwargs.pop("max_tokens", None)
        if kwargs:
            raise BadSettings(
                f"local model '{self.model_name}' was called with {', '.join(sorted(kwargs))}: "
                "it takes stop and max_new_tokens only, and tools where its chat template does."
            )
        continues = not self.chats and len(messages) == 1 and isinstance(messages[0], HumanMessage)
        if stop is None:
            stop = list(self.stop_at) if continues else []
        limit = limit or (max(self.max_new_tokens, CALL_TOKENS) if tools else self.max_new_tokens)
        text = self._text(messages, tools)
        reply: Generated = self._batcher.ask("reply", (text, limit, tuple(stop)))
        message = AIMessage(reply.text)
        if tools:
            ids = [token for token in reply.ids if token not in self.lm.ends]
            message = parse_reply(self.lm.tokenizer, ids, reply.text, text, tools)
        return ChatResult(generations=[ChatGeneration(message=self._with_usage(message, reply))])

    def _text(self, messages: Sequence[BaseMessage], tools: Sequence[dict[str, Any]] = ()) -> str:
        if not self.chats:
            return "\n\n".join(str(message.text) for message in messages)
        return render_chat(self.lm.tokenizer, messages, tools)

    def _with_usage(self, message: AIMessage, reply: Generated) -> AIMessage:
        """The message with token counts and finish reason."""
        message.usage_metadata = count_tokens(reply.input_tokens, reply.output_tokens)
        message.response_metadata = {
            "model_name": self.model_name,
            "cut_tokens": reply.cut_tokens,
            "finish_reason": "stop" if reply.finished else "length",
        }
        return message

    def _score_batch(self, key: Hashable, requests: Sequence[Any]) -> list[Any]:
        """The scores of each list of (prompt, target)."""
        if self.score_apart:
            return [self.lm.log_probs(pairs) for pairs in requests]
        scored = iter(self.lm.log_probs([pair for pairs in requests for pair in pairs]))
        return [[next(scored) for _ in pairs] for pairs in requests]

    def _replies(self, requests: Sequence[Any], next_requests: More[Any]) -> Iterator[tuple[int, Any]]:
        return self.lm.generate_joining(requests, next_requests)
