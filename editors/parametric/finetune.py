"""Fine-tuning on new facts or documents: FT-M (Zhang et al. 2024) and FT-L (Zhu et al. 2020).

FT-M trains by cross-entropy on the target's tokens, each at its own position, with the prompt
masked. FT-L as coded by Meng et al. (2022) scores all target tokens at the prompt's last token,
which is correct only for targets of one token. FT-L's norm constraint limits the change of every
element of a trained matrix and its bias.
"""

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from emend.agents.local.causal_lm import CausalLM
from emend.agents.local.offload import is_offloaded, keep_loaded
from emend.agents.roles.answer import build_prompt
from emend.editors.base import EditCost, EditorContext
from emend.editors.cost import count_tokens
from emend.editors.numerics.apply_delta import Deltas, is_edited
from emend.editors.numerics.architectures import (
    Architecture,
    down_projection,
    find_architecture,
    resolve_layer,
)
from emend.editors.numerics.oom_retry import retry_on_oom
from emend.editors.numerics.suffix_forward import PARTS, check_logits
from emend.editors.numerics.training.compact_adam import check_eight_bit
from emend.editors.numerics.training.grouped_training import GroupedTrainer
from emend.editors.numerics.training.in_place import train_in_place
from emend.editors.numerics.training.memory_estimate import check_memory
from emend.editors.numerics.training.training_loop import TrainingRow, TrainingSettings, train
from emend.editors.parametric.weight_editor import WeightEditor, ids_of
from emend.memory.edit import Edit, content_id
from emend.memory.errors import BadData, BadSettings, ContextOverflow, EmendError
from emend.memory.probe import Probe

# Maximum number of positions for which the hidden states at the lowest trained block are cached.
CACHED = 1 << 14
# Maximum number of elements in copies of the matrices when several groups are trained at once.
MAX_ELEMENTS = 1 << 28
# Tensors per copy: itself, its gradient, and Adam's two averages.
COPIES = 4


@dataclass(frozen=True, kw_only=True)
class FineTuningSettings(TrainingSettings):
    """Settings of fine-tuning; the shipped values per model are in `settings/ft.toml`."""

    parameters: Literal["down_projection", "all"] = "down_projection"
    """The trained parameters: down-projections of `layers` with biases, or `all`.

    Papers train all parameters on documents.
    """
    layers: Annotated[tuple[int, ...], Field(min_length=1)]
    """Layers whose down-projections are trained; from 0, or from -1 at the end."""
    objective_optimization: Literal["target_new", "prompt_last"] = "target_new"
    """Position that scores a target token: its predecessor (FT-M), or the prompt's end (FT-L)."""
    optimizer: Literal["auto", "adam", "adam_8bit"] = "auto"
    """Optimiser: `adam` trains float32 copies, `adam_8bit` the weights in place.

    `auto` is `adam_8bit` for all parameters of a bfloat16 model, otherwise `adam`.
    """
    norm_constraint: Annotated[float, Field(ge=0)] = 0.0
    """Maximum change of an element of a matrix or its bias; 0 for no bound."""
    architecture: dict[str, str | bool] = field(default_factory=dict)
    """Module paths by name, for architectures that `editors.numerics.architectures` lacks."""


class Trainer(WeightEditor):
    """Base class of the editors that train on a batch of edits in one optimisation.

    An edit with a target is trained on its cloze, or else its question, in any prompt form; an edit
    without a target, such as a document, by plain language modelling on its text.
    """

    def __init__(self, context: EditorContext) -> None:
        super().__init__(context)
        self.paths = self.matrices()
        if not self.paths and is_offloaded(self.lm.model):
            raise BadSettings(
                f"{self.name}.parameters=all trains every weight, but some of {self.lm.folder} "
                f"are offloaded: use --set {self.name}.parameters=down_projection, or the editor "
                "lora, which load the weights that they train."
            )
        keep_loaded(self.lm.model, self.paths)

    @property
    def target_modules(self) -> dict[str, Any]:
        """The matrices that are trained, or that get adapters."""
        return {"matrices": self.paths or "all"}

    @abstractmethod
    def matrices(self) -> list[str]:
        """Return module paths of the trained matrices; empty for the whole model."""

    @abstractmethod
    def train(self, rows: Sequence[TrainingRow], seed: int) -> Deltas:
        """Return the deltas that make the rows probable; random draws depend only on the seed."""

    def solve(self, edits: Sequence[Edit]) -> Deltas:
        """Return the deltas by parameter name, float32; the model is not changed.

        Raises:
            BadData: an edit has neither target nor text.
            ModelError: the training overflowed; names step and loss.
        """
        rows = self.rows(edits)
        seed = int(content_id("draws", self.context.seed, [edit.id for edit in edits]), 16) % 2**63
        with self.lm.lock:
            return retry_on_oom(self.lm, lambda: self.train(rows, seed)) if rows else {}

    def rows(self, edits: Sequence[Edit]) -> list[TrainingRow]:
        """Return the rows that the edits are trained on."""
        at_prompt_end = getattr(self.settings, "objective_optimization", "") == "prompt_last"
        return training_rows(self.lm, edits, self.context.wording, at_prompt_end)


