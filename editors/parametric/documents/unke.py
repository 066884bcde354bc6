"""UnKE (Deng et al. 2024): editing of unstructured knowledge by training one block.

Stage 1 searches the change of a block's output at the prompt's last token that makes the whole
target likely. Stage 2 trains all weights of that block to output it, while preserving the outputs
at the prompt's other tokens and on other texts.
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
from emend.editors.numerics.training.block_training import (
    BlockRow,
    BlockTrainingSettings,
    train_block,
)
from emend.editors.numerics.training.window_search import LongTarget, WindowValue, search_windows
from emend.editors.numerics.value_search import ValueDescentSettings
from emend.editors.parametric.documents.long_targets import long_targets
from emend.editors.parametric.documents.preserved_texts import draw_preserved, read_preserved_texts
from emend.editors.parametric.weight_editor import WeightEditor
from emend.memory.edit import Edit, content_id


@dataclass(frozen=True, kw_only=True)
class UnkeSettings(BlockTrainingSettings, ValueDescentSettings):
    """Settings of UnKE, named as in the published hyper-parameter files if possible."""

    layers: Annotated[tuple[int, ...], Field(min_length=1, max_length=1)]
    """The layer whose block is trained; from 0, or from -1 at the end."""
    ex_data_num: Annotated[int, Field(ge=0)] = 20
    """Number of texts on which the block's output is preserved."""
    preserved: str = ""
    """File of texts to preserve, one per line; empty for texts that the unedited model writes."""
    architecture: dict[str, str | bool] = field(default_factory=dict)
    """Module paths by name, for architectures that `editors.numerics.architectures` lacks."""


class Unke(WeightEditor):
    """UnKE editor: gives the prompt's last token a value that generates the whole target."""

    name: ClassVar[str] = "unke"
    schema: ClassVar[type[UnkeSettings]] = UnkeSettings
    settings: UnkeSettings

    def __init__(self, context: EditorContext) -> None:
        super().__init__(context)
        self.layers = tuple(resolve_layer(self.lm.model, layer) for layer in self.settings.layers)
        self.paths = find_architecture(
            self.lm.model, self.settings.architecture, PARTS, self.layers
        )
        check_logits(self.lm, self.paths)
        self.prepare()

    def prepare(self) -> None:
        """Load the block and the preserved texts."""
        # A change of the block's output is added directly, whatever norms are inside the block.
        self.paths = replace(self.paths, adds=True)
        block = self.paths.of_layer(self.layers[0], "block")
        keep_loaded(
            self.lm.model,
            [
                f"{block}.{path}".rstrip(".")
                for path, _ in self.lm.model.get_submodule(block).named_modules()
            ][::-1],
        )
        settings = self.settings
        self.preserved = read_preserved_texts(
            self.lm, settings.preserved, settings.ex_data_num, self.context.seed
        )

    @property
    def target_modules(self) -> dict[str, Any]:
        """The layer whose block is trained, and a digest of the preserved texts."""
        return {"layers": self.layers, "preserved": content_id(*self.preserved)}

    def solve(self, edits: Sequence[Edit]) -> Deltas:
        """Return the deltas by parameter name; the model is not changed.

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
        """Return the deltas by parameter name that make the model generate these targets."""
        values = search_windows(
            self.lm,
            self.paths,
            targets,
            [self.windows(target) for target in targets],
            self.layers[-1],
            self.settings,
        )
        return self.write(targets, values)

    def windows(self, target: LongTarget) -> list[tuple[int, int]]:
        """Return first token and end of each window of a target; here one window."""
        return [(target.start, len(target.ids))]

    def context_ids(self, target: LongTarget) -> Ids:
        """Return the tokens at which the block's output is trained; here the prompt's."""
        return target.ids[: target.start]

    def write(
        self, targets: Sequence[LongTarget], values: Sequence[Sequence[WindowValue]]
    ) -> Deltas:
        """Return the deltas with which the block outputs the values."""
        edited = []
        for target, of_target in zip(targets, values, strict=True):
            changes = tuple((value.place, value.change) for value in of_target)
            edited.append(BlockRow(self.context_ids(target), changes))
        seed = (
            int(content_id("draws", self.context.seed, [target.edit.id for target in targets]), 16)
            % 2**63
        )
        texts = draw_preserved(self.lm, self.preserved, self.settings.ex_data_num, seed)
        groups = [[BlockRow(ids) for ids in texts]] if texts else []
        return train_block(self.lm, self.paths, self.layers[0], [*groups, edited], self.settings)
