"""LoRA (Hu et al. 2022): low-rank adapters trained on new facts and added to the weights as deltas.

The adapters are those of peft; they are removed after training, so that dropout does not affect
scoring.
"""

import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field
from torch import Tensor

from emend.agents.local.offload import is_offloaded
from emend.agents.served.chat_model import ServedChatModel
from emend.editors.answerers import direct_answerer
from emend.editors.base import Answerer, ApplyMore, EditorContext
from emend.editors.cost import count_tokens
from emend.editors.numerics.apply_delta import Deltas
from emend.editors.numerics.architectures import (
    find_architecture,
    input_first,
    layers_with,
    resolve_layer,
)
from emend.editors.numerics.low_rank import LowRankDelta
from emend.editors.numerics.passes import light_passes
from emend.editors.numerics.seeded_draws import seeded_draws
from emend.editors.numerics.training.in_place import recomputed_blocks
from emend.editors.numerics.training.training_loop import TrainingRow, TrainingSettings, train_loop
from emend.editors.parametric.finetune import Trainer
from emend.editors.parametric.quantised import check_four_bit, in_four_bit
from emend.editors.parametric.served_lora import AdapterServer
from emend.memory.distribution import install_command
from emend.memory.edit import Edit
from emend.memory.embeddings.model_load import model_load
from emend.memory.errors import BadSettings, MissingExtra

ADAPTER = "emend"
Target = Literal["query", "value", "down_projection"]


@dataclass(frozen=True, kw_only=True)
class LoraSettings(TrainingSettings):
    """Settings of LoRA; values per model are in `settings/lora.toml` and `settings/qlora.toml`."""

    rank: Annotated[int, Field(ge=1)]
    """Rank of the adapters."""
    lora_alpha: Annotated[float, Field(gt=0)]
    """Scale of the adapters: their products are multiplied by this value divided by the rank."""
    lora_dropout: Annotated[float, Field(ge=0, lt=1)]
    """Dropout rate of an adapter's input, during training only."""
    target_modules: Annotated[tuple[Target, ...], Field(min_length=1)] = ("query", "value")
    """The matrices that get adapters, by their names in `editors.numerics.architectures`."""
    layers: tuple[int, ...] = ()
    """Layers that get adapters, from 0, or from -1 at the end; empty for all possible layers."""
    architecture: dict[str, str | bool] = field(default_factory=dict)
    """Module paths by name, for architectures that `editors.numerics.architectures` lacks."""


class Lora(Trainer):
    """LoRA editor: the products of trained adapters are the weight deltas."""

    name: ClassVar[str] = "lora"
    schema: ClassVar[type[LoraSettings]] = LoraSettings
    settings: LoraSettings

    def __init__(self, context: EditorContext) -> None:
        if importlib.util.find_spec("peft") is None:
            raise MissingExtra(f"editor '{self.name}' needs a package: {install_command('lora')}.")
        self.server = None
        if isinstance(context.model, ServedChatModel):
            self.server = AdapterServer(context.model, self.name)
            context = replace(context, model=self.server.trained)
            # the served model's weights are not changed
            self.needs_weights = False  # type: ignore[misc]
        super().__init__(context)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The usual fingerprint, for a served model with the weights trained on."""
        if self.server is None:
            return super().fingerprint
        return super().fingerprint | {"trained_on": self.lm.fingerprint}

    @contextmanager
    def edit(self, edits: Sequence[Edit]) -> Iterator[Answerer]:
        """Train on all edits together; apply the deltas or serve the adapter in the `with`."""
        if self.server is None:
            with super().edit(edits) as answerer:
                yield answerer
            return
        with self.server.training, count_tokens(self.lm) as counter:
            deltas = self.solve(edits)
        with self.server.serve(deltas) as model:
            yield direct_answerer(model, self.context.wording, counter.cost)

    def sequence(self) -> AbstractContextManager[ApplyMore]:
        """Train on the edits of each call, on the weights that the earlier calls left.

        Raises:
            BadSettings: the model is served.
        """
        if self.server is not None:
            raise BadSettings(
                f"mode sequential with editor '{self.name}' needs local weights: use "
                f"hf:{self.lm.folder}, or mode single, batch:N or all."
            )
        return super().sequence()

    def base(self) -> AbstractContextManager[None]:
        """Return a context in which adapters are trained; here the model is unchanged."""
        return nullcontext()

    def train(self, rows: Sequence[TrainingRow], seed: int) -> Deltas:
        """Return the scaled products of the trained adapters' matrices."""
        model = self.lm.model
        with (
            light_passes(model),
            # otherwise all offloaded weights would stay in memory
            recomputed_blocks(model) if is_offloaded(model) else nullcontext(),
            self.base(),
            seeded_draws(self.lm.device, seed),
            adapters(model, self.paths, self.settings) as pairs,
        ):
            leaves = [weight for pair in pairs.values() for weight in pair]
            train_loop(self.lm, model, leaves, rows, self.settings, seed)
            scale = self.settings.lora_alpha / self.settings.rank
            return {
                f"{path}.weight": LowRankDelta(b.detach().cpu() * scale, a.detach().cpu())
                for path, (a, b) in pairs.items()
            }

    def matrices(self) -> list[str]:
        """Return the paths of the matrices that get adapters."""
        model = self.lm.model
        count = model.config.get_text_config().num_hidden_layers
        layers, names = (
            [resolve_layer(model, layer) for layer in self.settings.layers],
            self.settings.target_modules,
        )
        architecture = find_architecture(model, self.settings.architecture, names, layers or None)
        available = {
            name: layers or layers_with(model, name, getattr(architecture, name)) for name in names
        }
        paths = [
            architecture.of_layer(layer, name)
            for layer in layers or range(count)
            for name in names
            if layer in available[name]
        ]
        return list(dict.fromkeys(paths))  # one fused matrix may be both query and value


