"""Loaders of served models, by the dialect of their server."""

import os
from typing import Any

from pydantic import SecretStr

from emend.agents.llm import split_address
from emend.agents.providers.environment import clean_key
from emend.agents.served.chat_model import ServedChatModel
from emend.agents.served.client import CompletionsClient
from emend.agents.served.connection import Connection
from emend.agents.served.settings import read_settings
from emend.memory.errors import BadSettings

KEYS = {"vllm": "VLLM_API_KEY", "sglang": "SGLANG_API_KEY", "completions": "OPENAI_API_KEY"}
"""Environment variables with the key of a server of each dialect."""


def load_vllm(name: str, **settings: Any) -> CompletionsClient:
    """Return the client of a model on a vLLM server."""
    return _client("vllm", name, settings)


def load_sglang(name: str, **settings: Any) -> CompletionsClient:
    """Return the client of a model on an SGLang server."""
    return _client("sglang", name, settings)


def load_completions(name: str, **settings: Any) -> CompletionsClient:
    """Return the client of a model on any server with OpenAI's completions of plain text."""
    return _client("completions", name, settings)


def _client(dialect: str, name: str, settings: dict[str, Any]) -> CompletionsClient:
    model, url = split_address(dialect, name, KEYS[dialect])
    if not model or not url:
        raise BadSettings(
            f"model '{dialect}:{name}' needs a name and an address: write {dialect}:NAME@http://HOST:PORT/v1."
        )
    key = clean_key(str(settings.pop("api_key", None) or os.environ.get(KEYS[dialect], "")), KEYS[dialect])
    options = read_settings(f"{dialect}:{model}", settings)
    connection = Connection(url, key, options.timeout, options.deadline, int(options.reply_mb * 1e6))
    return CompletionsClient(
        dialect=dialect,
        model=model,
        base_url=url,
        api_key=SecretStr(key) if key else None,
        settings=options,
        connection=connection,
        connect=ServedChatModel.connect,
    )