class FineTuning(Trainer):
    """Fine-tuning editor: trains down-projections, or the whole model."""

    name: ClassVar[str] = "ft"
    schema: ClassVar[type[FineTuningSettings]] = FineTuningSettings
    settings: FineTuningSettings

    def __init__(self, context: EditorContext) -> None:
        super().__init__(context)
        self.in_place = self._trains_in_place()
        if self.in_place:
            check_eight_bit(self.name)
        self._block_paths = None if self.in_place else self._paths_of_blocks()
        self._presolved: dict[tuple[str, ...], Deltas] = {}
        check_memory(self.lm, self._names(), self.in_place, 0, self.name)

    def matrices(self) -> list[str]:
        """Return the paths of the layers' down-projections; none if the whole model is trained."""
        layers = () if self.settings.parameters == "all" else self.settings.layers
        return [
            down_projection(self.lm.model, layer, self.settings.architecture) for layer in layers
        ]

    def solve(self, edits: Sequence[Edit]) -> Deltas:
        """Return the deltas by parameter name, float32, see `Trainer`."""
        presolved = self._presolved.get(ids_of(edits))
        # Presolved deltas hold for the unedited model only, not inside a sequence.
        return super().solve(edits) if presolved is None or is_edited(self.lm.model) else presolved

    def presolve(self, groups: Sequence[Sequence[Edit]]) -> EditCost:
        """Train on each group separately, all at once, before `edit` gets each group."""
        self._presolved = {}
        elements = sum(self.lm.model.get_submodule(path).weight.numel() for path in self.paths)
        # An edit that cannot be trained on raises in `edit`, so that only its own group fails.
        with count_tokens(self.lm) as counter, self.lm.lock, suppress(EmendError):
            rows = [self.rows(group) for group in groups]
            several = len(rows) > 1 and len(rows) * elements * COPIES <= MAX_ELEMENTS
            if several and all(rows) and self._fits(*rows):
                deltas = retry_on_oom(self.lm, lambda: self._train_apart(rows))
                self._presolved = dict(zip(map(ids_of, groups), deltas, strict=True))
        return counter.cost

    def train(self, rows: Sequence[TrainingRow], seed: int) -> Deltas:
        """Train matrices and biases with Adam, as in the published code; return the deltas."""
        batch = min(
            self.settings.batch_tokens,
            self.lm.batch_tokens,
            sum(len(row.input_ids) for row in rows),
        )
        check_memory(self.lm, self._names(), self.in_place, batch, self.name)
        if self._fits(rows):
            return self._train_apart([rows])[0]
        method = train_in_place if self.in_place else train
        return method(
            self.lm, self._names(), rows, self.settings, self.settings.norm_constraint, seed
        )

    def _names(self) -> list[str]:
        """Return the names of the trained parameters."""
        modules = [(f"{path}.", self.lm.model.get_submodule(path)) for path in self.paths] or [
            ("", self.lm.model)
        ]
        return [
            prefix + name for prefix, module in modules for name, _ in module.named_parameters()
        ]

    def _trains_in_place(self) -> bool:
        """Return True if the weights are trained in place, which float16 does not allow."""
        dtype = self.lm.model.dtype
        if self.settings.optimizer == "auto":
            return self.settings.parameters == "all" and dtype == torch.bfloat16
        if self.settings.optimizer == "adam_8bit" and dtype == torch.float16:
            raise BadSettings(
                f"{self.name}.optimizer=adam_8bit trains weights in place, and gradients in "
                "float16 vanish: load the model with --set model.dtype=bfloat16."
            )
        return self.settings.optimizer == "adam_8bit"

    def _train_apart(self, groups: Sequence[Sequence[TrainingRow]]) -> list[dict[str, Tensor]]:
        layers = [resolve_layer(self.lm.model, layer) for layer in self.settings.layers]
        assert self._block_paths is not None
        distance = self.settings.norm_constraint
        return GroupedTrainer(
            self.lm, self._block_paths, layers, groups, self.settings, distance
        ).run()

    def _fits(self, *groups: Sequence[TrainingRow]) -> bool:
        """Return True if training can start at the lowest trained block, with its inputs cached."""
        size = self.settings.batch_size
        whole = all(not 0 < size < len(rows) for rows in groups)
        few = sum(len(row.input_ids) for rows in groups for row in rows) <= CACHED
        return self._block_paths is not None and whole and few

    def _paths_of_blocks(self) -> Architecture | None:
        """Return the module paths if the model's blocks can be run separately, otherwise None.

        None also if the matrices are tied to other parameters, or the whole model is trained.
        """
        parameters = [
            p for path in self.paths for p in self.lm.model.get_submodule(path).parameters()
        ]
        every = [
            id(parameter) for _, parameter in self.lm.model.named_parameters(remove_duplicate=False)
        ]
        if not parameters or any(every.count(id(parameter)) > 1 for parameter in parameters):
            return None
        with suppress(BadSettings):
            paths = find_architecture(self.lm.model, self.settings.architecture, PARTS)
            check_logits(self.lm, paths)
            return paths
        return None


