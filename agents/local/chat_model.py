"""A local causal language model as a LangChain chat model that also scores; calls of many threads share batches."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LangSmithParams, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

from emend.agents.local.batching import Batcher
from emend.agents.local.causal_lm import CausalLM, Scored
from emend.agents.local.generation import Generated
from emend.agents.parsing.tool_calls import read_reply, rendered, takes_tools
from emend.agents.scoring import Scores, joined
from emend.memory.edit import content_id
from emend.memory.errors import BadSettings
from emend.memory.probe import LOCAL_PROVIDER, Usage

CALL_TOKENS = 256
"""New tokens of a reply that may call tools, unless the model's setting allows more or the call says another number."""


class LocalChatModel(BaseChatModel):
    """Speaks with a base model in plain text, and with one that has a chat template through that template.

    A lone human message to a base model is continued as it stands, and several messages are joined by blank lines. A
    prompt is scored as it would be asked: a target follows it as the reply would. While an editor changes the weights
    it holds `lm.lock` and asks `lm`, not this object, whose worker thread would wait for the lock.

    Raises:
        BadSettings: a call asks for something that a local model does not have.
    """

    supports_structure: ClassVar[bool] = False
    """It is asked for JSON in text: a call of a tool that it need not make would be no surer."""
    lm: CausalLM
    model_name: str = ""
    max_new_tokens: int = 32
    stop_at: tuple[str, ...] = ("\n",)
    """Ends the continuation of a lone message to a base model; any other reply ends with the end token alone."""
    chat: bool | None = None
    """Whether prompts go through the chat template; None is where the tokenizer has one. Some base models have one."""
    gather: int = 64
    """Calls that may share a batch."""
    score_apart: bool = False
    """Scores the targets of each call by themselves: padding changes the last digits of a log-probability."""
    _batcher: Batcher[Any, Any] = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Starts no thread yet; the first call does."""
        super().model_post_init(context)
        if self.chat and not self.lm.tokenizer.chat_template:
            raise BadSettings(f"model.chat: the tokenizer of '{self.model_name}' has no chat template; leave it out.")
        if self.gather < 1:
            raise BadSettings(f"model.gather is {self.gather}: at least 1 call must share a batch.")
        self._batcher = Batcher(self._run, self.gather)

    @property
    def _llm_type(self) -> str:
        return "emend-local"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        told = {"model": self.fingerprint, "max_new_tokens": self.max_new_tokens, "stop_at": self.stop_at}
        # Template and end tokens decide answers too, and may stand in files that no weights depend on.
        template = {"chat": content_id("chat", self.lm.tokenizer.chat_template)[:8]} if self.chats else {}
        return told | {"ends": self.lm.ends} | template

    @property
    def chats(self) -> bool:
        """Whether prompts go through a chat template."""
        return bool(self.lm.tokenizer.chat_template) if self.chat is None else self.chat

    @property
    def calls_tools(self) -> bool:
        """Whether the model is shown tools by its chat template, and its calls can be read."""
        return self.chats and takes_tools(self.lm.tokenizer)

    def bind_tools(
        self, tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool], **more: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """The model with tools, which its chat template shows it.

        Raises:
            BadSettings: the template takes none.
        """
        if not self.calls_tools:
            raise BadSettings(f"local model '{self.model_name}' calls no tools: its chat template takes none.")
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **more)

    def _get_ls_params(self, stop: list[str] | None = None, **more: Any) -> LangSmithParams:
        """What tracers are told of the model: nobody provides it but this process."""
        return {**super()._get_ls_params(stop=stop, **more), "ls_provider": LOCAL_PROVIDER}

    @property
    def fingerprint(self) -> str:
        """What decides the answers: folder name, sha256 of weights and tokenizer, number format."""
        return self.lm.fingerprint

    def score(self, prompt: str, targets: Sequence[str]) -> Scores:
        """The natural-log probability of each target, joint and by token, as the continuation of the prompt.

        With a chat template the prompt is a message and the target the beginning of the reply; an empty prompt is none.

        Raises:
            BadData: a target is blank.
            ContextOverflow: a target alone does not fit the window.
        """
        if prompt and self.chats:
            prompt = self._text([HumanMessage(prompt)])
        for target in targets:
            joined(prompt, target)  # a blank target is refused here, before it holds up others
        told: list[Scored] = self._batcher.ask("score", [(prompt, target) for target in targets])
        prompt_tokens = max((scored.prompt_tokens for scored in told), default=0)
        return Scores(
            log_probs=tuple(scored.log_prob for scored in told),
            target_tokens=tuple(scored.target_tokens for scored in told),
            token_log_probs=tuple(scored.token_log_probs for scored in told),
            cut_tokens=max((scored.cut_tokens for scored in told), default=0),
            usage=Usage(input_tokens=prompt_tokens + sum(scored.target_tokens for scored in told), calls=1),
        )

    def close(self) -> None:
        """Ends the worker thread, after the batch under way; the model answers no more."""
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
        told: Generated = self._batcher.ask((limit, tuple(stop)), text)
        message = AIMessage(told.text)
        if tools:
            ids = [token for token in told.ids if token not in self.lm.ends]
            message = read_reply(self.lm.tokenizer, ids, told.text, text, tools)
        return ChatResult(generations=[ChatGeneration(message=self._told(message, told))])

    def _text(self, messages: list[BaseMessage], tools: Sequence[dict[str, Any]] = ()) -> str:
        if not self.chats:
            return "\n\n".join(str(message.text) for message in messages)
        return rendered(self.lm.tokenizer, messages, tools)

    def _told(self, message: AIMessage, told: Generated) -> AIMessage:
        """The message, with what the reply took."""
        message.usage_metadata = {
            "input_tokens": told.input_tokens,
            "output_tokens": told.output_tokens,
            "total_tokens": told.input_tokens + told.output_tokens,
        }
        message.response_metadata = {
            "model_name": self.model_name,
            "cut_tokens": told.cut_tokens,
            "finish_reason": "stop" if told.finished else "length",
        }
        return message

    def _run(self, key: Hashable, asked: list[Any]) -> list[Any]:
        """One padded batch: of (prompt, target) lists to score, or of prompts with one limit and stop texts."""
        if isinstance(key, tuple):
            return self.lm.generate(asked, key[0], key[1])
        if self.score_apart:
            return [self.lm.log_probs(pairs) for pairs in asked]
        told = iter(self.lm.log_probs([pair for pairs in asked for pair in pairs]))
        return [[next(told) for _ in pairs] for pairs in asked]
