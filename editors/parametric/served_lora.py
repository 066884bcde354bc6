"""LoRA adapters of a served model, trained here on the same weights and loaded by its server.

They are written in PEFT's format.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any
from uuid import uuid4

from safetensors.torch import save_file

from emend.agents.llm import load_model
from emend.agents.local.chat_model import LocalChatModel
from emend.agents.served.adapters import PATHS, loaded_adapter
from emend.agents.served.chat_model import ScoringServedModel, ServedChatModel
from emend.agents.served.self_check import SAMPLE, agree
from emend.editors.numerics.apply_delta import Deltas
from emend.editors.numerics.architectures import input_first
from emend.editors.numerics.low_rank import LowRankDelta
from emend.memory.errors import BadSettings
from emend.memory.files import tensor_write

# Prefix of an adapter's tensor names.
ROOT_OF_PEFT = "base_model.model."


class AdapterServer:
    """A served model that can load adapters, and a local copy of its weights for training them.

    Args:
        model: the served model, whose settings name a folder and the weights.
        editor: name of the editor, for messages.

    Raises:
        BadSettings: a setting is missing, or the local weights are not the served ones.
    """

    def __init__(self, model: ServedChatModel, editor: str) -> None:
        settings = model.inner.settings
        if (
            model.inner.dialect not in PATHS
            or model.inner.base
            or not (settings.lora_folder and settings.lora_base)
        ):
            raise BadSettings(
                f"editor '{editor}' on served model '{model.spec}' needs a vllm: or sglang: model "
                "without adapter, a local copy of its weights, and a folder that both can "
                "access: --set model.lora_base=FOLDER-OR-ID --set model.lora_folder=FOLDER."
            )
        self.model, self.folder = model, Path(settings.lora_folder).expanduser().absolute()
        self.trained = training_model(settings.lora_base)
        self.training = Lock()
        if isinstance(model, ScoringServedModel) and not _same_weights(model, self.trained):
            raise BadSettings(
                f"model.lora_base: {settings.lora_base} has other weights, or another tokenizer, "
                f"than '{model.spec}': an adapter trained on it would not fit there."
            )

    @contextmanager
    def serve(self, deltas: Deltas) -> Iterator[ServedChatModel]:
        """Serve the model with these deltas as an adapter inside the `with`.

        Raises:
            BadSettings: the server refuses the adapter.
            ModelError: the server does not answer.
        """
        if not deltas:
            yield self.model
            return
        name = f"emend-{uuid4().hex}"
        folder = self.folder / name
        try:
            save_adapter(folder, deltas, self.trained.lm.model)
            with loaded_adapter(self.model, name, folder) as served:
                yield served
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@lru_cache(1)
def training_model(base: str) -> LocalChatModel:
    """Return the local model of a folder or Hugging Face id, shared by all editors of a run."""
    model = load_model(f"hf:{base}")
    assert isinstance(model, LocalChatModel)
    return model


def save_adapter(folder: Path, deltas: Deltas, model: Any) -> None:
    """Write low-rank deltas as a LoRA adapter in PEFT's format."""
    from peft import LoraConfig

    tensors, paths, rank = {}, [], 0
    for name, delta in deltas.items():
        assert isinstance(delta, LowRankDelta)
        path, rank = name.removesuffix(".weight"), len(delta.right)
        paths.append(path)
        tensors[f"{ROOT_OF_PEFT}{path}.lora_A.weight"] = delta.right.contiguous()
        tensors[f"{ROOT_OF_PEFT}{path}.lora_B.weight"] = delta.left.contiguous()
    config = LoraConfig(
        r=rank,
        lora_alpha=rank,  # a scale of 1: the deltas are already scaled
        target_modules=sorted({path.rpartition(".")[2] for path in paths}),
        fan_in_fan_out=input_first(model.get_submodule(paths[0])),
        task_type="CAUSAL_LM",
        base_model_name_or_path=str(model.name_or_path),
        inference_mode=True,
    )
    folder.mkdir(parents=True)
    config.save_pretrained(str(folder))
    with tensor_write(folder):
        save_file(tensors, folder / "adapter_model.safetensors")


def _same_weights(model: ScoringServedModel, trained: LocalChatModel) -> bool:
    scores = [list(row) for row in model.score("", [SAMPLE]).token_log_probs]
    expected = [list(row) for row in trained.score("", [SAMPLE]).token_log_probs]
    if [len(row) for row in scores] != [len(row) for row in expected]:
        return False
    return agree(scores, expected)
