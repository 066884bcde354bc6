"""A local causal language model as a LangChain chat model that also scores targets; calls of many
threads share batches.
"""

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
from emend.agents.parsing.tool_calls import parse_reply, supports_tools
from emend.agents.scoring import TargetScores, join_target
from emend.agents.templates.chat_template import THOUGHT_TOKENS, ChatTemplate
from emend.agents.templates.thoughts import Thoughts, thought_room
from emend.memory.edit import content_id
from emend.memory.errors import BadSettings
from emend.memory.probe import LOCAL_PROVIDER, Usage

# Maximum new tokens of a reply that may call tools, unless the setting is higher or the call sets a
# limit.
CALL_TOKENS = 256


class LocalChatModel(BaseChatModel):
    """A chat model over a local model: a base model gets plain text, one with a chat template that
    template.

    A single human message to a base model is continued unchanged, and several messages are joined
    by blank lines. A prompt is scored in the same form, with the target in place of the reply. An
    editor that changes the weights holds `lm.lock` and calls `lm`, not this object, whose worker
    thread would wait for the lock.

    Raises:
        BadSettings: a call requests a feature that a local model does not have.
    """

    supports_structure: ClassVar[bool] = False
    """JSON is requested in the prompt: a tool call, which the model need not make, would not be
    more reliable."""
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
    """Score the targets of each call separately: padding changes the last digits of a
    log-probability."""
    template: dict[str, Any] = {}
    """Options of the chat template, such as `enable_thinking`, or `date` for a template that
    otherwise writes today's date."""
    thought_tokens: int = THOUGHT_TOKENS
    """Maximum length of a reply's thoughts in tokens, for models that write thoughts."""
    _batcher: Batcher[Any, Any] = PrivateAttr()
    _template: ChatTemplate = PrivateAttr()
    _observed: bool = PrivateAttr(default=False)

    def model_post_init(self, context: Any, /) -> None:
        """Validate the settings; the worker thread starts with the first call."""
        super().model_post_init(context)
        if self.chat and not self.lm.tokenizer.chat_template:
            raise BadSettings(
                f"model.chat: the tokenizer of '{self.model_name}' has no chat "
                "template; leave it out."
            )
        if self.gather < 1:
            raise BadSettings(f"model.gather is {self.gather}: give at least 1.")
        if self.thought_tokens < 1:
            raise BadSettings(f"model.thought_tokens is {self.thought_tokens}: give at least 1.")
        self._template = ChatTemplate(self.lm.tokenizer, self.template, self.model_name)
        if self.chats:
            self._template.warn()
        self._batcher = Batcher(self._score_batch, self.gather, {"reply": self._replies})

    @property
    def _llm_type(self) -> str:
        return "emend-local"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        settings = {
            "model": self.fingerprint,
            "max_new_tokens": self.max_new_tokens,
            "stop_at": self.stop_at,
        }
        # The template and the end tokens change replies too, and may be in files that the weights'
        # digest does not cover.
        template = (
            {"chat": content_id("chat", self.lm.tokenizer.chat_template)[:8]} if self.chats else {}
        )
        options = {"options": self._template.suffix} if self.chats and self._template.suffix else {}
        return settings | {"ends": self.lm.ends} | template | options

    @property
    def chats(self) -> bool:
        """True if prompts are rendered with a chat template."""
        return bool(self.lm.tokenizer.chat_template) if self.chat is None else self.chat

    @property
    def calls_tools(self) -> bool:
        """True if the chat template supports tools and the model's calls can be parsed."""
        return self.chats and supports_tools(self.lm.tokenizer)

    def bind_tools(
        self, tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool], **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return the model with tools, which its chat template renders.

        Raises:
            BadSettings: the template does not support tools.
        """
        if not self.calls_tools:
            raise BadSettings(
                f"local model '{self.model_name}' cannot call tools: its chat template does not "
                "support them."
            )
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        """Return parameters for tracers, with a local provider."""
        return {**super()._get_ls_params(stop=stop, **kwargs), "ls_provider": LOCAL_PROVIDER}

    @property
    def fingerprint(self) -> str:
        """An id that changes whenever replies may change: folder name, SHA-256 of weights, dtype,
        template options.
        """
        return self.lm.fingerprint + self._template.suffix

    def _rendering(self) -> ChatTemplate:
        """Return the chat template, after checking whether the model writes thoughts."""
        template = self._template
        if not self._observed:
            template.observe(self._first_text)
            template.warn()
            self._observed = True
        return template

    def _first_text(self, prompt: str) -> str:
        """Return the first tokens of a reply, including special tokens."""
        reply: Generated = self._batcher.ask("reply", (prompt, 2, ()))
        return str(self.lm.tokenizer.decode(list(reply.ids), skip_special_tokens=False))

    def score(self, prompt: str | Sequence[BaseMessage], targets: Sequence[str]) -> TargetScores:
        """Return the natural-log probability of each target as the continuation of the prompt,
        joint and per token.

        With a chat template, a non-empty text is a message, and the target is the beginning of the
        reply, or continues a final assistant message.

        Raises:
            BadData: a target is blank.
            ContextOverflow: a target alone does not fit the window.
        """
        if not isinstance(prompt, str) or (prompt and self.chats):
            prompt = self._answer_text(
                [HumanMessage(prompt)] if isinstance(prompt, str) else prompt
            )
        for target in targets:
            join_target(prompt, target)  # rejects a blank target before it joins a batch
        scored: list[ScoredTarget] = self._batcher.ask(
            "score", [(prompt, target) for target in targets]
        )
        prompt_tokens = max((target.prompt_tokens for target in scored), default=0)
        return TargetScores(
            log_probs=tuple(target.log_prob for target in scored),
            target_tokens=tuple(target.target_tokens for target in scored),
            token_log_probs=tuple(target.token_log_probs for target in scored),
            greedy_tokens=tuple(target.greedy_tokens for target in scored),
            likely_tokens=tuple(target.likely_tokens for target in scored),
            cut_tokens=max((target.cut_tokens for target in scored), default=0),
            usage=Usage(
                input_tokens=prompt_tokens + sum(target.target_tokens for target in scored), calls=1
            ),
        )

    def plain(self) -> "LocalChatModel":
        """Return this model without its chat template, on the same worker thread; it continues
        plain text.
        """
        return self.model_copy(update={"chat": False}) if self.chats else self

    def close(self) -> None:
        """End the worker thread after the running batch; further calls fail."""
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
                f"local model '{self.model_name}' was called with {', '.join(sorted(kwargs))}: it "
                "accepts only stop and max_new_tokens, and tools if its chat template supports "
                "them."
            )
        continues = not self.chats and len(messages) == 1 and isinstance(messages[0], HumanMessage)
        if stop is None:
            stop = list(self.stop_at) if continues else []
        limit = limit or (max(self.max_new_tokens, CALL_TOKENS) if tools else self.max_new_tokens)
        text = self._text(messages, tools)
        thoughts = self._rendering().thoughts_in(messages) if self.chats else None
        prefilled = messages[-1].type == "ai" if messages else False
        if thoughts and not prefilled:
            reply = self._with_thoughts(thoughts, text, limit, tuple(stop))
        else:
            reply = self._batcher.ask("reply", (text, limit, tuple(stop)))
        message = AIMessage(reply.text)
        if tools:
            ids = [token for token in reply.ids if token not in self.lm.ends]
            message = parse_reply(self.lm.tokenizer, ids, reply.text, text, tools)
        return ChatResult(generations=[ChatGeneration(message=self._with_usage(message, reply))])

    def _text(self, messages: Sequence[BaseMessage], tools: Sequence[dict[str, Any]] = ()) -> str:
        if not self.chats:
            return "\n\n".join(str(message.text) for message in messages)
        return self._rendering().render(messages, tools)

    def _answer_text(self, messages: Sequence[BaseMessage]) -> str:
        """Return the prompt up to the position of the answer, after the thoughts of a model that
        writes them.
        """
        return self._rendering().render_answer(messages) if self.chats else self._text(messages)

    def _with_thoughts(
        self, thoughts: Thoughts, text: str, limit: int, stop: tuple[str, ...]
    ) -> Generated:
        """Return a reply with additional tokens for its thoughts, in which stop texts are
        ignored.
        """
        room = thought_room(self.thought_tokens, limit, self.lm.window)
        reply: Generated = self._batcher.ask("reply", (text, limit + room, ()))
        return reply._replace(text=thoughts.cut(thoughts.complete(reply.text), stop))

    def _with_usage(self, message: AIMessage, reply: Generated) -> AIMessage:
        """Return the message with token counts and finish reason."""
        message.usage_metadata = count_tokens(reply.input_tokens, reply.output_tokens)
        message.response_metadata = {
            "model_name": self.model_name,
            "cut_tokens": reply.cut_tokens,
            "finish_reason": "stop" if reply.finished else "length",
        }
        return message

    def _score_batch(self, key: Hashable, requests: Sequence[Any]) -> list[Any]:
        """Return the scores of each list of (prompt, target)."""
        if self.score_apart:
            return [self.lm.log_probs(pairs) for pairs in requests]
        scored = iter(self.lm.log_probs([pair for pairs in requests for pair in pairs]))
        return [[next(scored) for _ in pairs] for pairs in requests]

    def _replies(
        self, requests: Sequence[Any], next_requests: More[Any]
    ) -> Iterator[tuple[int, Any]]:
        return self.lm.generate_joining(requests, next_requests)
