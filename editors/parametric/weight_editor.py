"""What the editors that solve for deltas have in common: settings, fingerprint, and how deltas come to stand."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from typing import Any, ClassVar

from emend.agents.local.causal_lm import CausalLM
from emend.agents.roles.answer import prompt_id
from emend.editors.answering import DIRECT, direct, lend
from emend.editors.base import Answerer, EditCost, Grow, Materials
from emend.editors.costing import counted
from emend.editors.hyperparameters import build_settings, family_values
from emend.editors.numerics.apply_delta import Deltas, applied
from emend.editors.parametric.sequential import stacked
from emend.memory.edit import Edit
from emend.memory.errors import BadSettings


class Solving(ABC):
    """An editor of a local model's weights: it says what to add, and this puts it there and takes it away again."""

    name: ClassVar[str]
    needs_weights: ClassVar[bool] = True
    graph: ClassVar[str] = DIRECT
    schema: ClassVar[type[Any]]
    """The dataclass of its settings; the shipped values per model are in the method's TOML file in `settings/`."""
    settings: Any

    def __init__(self, materials: Materials) -> None:
        self.materials = materials
        self.lm = weights_of(materials, self.name)
        self.settings = self.settings_for(self.lm, materials.settings)

    @classmethod
    def settings_for(cls, lm: CausalLM, given: Mapping[str, Any]) -> Any:
        """What is given over the shipped values for this model.

        Raises:
            BadSettings: an unknown setting, or a value of the wrong type or out of range.
        """
        return build_settings(cls.schema, family_values(cls.name, families(lm)) | dict(given), cls.name)

    @property
    @abstractmethod
    def where(self) -> dict[str, Any]:
        """What is written to, for the fingerprint."""

    @abstractmethod
    def solve(self, edits: Sequence[Edit]) -> Deltas:
        """The deltas by parameter name for the weights as they are now; the model is left as it is."""

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Settings, what is written to, graph, seed, wording and the prompt's id."""
        wording = self.materials.wording
        own = {"editor": self.name, "graph": self.graph, "settings": asdict(self.settings)} | self.where
        return own | {"seed": self.materials.seed, "wording": wording, "prompt": prompt_id(wording)}

    @contextmanager
    def edit(self, edits: Sequence[Edit]) -> Iterator[Answerer]:
        """The deltas of all edits together are in the weights until the `with` is left."""
        with counted(self.lm) as counter:
            deltas = self.solve(edits)
        with applied(self.lm.model, deltas, self.lm.lock):
            yield self._answerer(counter.cost)

    def sequence(self) -> AbstractContextManager[Grow]:
        """Each call solves for its edits alone, on the weights that the calls before left."""
        return stacked(self.lm, self.solve, self._answerer)

    def _answerer(self, cost: EditCost) -> Answerer:
        return lend(self.materials.model, direct(self.materials.model, self.materials.wording), cost)


def weights_of(materials: Materials, editor: str) -> CausalLM:
    """The local model that an editor may write to.

    Raises:
        BadSettings: the model has no weights here, or they are stored quantised.
    """
    lm = getattr(materials.model, "lm", None)
    if not isinstance(lm, CausalLM):
        raise BadSettings(
            f"editor '{editor}' changes weights, and {type(materials.model).__name__} has none here: "
            "use --model tiny or --model hf:FOLDER."
        )
    stored = _quantised(lm.model)
    if stored:
        raise BadSettings(
            f"editor '{editor}' changes weights, and those of {lm.folder} are stored quantised, seen: {stored}. Save a "
            "dequantised copy, with `model.dequantize(dtype=torch.bfloat16)` and then `save_pretrained` of model and "
            "tokenizer, and edit that one."
        )
    return lm


def _quantised(model: Any) -> str:
    """In what format the model's weights are kept, where one cannot add to them; empty if one can.

    The configuration is asked first, since some formats keep floats of 8 bits, or no parameters at all. A model that
    was dequantised while it was loaded has nothing there.
    """
    told = getattr(model.config, "quantization_config", None)
    if told is not None:
        kept: dict[str, Any] = told if isinstance(told, dict) else told.to_dict()
        bits = 4 if kept.get("load_in_4bit") else 8 if kept.get("load_in_8bit") else kept.get("bits")
        method = kept.get("quant_method")
        return f"{getattr(method, 'value', method)}{f' in {bits} bits' if bits else ''} (quantization_config)"
    whole = ((name, tensor.dtype) for name, tensor in model.named_parameters() if not tensor.is_floating_point())
    return next((f"'{name}' is {str(dtype).removeprefix('torch.')}" for name, dtype in whole), "")


def families(lm: CausalLM) -> list[str]:
    """Names under which settings may be kept for a model: architecture and width, as in `gpt2-1600`; architecture."""
    config = lm.model.config
    return [f"{config.model_type}-{config.get_text_config().hidden_size}", config.model_type]
