"""Loading and unloading of LoRA adapters on a running server."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from emend.agents.served.chat_model import ServedChatModel
from emend.agents.served.connection import VERSIONED
from emend.memory.errors import BadSettings, ModelError, RequestRefused

# Path prefix of `/load_lora_adapter` and `/unload_lora_adapter` by server dialect.
PATHS = {"vllm": VERSIONED, "sglang": ""}
ALLOW = {
    "vllm": "start it with VLLM_ALLOW_RUNTIME_LORA_UPDATING=True and --enable-lora --max-lora-rank "
    "RANK --lora-target-modules MODULES",
    "sglang": "start it with --enable-lora --max-lora-rank RANK --lora-target-modules all",
}


@contextmanager
def loaded_adapter(model: ServedChatModel, name: str, folder: Path) -> Iterator[ServedChatModel]:
    """Load an adapter in PEFT's format on the server and yield the model that uses it.

    Raises:
        BadSettings: the server rejects the adapter.
        ModelError: it does not answer.
    """
    dialect = model.inner.dialect
    try:
        model.command(
            f"{PATHS[dialect]}/load_lora_adapter", {"lora_name": name, "lora_path": str(folder)}
        )
    except RequestRefused as error:
        raise BadSettings(
            f"the server of '{model.spec}' cannot load an adapter from {folder}: {error} The "
            "server must see that folder (model.lora_folder) and allow adapters: "
            f"{ALLOW[dialect]}."
        ) from error
    adapted = model.adapted(name)
    try:
        yield adapted
    finally:
        adapted.close()
        try:
            model.command(f"{PATHS[dialect]}/unload_lora_adapter", {"lora_name": name})
        except ModelError as error:  # the answers are valid even if unloading fails
            logging.getLogger(__name__).warning(
                "adapter %s stays on the server of %s: %s", name, model.spec, error
            )
