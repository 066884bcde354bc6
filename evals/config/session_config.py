"""Configuration of a session: what `emend ask` and the Python API answer with."""

from typing import Any

from pydantic import Field

from emend.evals.config.run_config import OVERRIDES, CallLimits


class SessionConfig(CallLimits):
    """A model under an editor, over the edits of a memory."""

    model: str = Field(
        default="tiny",
        description="Model: tiny, hf:FOLDER, openai:NAME, openai:NAME@URL, anthropic:NAME or vllm:NAME@URL.",
    )
    editor: str = Field(default="rag", description="Memory-based editor, or unedited; see: emend list editors.")
    memory: str = Field(default="emend-memory", description="Memory: a folder, or http://HOST:PORT.")
    retriever: str = Field(default="dense", description="Retriever; see: emend list retrievers.")
    embedding: str | None = Field(
        default=None, description="The memory's embedding, if it is not auto or lexical; default: the memory's own."
    )
    overrides: dict[str, dict[str, Any]] = Field(default={}, description=OVERRIDES)
