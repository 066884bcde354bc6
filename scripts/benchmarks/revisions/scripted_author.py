"""A chat model that writes and judges in constructions: what it says depends on what is asked alone."""

from types import SimpleNamespace
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import SimpleChatModel
from langchain_core.messages import BaseMessage


class ScriptedAuthor(SimpleChatModel):
    """Replies as the author of the tests does; it is that of the revision under test."""

    @property
    def _llm_type(self) -> str:
        return "scripted-author"

    def _call(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **settings: Any,
    ) -> str:
        from tests.evals.construction.authors import author  # a revision without it only lacks this model

        prompt = "\n".join(str(message.text) for message in messages)
        asked: Any = SimpleNamespace(prompt=prompt)
        return author(asked)
