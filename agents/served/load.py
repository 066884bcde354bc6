"""Loaders of served models by server dialect."""

import os
from functools import partial
from typing import Any

from pydantic import SecretStr

from emend.agents.api_models import split_address
from emend.agents.providers.environment import clean_key
from emend.agents.served.chat_model import ServedChatModel
from emend.agents.served.client import CompletionsClient
from emend.agents.served.connection import Connection
from emend.agents.served.settings import read_settings
from emend.memory.errors import BadSettings

# Environment variables of the server key by dialect.
KEYS = {"vllm": "VLLM_API_KEY", "sglang": "SGLANG_API_KEY", "completions": "OPENAI_API_KEY"}


def load_served(dialect: str, name: str, **settings: Any) -> CompletionsClient:
    """Return the client of a model on a server of this dialect."""
    model, url = split_address(dialect, name, KEYS[dialect])
    if not model or not url:
        raise BadSettings(
            f"model '{dialect}:{name}' needs a name and an address: write "
            f"{dialect}:NAME@http://HOST:PORT/v1."
        )
    key = clean_key(
        str(settings.pop("api_key", None) or os.environ.get(KEYS[dialect], "")), KEYS[dialect]
    )
    options = read_settings(f"{dialect}:{model}", settings)
    connection = Connection(
        url, key, options.timeout, options.deadline, int(options.reply_mb * 1e6)
    )
    return CompletionsClient(
        dialect=dialect,
        model=model,
        base_url=url,
        api_key=SecretStr(key) if key else None,
        settings=options,
        connection=connection,
        connect=ServedChatModel.connect,
    )


load_vllm = partial(load_served, "vllm")
load_sglang = partial(load_served, "sglang")
load_completions = partial(load_served, "completions")
