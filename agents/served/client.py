"""LangChain client for plain-text completions of a server, with one request per reply."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LangSmithParams
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import SecretStr, SkipValidation

from emend.agents.served.connection import VERSIONED, Connection, reply_message
from emend.agents.served.settings import ServedSettings

COMPLETIONS = f"{VERSIONED}/completions"
# Parameters by dialect: vLLM takes missing parameters from the model's `generation_config.json`.
NEUTRAL = {"vllm": {"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}}
# Key in a message's `additional_kwargs` for the prompt's token ids.
TOKEN_IDS = "token_ids"


class CompletionsClient(BaseChatModel):
    """A client for plain continuations by a served model; `ServedChatModel` builds the prompts.

    The prompt is the token ids in the first message, or else its text.
    """

    dialect: str
    model: str
    """The server's name of the model, or of an adapter on it."""
    base: str = ""
    """The name of the model that the adapter belongs to; empty for a model of its own."""
    base_url: str
    api_key: SecretStr | None = None
    settings: ServedSettings
    connection: SkipValidation[Connection]
    connect: SkipValidation[Callable[..., BaseChatModel]]
    """Makes the model that asks this client under a policy."""

    @property
    def _llm_type(self) -> str:
        return "emend-served"

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        """Return the dialect as provider, and the model's name, for tracers."""
        return {
            **super()._get_ls_params(stop=stop, **kwargs),
            "ls_provider": self.dialect,
            "ls_model_name": self.model,
        }

    @property
    def naming(self) -> dict[str, str]:
        """The request fields that name the model; SGLang has a separate field for the adapter's
        name.
        """
        if self.dialect == "sglang" and self.base:
            return {"model": self.base, "lora_path": self.model}
        return {"model": self.model}

    def under_policy(self, spec: str, policy: Any, settings: Mapping[str, Any]) -> BaseChatModel:
        """Return a model that calls this client under a policy."""
        return self.connect(self, spec, policy, dict(settings))

    def _get_request_payload(
        self,
        messages: Sequence[BaseMessage],
        stop: Sequence[str] | None = None,
        max_tokens: int = 0,
        **kwargs: Any,
    ) -> dict[str, Any]:
        ids = messages[0].additional_kwargs.get(TOKEN_IDS)
        body: dict[str, Any] = {
            **self.naming,
            "prompt": str(messages[0].text) if ids is None else list(ids),
        }
        body |= NEUTRAL.get(self.dialect, {}) | self.settings.parameters
        body["max_tokens"] = max_tokens or self.settings.max_new_tokens
        return body | ({"stop": list(stop)} if stop else {}) | kwargs

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        reply = self.connection.post(
            COMPLETIONS, self._get_request_payload(messages, stop, **kwargs)
        )
        (choice,) = reply["choices"]
        text, finish = choice["text"], choice.get("finish_reason")
        if not isinstance(text, str):
            raise TypeError(f"the text of the reply is {text!r:.60}")
        message = reply_message({"usage": reply.get("usage")}, text)
        message.additional_kwargs = {}
        message.response_metadata = {
            "model_name": self.model,
            "finish_reason": str(finish or "stop"),
        }
        return ChatResult(generations=[ChatGeneration(message=message)])
