"""Tokenizers of served models: one named by the user, or the server's `/tokenize`."""

from functools import lru_cache
from typing import Any

from emend.agents.llm import hub_folder
from emend.agents.local.token_ids import Encoder, SpecialTokens, load_tokenizer
from emend.agents.served.forms import Post
from emend.memory.errors import ModelReplyError

TOKENIZE = "/tokenize"
# Number of texts whose ids are cached, since a prompt occurs with each of its targets.
TEXTS = 8192
TOKENIZER_FILES = ["*.json", "*.model", "*.txt", "*.jinja"]
LARGEST_ID = 1 << 31


def named_tokenizer(name: str) -> Any:
    """Return the Hugging Face tokenizer of a folder or hub id.

    Raises:
        ModelError: it cannot be read or downloaded.
    """
    return load_tokenizer(hub_folder(name, TOKENIZER_FILES))


def server_encoder(post: Post, model: str, window: int | None) -> Encoder:
    """Return an encoder that tokenises each text on the server.

    Raises:
        ModelError: the server has no usable `/tokenize`.
    """

    def ids_of(text: str, special: bool = False) -> list[int]:
        reply = post(TOKENIZE, {"model": model, "prompt": text, "add_special_tokens": special})
        ids = reply.get("tokens") if isinstance(reply, dict) else None
        if not isinstance(ids, list) or not all(
            type(token) is int and 0 <= token < LARGEST_ID for token in ids
        ):
            raise ModelReplyError(f"{model}: {TOKENIZE} of its server gave no token ids.")
        return ids

    @lru_cache(TEXTS)
    def cached(text: str) -> tuple[int, ...]:
        return tuple(ids_of(text)) if text else ()

    plain, special = list(cached("a")), ids_of("a", special=True)
    if not plain:  # llama.cpp uses another field than `prompt`
        raise ModelReplyError(f"{model}: {TOKENIZE} of its server gave no token ids for a letter.")
    lead = (special[0],) if special[1 : 1 + len(plain)] == plain else ()
    first = SpecialTokens(lead, lead[0] if lead else None)
    return Encoder(lambda texts: [list(cached(text)) for text in texts], first, window, model)