class QLora(Lora):
    """QLoRA editor: LoRA trained on the model in 4 bits (Dettmers et al. 2023).

    The deltas are added to the original weights, not to the 4-bit ones.
    """

    name: ClassVar[str] = "qlora"

    def __init__(self, context: EditorContext) -> None:
        super().__init__(context)
        check_four_bit(self.lm.device, self.name)

    def base(self) -> AbstractContextManager[None]:
        """Return a context in which the linear modules of the model are in 4 bits."""
        return in_four_bit(self.lm.model)


@contextmanager
def adapters(
    model: Any, paths: Sequence[str], settings: LoraSettings
) -> Iterator[dict[str, tuple[Tensor, Tensor]]]:
    """Attach adapters to the modules inside the `with` and yield (A, B) of each, float32, by path.

    At the end, even after an exception, modules, parameters and `requires_grad` are restored.
    """
    with model_load():
        from peft import LoraConfig
        from peft.tuners.lora import LoraModel

    first = model.get_submodule(paths[0])
    config = LoraConfig(
        r=settings.rank,
        # annotated as int, but any number works
        lora_alpha=settings.lora_alpha,  # type: ignore[arg-type]
        lora_dropout=settings.lora_dropout,
        target_modules=list(paths),
        fan_in_fan_out=input_first(first),
    )
    attributes = set(vars(model))
    trainable = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    originals = {path: model.get_submodule(path) for path in paths}
    try:
        with model_load():  # the adapter's matrices get the default dtype
            LoraModel(model, config, ADAPTER)
        yield {path: _pair(model.get_submodule(path)) for path in paths}
    finally:
        # `LoraModel.unload` cannot be used here: it does not exist yet if attaching fails halfway
        # (out of memory), it leaves all parameters frozen, and it writes the layers of an offloaded
        # model to disk again. `inject_adapter_in_model` returns no tuner to unload.
        for path, module in originals.items():
            model.set_submodule(path, module)
        for name in set(vars(model)) - attributes:
            delattr(model, name)
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(trainable[name])


def _pair(module: Any) -> tuple[Tensor, Tensor]:
    """Return an adapter's matrices, A (rank, inputs) and B (outputs, rank), ready for training.

    Dropout is active only in the adapter, since the model's own dropout would change the edited
    model.
    """
    module.lora_dropout.train()
    pair = module.lora_A[ADAPTER], module.lora_B[ADAPTER]
    for linear in pair:
        linear.float().requires_grad_(True)
    return pair[0].weight, pair[1].weight
