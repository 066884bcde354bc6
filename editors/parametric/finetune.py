"""Fine-tuning on the new facts alone: FT-M (Zhang et al. 2024), FT-L (Zhu et al. 2020), and on plain documents.

FT-M trains by the cross-entropy of the target's tokens, each at its own place with the prompt masked; FT-L as coded by
Meng et al. (2022) scores all of them at the prompt's last token, which is right for targets of one token only. FT-L's
constraint keeps every element of a trained matrix and its bias within a distance of where it was.
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
from emend.editors.numerics.architectures import Architecture, down_projection, find_architecture, resolve_layer
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

CACHED = 1 << 14
"""Most positions for which the hidden states that enter the lowest trained block are kept through the training."""
MAX_ELEMENTS = 1 << 28
"""Most numbers that training several groups of edits at once may hold in their copies of the matrices."""
COPIES = 4
"""Numbers of each element of a copy: itself, its gradient, and Adam's two averages."""


@dataclass(frozen=True, kw_only=True)
class FineTuningSettings(TrainingSettings):
    """Settings of fine-tuning; the shipped values per model are in `settings/ft.toml`."""

    parameters: Literal["down_projection", "all"] = "down_projection"
    """The trained parameters: the down-projections of `layers` and their biases, or, as papers do on documents, all."""
    layers: Annotated[tuple[int, ...], Field(min_length=1)]
    """Layers whose down-projections are trained; from 0, or from -1 at the end."""
    objective_optimization: Literal["target_new", "prompt_last"] = "target_new"
    """Position that scores a target: each token after those before it (FT-M), or all at the prompt's end (FT-L)."""
    optimizer: Literal["auto", "adam", "adam_8bit"] = "auto"
    """`adam` trains float32 copies, `adam_8bit` the weights in place; `auto` is that for all of a bfloat16 model."""
    norm_constraint: Annotated[float, Field(ge=0)] = 0.0
    """Largest change of an element of a matrix or its bias; 0 sets no bound."""
    architecture: dict[str, str | bool] = field(default_factory=dict)
    """Module paths by name, for architectures that `editors.numerics.architectures` lacks."""


class Trainer(WeightEditor):
    """Base class of the editors that train on all edits given together in one optimisation.

    An edit with a target is trained on its cloze, or else its question, whatever its form; one without a target, such
    as a bare document, as plain language modelling on its text.
    """

    def __init__(self, context: EditorContext) -> None:
        super().__init__(context)
        self.paths = self.matrices()
        if not self.paths and is_offloaded(self.lm.model):
            raise BadSettings(
                f"{self.name}.parameters=all trains every weight, and some of {self.lm.folder} are offloaded: take "
                f"--set {self.name}.parameters=down_projection, or the editor lora, which load what they train."
            )
        keep_loaded(self.lm.model, self.paths)

    @property
    def target_modules(self) -> dict[str, Any]:
        """The matrices that are trained, or that get adapters."""
        return {"matrices": self.paths or "all"}

    @abstractmethod
    def matrices(self) -> list[str]:
        """Module paths of the matrices that are trained; empty for the whole model."""

    @abstractmethod
    def train(self, rows: Sequence[TrainingRow], seed: int) -> Deltas:
        """The deltas that make the rows probable; random draws depend on the seed alone."""

    def solve(self, edits: Sequence[Edit]) -> Deltas:
        """The deltas by parameter name, float32; the model is left as it is.

        Raises:
            BadData: an edit has neither target nor text.
            ModelError: the training overflowed; names step and loss.
        """
        rows = self.rows(edits)
        seed = int(content_id("draws", self.context.seed, [edit.id for edit in edits]), 16) % 2**63
        with self.lm.lock:
            return retry_on_oom(self.lm, lambda: self.train(rows, seed)) if rows else {}

    def rows(self, edits: Sequence[Edit]) -> list[TrainingRow]:
        """The rows that the edits are trained on."""
        at_prompt_end = getattr(self.settings, "objective_optimization", "") == "prompt_last"
        return training_rows(self.lm, edits, self.context.wording, at_prompt_end)


