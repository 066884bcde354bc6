"""Low-rank adapters (Hu et al. 2022, LoRA), trained on the new facts and then written into the weights as one delta.

Adapters are peft's own, put on for the time of training and taken off again; their product is a delta like any other
editor's. So they are not there when the model is scored, whose dropout would make it noisy, and leaving the edit gives
the original tensors back bit for bit.
"""

import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from emend.editors.base import Materials
from emend.editors.numerics.apply_delta import Deltas
from emend.editors.numerics.architectures import architecture_of, input_first, layer_of, layers_with
from emend.editors.numerics.low_rank import Factors, dense
from emend.editors.numerics.oom_retry import halving
from emend.editors.numerics.training import Plan, Row, descend
from emend.editors.parametric.finetune import rows_of_all, seed_of
from emend.editors.parametric.quantised import check_four_bit, in_four_bit, put_module
from emend.editors.parametric.weight_editor import Solving
from emend.memory.edit import Edit
from emend.memory.embeddings.silence import silence
from emend.memory.errors import MissingExtra

ADAPTER = "emend"
Target = Literal["query", "value", "down_projection"]


@dataclass(frozen=True, kw_only=True)
class LoraSettings(Plan):
    """What decides the deltas; the shipped values per model are in `settings/lora.toml` and `settings/qlora.toml`."""

    rank: Annotated[int, Field(ge=1)]
    alpha: Annotated[float, Field(gt=0)]
    """The product of an adapter's two matrices is multiplied by this over its rank."""
    dropout: Annotated[float, Field(ge=0, lt=1)]
    """Of what enters an adapter, in training alone."""
    targets: Annotated[tuple[Target, ...], Field(min_length=1)] = ("query", "value")
    """The matrices that get adapters, by their names in `editors.architectures`."""
    layers: tuple[int, ...] = ()
    """Layers that get adapters, from 0, or from -1 at the end; none named means all that have those matrices."""
    architecture: dict[str, str | bool] = field(default_factory=dict)
    """Module paths by name, for architectures that `editors.architectures` lacks."""


class Lora(Solving):
    """Trains adapters on all edits given together, and writes their products into the weights for a while.

    What an edit is trained on is as with `editors.finetune`: its target after its prompt, which is masked, or its text.
    """

    name: ClassVar[str] = "lora"
    schema: ClassVar[type[LoraSettings]] = LoraSettings
    settings: LoraSettings

    def __init__(self, materials: Materials) -> None:
        if importlib.util.find_spec("peft") is None:
            raise MissingExtra(f"editor '{self.name}' needs a package: pip install 'emend[lora]'.")
        super().__init__(materials)
        self.paths = self._paths()

    @property
    def where(self) -> dict[str, Any]:
        """The matrices that get adapters."""
        return {"matrices": self.paths}

    def solve(self, edits: Sequence[Edit]) -> Deltas:
        """The deltas by parameter name, float64; the model is left as it is.

        Raises:
            BadData: an edit has neither target nor text.
            ModelError: the numbers overflowed; step and loss are named.
        """
        return dense(self.lm.model, self.factored(edits))

    def factored(self, edits: Sequence[Edit]) -> dict[str, Factors]:
        """What `solve` gives as thin matrices, by module path."""
        rows = rows_of_all(self.lm, edits, self.materials.wording)
        if not rows:
            return {}
        seed = seed_of(self.materials, edits)
        with self.lm.lock:
            return halving(self.lm, lambda: self._trained(rows, seed))

    def base(self) -> AbstractContextManager[None]:
        """What the model is while adapters are trained on it: itself."""
        return nullcontext()

    def _trained(self, rows: Sequence[Row], seed: int) -> dict[str, Factors]:
        with self.base(), _seeded(self.lm.device, seed), adapters(self.lm.model, self.paths, self.settings) as added:
            leaves = [weight for pair in added.values() for weight in pair]
            descend(self.lm, lambda fed: self.lm.model(**fed).logits, leaves, rows, self.settings, seed)
            scale = self.settings.alpha / self.settings.rank
            return {
                path: Factors(outward.detach().cpu() * scale, inward.detach().cpu())
                for path, (inward, outward) in added.items()
            }

    def _paths(self) -> list[str]:
        model = self.lm.model
        count = model.config.get_text_config().num_hidden_layers
        named = [layer_of(model, layer) for layer in self.settings.layers]
        found = architecture_of(model, self.settings.architecture, self.settings.targets, named or None)
        having = {name: named or layers_with(model, name, getattr(found, name)) for name in self.settings.targets}
        paths = [
            found.of_layer(layer, name)
            for layer in named or range(count)
            for name in self.settings.targets
            if layer in having[name]
        ]
        return list(dict.fromkeys(paths))  # one matrix may be both query and value


class QLora(Lora):
    """As `Lora`, with the model's matrices in 4 bits while adapters are trained (Dettmers et al. 2023, QLoRA).

    The deltas are written into the weights as the model has them, not into the 4-bit ones.
    """

    name: ClassVar[str] = "qlora"

    def __init__(self, materials: Materials) -> None:
        super().__init__(materials)
        check_four_bit(self.lm.device, self.name)

    def base(self) -> AbstractContextManager[None]:
        """The model with every matrix of its blocks in 4 bits."""
        return in_four_bit(self.lm.model)


@contextmanager
def adapters(model: Any, paths: Sequence[str], settings: LoraSettings) -> Iterator[dict[str, tuple[Tensor, Tensor]]]:
    """Inside the `with` the named modules have adapters; lends (A, B) of each, float32, by path.

    On leaving it, even by an exception, the modules, what they hold and what is trainable are as before.
    """
    with silence():
        from peft import LoraConfig
        from peft.tuners.lora import LoraModel

    first = model.get_submodule(paths[0])
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,  # type: ignore[arg-type]  # an int by its annotation, a factor by its use
        lora_dropout=settings.dropout,
        target_modules=list(paths),
        fan_in_fan_out=input_first(first),
    )
    attributes = set(vars(model))
    trainable = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    originals = {path: model.get_submodule(path) for path in paths}
    try:
        LoraModel(model, config, ADAPTER)
        yield {path: _pair(model.get_submodule(path)) for path in paths}
    finally:
        for path, module in originals.items():
            put_module(model, path, module)
        for name in set(vars(model)) - attributes:
            delattr(model, name)
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(trainable[name])


def _pair(module: Any) -> tuple[Tensor, Tensor]:
    """The two matrices of an adapter, A (rank, inputs) and B (outputs, rank), ready to be trained.

    Dropout is on in the adapter alone: the model's own would change what is being edited.
    """
    module.lora_dropout.train()
    pair = module.lora_A[ADAPTER], module.lora_B[ADAPTER]
    for linear in pair:
        linear.float().requires_grad_(True)
    return pair[0].weight, pair[1].weight


@contextmanager
def _seeded(device: torch.device, seed: int) -> Iterator[None]:
    """Draws inside the `with` depend on the seed alone, and those outside are not disturbed."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield
