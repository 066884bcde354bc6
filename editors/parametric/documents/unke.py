"""Editing of unstructured knowledge (Deng et al. 2024, UnKE): a value that writes a document out, trained into a block.

Stage 1 searches the change of a block's output at the prompt's last token that makes the whole target likely; stage 2
trains all weights of that block to give it, while its output at the prompt's other tokens and on other texts stays.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

from pydantic import Field

from emend.agents.local.offload import keep_loaded
from emend.agents.local.prefixes import Ids
from emend.editors.base import EditorContext
from emend.editors.numerics.apply_delta import Deltas
from emend.editors.numerics.architectures import find_architecture, resolve_layer
from emend.editors.numerics.oom_retry import retry_on_oom
from emend.editors.numerics.suffix_forward import PARTS, check_logits
from emend.editors.numerics.training.block_training import BlockRow, BlockTrainingSettings, train_block
from emend.editors.numerics.training.window_search import LongTarget, WindowValue, search_windows
from emend.editors.numerics.value_search import ValueDescentSettings
from emend.editors.parametric.documents.long_targets import long_targets
from emend.editors.parametric.documents.preserved_texts import draw_preserved, read_preserved_texts
from emend.editors.parametric.weight_editor import WeightEditor
from emend.memory.edit import Edit, content_id


@dataclass(frozen=True, kw_only=True)
class UnkeSettings(BlockTrainingSettings, ValueDescentSettings):
    """Settings of UnKE, named as in the published hyper-parameter files where those have them."""

    layers: Annotated[tuple[int, ...], Field(min_length=1, max_length=1)]
    """The layer whose block is trained; from 0, or from -1 at the end."""
    ex_data_num: Annotated[int, Field(ge=0)] = 20
    """Texts on which the block's output is to stay."""
    preserved: str = ""
    """A file of these texts, one a line, to draw from; without one the unedited model writes them itself."""
    architecture: dict[str, str | bool] = field(default_factory=dict)
    """Module paths by name, for architectures that `editors.numerics.architectures` lacks."""


class Unke(WeightEditor):
    """Makes the last token of a prompt carry a value from which the model writes the whole target."""

    name: ClassVar[str] = "unke"
    schema: ClassVar[type[UnkeSettings]] = UnkeSettings
    settings: UnkeSettings

    def __init__(self, context: EditorContext) -> None:
        super().__init__(context)
        self.layers = tuple(resolve_layer(self.lm.model, layer) for layer in self.settings.layers)
        self.paths = find_architecture(self.lm.model, self.settings.architecture, PARTS, self.layers)
        check_logits(self.lm, self.paths)
        self.prepare()

    def prepare(self) -> None:
        """Load what the editor writes to, and what it must know of other texts."""
        # A change of the block's own output is added as it is, whatever norms are inside the block.
        self.paths = replace(self.paths, adds=True)
        block = self.paths.of_layer(self.layers[0], "block")
        keep_loaded(
            self.lm.model,
            [f"{block}.{path}".rstrip(".") for path, _ in self.lm.model.get_submodule(block).named_modules()][::-1],
        )
        settings = self.settings
        self.preserved = read_preserved_texts(self.lm, settings.preserved, settings.ex_data_num, self.context.seed)

    @property
    def target_modules(self) -> dict[str, Any]:
        """The layer whose block is trained, and a digest of the texts that are preserved."""
        return {"layers": self.layers, "preserved": content_id(*self.preserved)}

    def solve(self, edits: Sequence[Edit]) -> Deltas:
        """The deltas by parameter name; the model is left as it is.

        Raises:
            BadData: an edit has no target or text, or one that does not fit the model's window.
            ModelError: the search for a value, or the training, gave numbers that are not finite.
        """
        targets = long_targets(self.lm, edits, self.context.wording)
        if not targets:
            return {}
        with self.lm.lock:
            return retry_on_oom(self.lm, lambda: self.deltas(targets))

    def deltas(self, targets: Sequence[LongTarget]) -> Deltas:
        """The deltas by parameter name that make the model write these targets."""
        values = search_windows(
            self.lm, self.paths, targets, [self.windows(target) for target in targets], self.layers[-1], self.settings
        )
        return self.write(targets, values)

    def windows(self, target: LongTarget) -> list[tuple[int, int]]:
        """First token and end of each part of a target that gets a value of its own: here the whole target."""
        return [(target.start, len(target.ids))]

    def context_ids(self, target: LongTarget) -> Ids:
        """The tokens at which the edited block's output is fixed: here those of the prompt."""
        return target.ids[: target.start]

    def write(self, targets: Sequence[LongTarget], values: Sequence[Sequence[WindowValue]]) -> Deltas:
        """The deltas that make the block give the values."""
        edited = [
            BlockRow(self.context_ids(target), tuple((value.place, value.change) for value in of_target))
            for target, of_target in zip(targets, values, strict=True)
        ]
        seed = int(content_id("draws", self.context.seed, [target.edit.id for target in targets]), 16) % 2**63
        texts = draw_preserved(self.lm, self.preserved, self.settings.ex_data_num, seed)
        groups = [[BlockRow(ids) for ids in texts]] if texts else []
        return train_block(self.lm, self.paths, self.layers[0], [*groups, edited], self.settings)
