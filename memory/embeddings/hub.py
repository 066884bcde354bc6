"""Checks of model names before the Hugging Face Hub is asked; without a network its client retries
for minutes.
"""

import difflib
import os
import re
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from emend.memory.errors import BadSettings

NAME = re.compile(r"(?:\w[\w.-]*/)?\w[\w.-]*", re.ASCII)
# Maximum length of a name on the Hugging Face Hub.
LENGTH = 96
# Seconds in which the hub, or a proxy before it, must accept a connection.
SECONDS = 1.5
# Smallest similarity to a built-in name at which a name is taken for a misspelling.
MISSPELT = 0.75
# Files of which a downloaded model has at least one.
FILES = ("config.json", "modules.json")
# Owners that sentence-transformers puts before a name without one.
OWNERS = ("sentence-transformers", "cross-encoder")
# Patterns of a model's tokenizer files, and the list of its subfolders.
TOKENIZER_FILES = ("*tokenizer*.json", "modules.json")


def check_hub_name(name: str, role: str, known: str, builtin: Sequence[str] = ()) -> None:
    """Check that a name is one of the hub, and that its model can be loaded or downloaded.

    Args:
        name: name of the model on the hub, with or without its owner.
        role: what the model is called in the message.
        known: alternatives that the message suggests.
        builtin: names that are not on the hub, one of which may be misspelt.

    Raises:
        BadSettings: it is not such a name, is a misspelt one of `builtin`, or is not in the local
            cache while the hub cannot be reached.
    """
    if len(name) > LENGTH or not NAME.fullmatch(name):
        raise BadSettings(f"{role} folder '{name[:LENGTH]}' does not exist: name {known}.")
    if is_cached(name):
        return
    close = difflib.get_close_matches(name.lower(), builtin, n=1, cutoff=MISSPELT)
    if close:
        raise BadSettings(f"unknown {role} '{name}': did you mean '{close[0]}'?")
    if problem := _hub_problem():
        raise BadSettings(
            f"{role} '{name}' is not on this machine, and {problem}. Check the name, connect to "
            f"the network for the first use, or name {known}."
        )


def is_cached(name: str) -> bool:
    """Return whether the hub's local cache has the model.

    A name without an owner may be one of sentence-transformers, as their library has it.
    """
    from huggingface_hub import try_to_load_from_cache

    return any(
        isinstance(try_to_load_from_cache(each, file, _cache()), str)
        for each in _full_names(name)
        for file in FILES
    )


def tokenizer_folders(name: str) -> Iterator[Path]:
    """Yield the folders of a model's tokenizer files in the local cache, downloaded where they are
    missing; nothing for a model that cannot be downloaded.
    """
    from huggingface_hub import snapshot_download

    for each in _full_names(name):
        with suppress(OSError, ValueError):
            files = list(TOKENIZER_FILES)
            yield Path(snapshot_download(each, cache_dir=_cache(), allow_patterns=files))


def _full_names(name: str) -> tuple[str, ...]:
    """Return the names that sentence-transformers may give to a model without an owner."""
    return (name,) if "/" in name else (name, *(f"{owner}/{name}" for owner in OWNERS))


def _cache() -> str | None:
    return os.environ.get("SENTENCE_TRANSFORMERS_HOME")


def _hub_problem() -> str:
    """Return why nothing can be downloaded from the hub; "" if it can be reached."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE forbids downloading it"
    if _is_reachable(constants.ENDPOINT):
        return ""
    return f"the Hugging Face Hub ({constants.ENDPOINT}) cannot be reached"


def _is_reachable(endpoint: str) -> bool:
    """Return whether the hub, or the proxy that leads to it, accepts a connection in time."""
    hub = urlsplit(endpoint)
    proxy = getproxies().get(hub.scheme)
    server = urlsplit(proxy) if proxy and not proxy_bypass(hub.hostname or "") else hub
    address = server.hostname or "", server.port or (80 if server.scheme == "http" else 443)
    reached = threading.Event()

    def connect() -> None:
        with suppress(OSError), socket.create_connection(address, timeout=SECONDS):
            reached.set()

    # in a thread, since looking up the address has no time limit of its own
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(SECONDS)
    return reached.is_set()