class FineTuning(Trainer):
    """Trains down-projections, or the whole model."""

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
        """The down-projections of the layers; none where the whole model is trained."""
        layers = () if self.settings.parameters == "all" else self.settings.layers
        return [down_projection(self.lm.model, layer, self.settings.architecture) for layer in layers]

    def solve(self, edits: Sequence[Edit]) -> Deltas:
        """The deltas by parameter name, float32, see `Trainer`."""
        presolved = self._presolved.get(ids_of(edits))
        # Presolved deltas belong to the unedited model; inside a sequence the model is another one.
        return super().solve(edits) if presolved is None or is_edited(self.lm.model) else presolved

    def presolve(self, groups: Sequence[Sequence[Edit]]) -> EditCost:
        """Train on each of these groups alone, all at once, for `edit` on each on the unedited model."""
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
        """The deltas by Adam on the matrices themselves, and on their biases, as in the published code."""
        batch = min(self.settings.batch_tokens, self.lm.batch_tokens, sum(len(row.input_ids) for row in rows))
        check_memory(self.lm, self._names(), self.in_place, batch, self.name)
        if self._fits(rows):
            return self._train_apart([rows])[0]
        method = train_in_place if self.in_place else train
        return method(self.lm, self._names(), rows, self.settings, self.settings.norm_constraint, seed)

    def _names(self) -> list[str]:
        """The parameters that are trained."""
        modules = [(f"{path}.", self.lm.model.get_submodule(path)) for path in self.paths] or [("", self.lm.model)]
        return [prefix + name for prefix, module in modules for name, _ in module.named_parameters()]

    def _trains_in_place(self) -> bool:
        """True where the weights themselves are trained, which their number format must allow."""
        dtype = self.lm.model.dtype
        if self.settings.optimizer == "auto":
            return self.settings.parameters == "all" and dtype == torch.bfloat16
        if self.settings.optimizer == "adam_8bit" and dtype == torch.float16:
            raise BadSettings(
                f"{self.name}.optimizer=adam_8bit trains weights in place, and gradients in float16 vanish: load the "
                "model with --set model.dtype=bfloat16."
            )
        return self.settings.optimizer == "adam_8bit"

    def _train_apart(self, groups: Sequence[Sequence[TrainingRow]]) -> list[dict[str, Tensor]]:
        layers = [resolve_layer(self.lm.model, layer) for layer in self.settings.layers]
        assert self._block_paths is not None
        distance = self.settings.norm_constraint
        return GroupedTrainer(self.lm, self._block_paths, layers, groups, self.settings, distance).run()

    def _fits(self, *groups: Sequence[TrainingRow]) -> bool:
        """True where the training can start at the lowest trained block, with what enters it kept for all rows."""
        size = self.settings.batch_size
        whole = all(not 0 < size < len(rows) for rows in groups)
        few = sum(len(row.input_ids) for rows in groups for row in rows) <= CACHED
        return self._block_paths is not None and whole and few

    def _paths_of_blocks(self) -> Architecture | None:
        """Module paths of a model whose blocks can be run apart from it; None where that is unknown, or of no use."""
        parameters = [p for path in self.paths for p in self.lm.model.get_submodule(path).parameters()]
        every = [id(parameter) for _, parameter in self.lm.model.named_parameters(remove_duplicate=False)]
        if not parameters or any(every.count(id(parameter)) > 1 for parameter in parameters):
            return None
        with suppress(BadSettings):
            paths = find_architecture(self.lm.model, self.settings.architecture, PARTS)
            check_logits(self.lm, paths)
            return paths
        return None


def training_rows(lm: CausalLM, edits: Sequence[Edit], wording: str, at_prompt_end: bool = False) -> list[TrainingRow]:
    """The rows that edits are trained on: each edit's target after its prompt, or its text in pieces of the window.

    Raises:
        BadData: an edit has neither, its target has no tokens, or they do not fit the model's window.
    """
    return [row for edit in edits for row in _make_rows(lm, edit, wording, at_prompt_end)]


def _make_rows(lm: CausalLM, edit: Edit, wording: str, at_prompt_end: bool) -> list[TrainingRow]:
    if edit.target_new and (edit.prompt or edit.question):
        return [target_row(lm, edit, build_own_prompt(edit, wording), at_prompt_end)]
    if not edit.text.strip():
        raise BadData(f"edit '{edit.id}' has neither a target with a prompt nor a text: there is nothing to train on.")
    begin, ids = lm.encode("")[:1], lm.encode(edit.text)
    tokens = ids[1:] if ids[:1] == begin else ids
    if not tokens:
        raise BadData(f"the text of edit '{edit.id}', {edit.text[:60]!r}, becomes no token: there is nothing to learn.")
    size = lm.window or len(tokens)
    return [TrainingRow(begin + tokens[start : start + size], 1) for start in range(0, len(tokens), size)]


def target_row(lm: CausalLM, edit: Edit, prompt: str, at_prompt_end: bool = False) -> TrainingRow:
    """The row of an edit's target behind a prompt.

    Raises:
        BadData: the target has no tokens, or prompt and target do not fit the model's window.
    """
    try:
        encoded = lm.encode_pair(prompt, edit.target_new)
    except (BadData, ContextOverflow) as error:
        raise type(error)(f"edit '{edit.id}': {error}") from error
    if encoded.cut:
        raise BadData(
            f"edit '{edit.id}': prompt {prompt[:60]!r} and target {edit.target_new[:60]!r} are {encoded.cut} tokens "
            "too long for the model: shorten the prompt."
        )
    return TrainingRow(encoded.ids, encoded.start, at_prompt_end)


def build_own_prompt(edit: Edit, wording: str) -> str:
    """The edit's own prompt, as the unedited model is asked it."""
    if edit.prompt:
        return edit.cloze
    return build_prompt(
        Probe(kind="efficacy", prompt=edit.question, style="question", gold=(edit.target_new,)), (), (), wording
    )