def training_rows(
    lm: CausalLM, edits: Sequence[Edit], wording: str, at_prompt_end: bool = False
) -> list[TrainingRow]:
    """Return the rows of edits: each target after its prompt, or a text in window-sized pieces.

    Raises:
        BadData: an edit has neither, its target has no tokens, or they do not fit the model's
            window.
    """
    return [row for edit in edits for row in _make_rows(lm, edit, wording, at_prompt_end)]


def _make_rows(lm: CausalLM, edit: Edit, wording: str, at_prompt_end: bool) -> list[TrainingRow]:
    if edit.target_new and (edit.prompt or edit.question):
        return [target_row(lm, edit, build_own_prompt(edit, wording), at_prompt_end)]
    if not edit.text.strip():
        raise BadData(
            f"edit '{edit.id}' has neither a target with a prompt nor a text: there is "
            "nothing to train on."
        )
    begin, ids = lm.encode("")[:1], lm.encode(edit.text)
    tokens = ids[1:] if ids[:1] == begin else ids
    if not tokens:
        raise BadData(
            f"the text of edit '{edit.id}', {edit.text[:60]!r}, has no tokens: there is nothing "
            "to learn."
        )
    size = lm.window or len(tokens)
    return [
        TrainingRow(begin + tokens[start : start + size], 1)
        for start in range(0, len(tokens), size)
    ]


def target_row(lm: CausalLM, edit: Edit, prompt: str, at_prompt_end: bool = False) -> TrainingRow:
    """Return the training row of an edit's target after a prompt.

    Raises:
        BadData: the target has no tokens, or prompt and target do not fit the model's window.
    """
    try:
        encoded = lm.encode_pair(prompt, edit.target_new)
    except (BadData, ContextOverflow) as error:
        raise type(error)(f"edit '{edit.id}': {error}") from error
    if encoded.cut:
        raise BadData(
            f"edit '{edit.id}': prompt {prompt[:60]!r} and target {edit.target_new[:60]!r} are "
            f"{encoded.cut} tokens too long for the model: shorten the prompt."
        )
    return TrainingRow(encoded.ids, encoded.start, at_prompt_end)


def build_own_prompt(edit: Edit, wording: str) -> str:
    """Return the edit's own prompt, in the form in which the unedited model is asked."""
    if edit.prompt:
        return edit.cloze
    return build_prompt(
        Probe(kind="efficacy", prompt=edit.question, style="question", gold=(edit.target_new,)),
        (),
        (),
        wording,
    )
