"""Fine-tuning on the new facts alone: FT-M (Zhang et al. 2024), FT-L (Zhu et al. 2020), and on documents as they are.

FT-M trains by the cross-entropy of the target's tokens, each at its own place with the prompt masked; FT-L as coded by
Meng et al. (2022) scores all of them at the prompt's last token, which is right for targets of one token only. FT-L's
constraint keeps every element of a trained matrix within a distance of where it was.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from emend.agents.local.causal_lm import CausalLM
from emend.agents.roles.answer import build_prompt
from emend.editors.base import Materials
from emend.editors.numerics.apply_delta import Deltas
from emend.editors.numerics.architectures import down_projection
from emend.editors.numerics.oom_retry import halving
from emend.editors.numerics.training import Plan, Row, train
from emend.editors.parametric.weight_editor import Solving
from emend.memory.edit import Edit, content_id
from emend.memory.errors import BadData, ContextOverflow
from emend.memory.probe import Probe


@dataclass(frozen=True, kw_only=True)
class FineTuningSettings(Plan):
    """What decides the deltas; the shipped values per model are in `settings/ft.toml`."""

    parameters: Literal["down_projection", "all"] = "down_projection"
    """What is trained: the down-projections of `layers`, or the whole model, as papers do on documents."""
    layers: Annotated[tuple[int, ...], Field(min_length=1)]
    """Whose down-projections are trained; from 0, or from -1 at the end."""
    loss: Literal["target", "prompt_last"] = "target"
    """Where an edit's target is scored: each token after those before it (FT-M), or all at the prompt's end (FT-L)."""
    norm_constraint: Annotated[float, Field(ge=0)] = 0.0
    """Farthest that an element of a matrix may move from where it was; 0 sets no bound."""
    architecture: dict[str, str | bool] = field(default_factory=dict)
    """Module paths by name, for architectures that `editors.architectures` lacks."""


class FineTuning(Solving):
    """Trains all edits given together in one optimisation, and puts the weights back afterwards.

    An edit with a target is trained on its cloze, or else its question, whatever its form; one without a target, such
    as a bare document, as plain language modelling on its text.
    """

    name: ClassVar[str] = "ft"
    schema: ClassVar[type[FineTuningSettings]] = FineTuningSettings
    settings: FineTuningSettings

    def __init__(self, materials: Materials) -> None:
        super().__init__(materials)
        self.paths = self._paths()

    @property
    def where(self) -> dict[str, Any]:
        """The matrices that are trained."""
        return {"matrices": self.paths or "all"}

    def solve(self, edits: Sequence[Edit]) -> Deltas:
        """The deltas by parameter name, float32; the model is left as it is.

        Raises:
            BadData: an edit has neither target nor text.
            ModelError: the numbers overflowed; step and loss are named.
        """
        rows = rows_of_all(self.lm, edits, self.materials.wording, self.settings.loss == "prompt_last")
        if not rows:
            return {}
        names = [f"{path}.weight" for path in self.paths] or [name for name, _ in self.lm.model.named_parameters()]
        plan, seed = self.settings, seed_of(self.materials, edits)
        return halving(self.lm, lambda: train(self.lm, names, rows, plan, plan.norm_constraint, seed))

    def _paths(self) -> list[str]:
        """The matrices that are trained; none stands for the whole model."""
        if self.settings.parameters == "all":
            return []
        return [down_projection(self.lm.model, layer, self.settings.architecture) for layer in self.settings.layers]


def rows_of_all(lm: CausalLM, edits: Sequence[Edit], wording: str, at_once: bool = False) -> list[Row]:
    """The rows of all edits, in their order."""
    return [row for edit in edits for row in rows_of(lm, edit, wording, at_once)]


def rows_of(lm: CausalLM, edit: Edit, wording: str, at_once: bool = False) -> list[Row]:
    """The rows that an edit is trained on: one with its target, or its text in pieces of the model's window.

    Raises:
        BadData: it has neither, its target has no tokens, or they do not fit the model's window.
    """
    if edit.target_new and (edit.prompt or edit.question):
        return [_with_target(lm, edit, _asked(edit, wording), at_once)]
    if not edit.text.strip():
        raise BadData(f"edit '{edit.id}' has neither a target with a prompt nor a text: there is nothing to train on.")
    begin, ids = lm.encode("")[:1], lm.encode(edit.text)
    told = ids[1:] if ids[:1] == begin else ids
    if not told:
        raise BadData(f"the text of edit '{edit.id}', {edit.text[:60]!r}, becomes no token: there is nothing to learn.")
    size = lm.window or len(told)
    return [Row(begin + told[at : at + size], 1) for at in range(0, len(told), size)]


def _with_target(lm: CausalLM, edit: Edit, asked: str, at_once: bool) -> Row:
    try:
        encoded = lm.encode_pair(asked, edit.target_new)
    except (BadData, ContextOverflow) as error:
        raise type(error)(f"edit '{edit.id}': {error}") from error
    if encoded.cut:
        raise BadData(
            f"edit '{edit.id}': prompt {asked[:60]!r} and target {edit.target_new[:60]!r} are {encoded.cut} tokens too "
            "long for the model: shorten the prompt."
        )
    return Row(encoded.ids, encoded.start, at_once)


def _asked(edit: Edit, wording: str) -> str:
    """The edit's own prompt, in the words in which the unedited model is asked."""
    if edit.prompt:
        return edit.cloze
    return build_prompt(
        Probe(kind="efficacy", prompt=edit.question, style="question", gold=(edit.target_new,)), (), (), wording
    )


def seed_of(materials: Materials, edits: Sequence[Edit]) -> int:
    """What random draws for these edits start from."""
    return int(content_id("draws", materials.seed, [edit.id for edit in edits]), 16) % 2**63
