"""Base classes of editors of local models, which apply and remove weight deltas."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from typing import Any, ClassVar

from emend.agents.local.causal_lm import CausalLM
from emend.agents.local.offload import computing_devices
from emend.agents.roles.answer import wording_id
from emend.agents.scoring import is_chat_model
from emend.editors.answerers import DIRECT, direct_answerer
from emend.editors.base import Answerer, ApplyMore, EditCost, EditorContext
from emend.editors.cost import count_tokens
from emend.editors.hyperparameters import build_settings, shipped_settings
from emend.editors.numerics.apply_delta import Deltas, applied
from emend.editors.parametric.sequential import sequential_edits
from emend.memory.edit import Edit
from emend.memory.errors import BadSettings


class LocalEditor(ABC):
    """Base class of editors of a local model, with settings, fingerprint and answerer."""

    name: ClassVar[str]
    needs_weights: ClassVar[bool] = True
    graph: ClassVar[str] = DIRECT
    schema: ClassVar[type[Any]]
    """The dataclass of the settings; their values per model are in `settings/<name>.toml`."""
    settings: Any

    def __init__(self, context: EditorContext) -> None:
        self.context = context
        self.lm = require_local_model(context, self.name)
        self.settings = self.settings_for(self.lm, context.settings)

    @classmethod
    def settings_for(cls, lm: CausalLM, overrides: Mapping[str, Any]) -> Any:
        """Return the shipped settings for this model, with overrides.

        Raises:
            BadSettings: an unknown setting, or a value of the wrong type or out of range.
        """
        return build_settings(
            cls.schema, shipped_settings(cls.name, lm.model.config) | dict(overrides), cls.name
        )

    @property
    @abstractmethod
    def target_modules(self) -> dict[str, Any]:
        """The edited layers or matrices, for the fingerprint."""

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Settings, target modules, graph, seed, prompt template and prompt id."""
        wording, chats = self.context.wording, is_chat_model(self.context.model)
        editor = {
            "editor": self.name,
            "graph": self.graph,
            "settings": asdict(self.settings),
        } | self.target_modules
        return editor | {
            "seed": self.context.seed,
            "wording": wording,
            "prompt": wording_id(wording, chats),
        }

    def _answerer(self, cost: EditCost) -> Answerer:
        return direct_answerer(self.context.model, self.context.wording, cost)


class WeightEditor(LocalEditor):
    """Base class of editors that compute weight deltas, which this class applies and removes."""

    @abstractmethod
    def solve(self, edits: Sequence[Edit]) -> Deltas:
        """Return the deltas by parameter name for the current weights; the model is not changed."""

    @contextmanager
    def edit(self, edits: Sequence[Edit]) -> Iterator[Answerer]:
        """Solve for all edits together and add the deltas to the weights inside the `with`."""
        with count_tokens(self.lm) as counter:
            deltas = self.solve(edits)
        with applied(self.lm.model, deltas, self.lm.lock):
            yield self._answerer(counter.cost)

    def sequence(self) -> AbstractContextManager[ApplyMore]:
        """Solve the edits of each call on the weights that the earlier calls left."""
        return sequential_edits(self.lm, self.solve, self._answerer)


def ids_of(edits: Sequence[Edit]) -> tuple[str, ...]:
    """Return the ids of the edits."""
    return tuple(edit.id for edit in edits)


def require_local_model(context: EditorContext, editor: str) -> CausalLM:
    """Return the local model whose weights an editor may change.

    Raises:
        BadSettings: the model is not local, or its weights are quantised or on several devices.
    """
    lm = getattr(context.model, "lm", None)
    if not isinstance(lm, CausalLM):
        raise BadSettings(
            f"editor '{editor}' changes weights, but {type(context.model).__name__} is not a "
            "local model: use --model tiny or --model hf:FOLDER."
        )
    if len(computing_devices(lm.model)) > 1:
        raise BadSettings(
            f"editor '{editor}' changes weights on one device, but those of {lm.folder} are "
            "spread over several: set model.device to one that holds them, or name only one of "
            "them in model.device_map, and cpu or disk for the modules that it cannot hold."
        )
    quantisation = _quantisation(lm.model)
    if quantisation:
        raise BadSettings(
            f"editor '{editor}' changes weights, but those of {lm.folder} are quantised: "
            f"{quantisation}. Save a dequantised copy, with "
            "`model.dequantize(dtype=torch.bfloat16)` and then `save_pretrained` of model and "
            "tokenizer, and edit that copy."
        )
    return lm


def _quantisation(model: Any) -> str:
    """Return the format of quantised weights, which cannot be edited; otherwise "".

    The configuration is checked first, since some formats use 8-bit floats, or no parameters at
    all. A model that was dequantised on loading has no such configuration.
    """
    config = getattr(model.config, "quantization_config", None)
    if config is not None:
        fields: dict[str, Any] = config if isinstance(config, dict) else config.to_dict()
        bits = fields.get("bits")
        if fields.get("load_in_4bit"):
            bits = 4
        elif fields.get("load_in_8bit"):
            bits = 8
        method = fields.get("quant_method")
        return (
            f"{getattr(method, 'value', method)}{f' in {bits} bits' if bits else ''} "
            "(quantization_config)"
        )
    integers = (
        (name, tensor.dtype)
        for name, tensor in model.named_parameters()
        if not tensor.is_floating_point()
    )
    return next(
        (f"'{name}' is {str(dtype).removeprefix('torch.')}" for name, dtype in integers), ""
    )
