"""Configuration of a session, in which a model is asked questions over a memory."""

from typing import Any

from pydantic import Field

from emend.evals.config.limits import Limits
from emend.evals.config.model_spec import ModelSpec
from emend.evals.config.overrides import MODEL, OVERRIDES


class SessionConfig(Limits):
    """A model with an editor that uses the edits of a memory."""

    model: str = Field(
        default="tiny",
        description="Model: tiny, hf:FOLDER, openai:NAME, openai:NAME@URL, anthropic:NAME or "
        "vllm:NAME@URL.",
    )
    editor: str = Field(
        default="rag", description="Memory-based editor, or unedited; see: emend list editors."
    )
    memory: str = Field(
        default="emend-memory", description="Memory: a folder, or http://HOST:PORT."
    )
    retriever: str = Field(default="dense", description="Retriever; see: emend list retrievers.")
    embedding: str | None = Field(
        default=None,
        description="The memory's embedding, if it is not auto or lexical; default: "
        "the memory's own.",
    )
    overrides: dict[str, dict[str, Any]] = Field(default={}, description=OVERRIDES)

    @property
    def model_spec(self) -> ModelSpec:
        """The model to ask."""
        return ModelSpec(self.model, self.overrides.get(MODEL, {}))
