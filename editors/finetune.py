"""Fine-tuning on the new facts alone: FT-M (Zhang et al. 2024), with the norm constraint of FT-L as a setting.

FT-M trains by the cross-entropy of the target's tokens, each at its own place with the prompt masked; FT-L as coded by
Meng et al. (2022) scores all of them at the prompt's last token, which is right for targets of one token only. FT-L's
constraint (Zhu et al. 2020) keeps every element of a trained matrix within a distance of where it was.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field

from emend.agents.answer import build_prompt, prompt_id
from emend.agents.causal_lm import CausalLM
from emend.editors.answering import direct, lend
from emend.editors.architectures import down_projection
from emend.editors.base import Answerer, Materials
from emend.editors.hyperparameters import build_settings, family_values
from emend.editors.training import Plan, Row, train
from emend.editors.weights import Deltas, applied
from emend.memory.edit import Edit
from emend.memory.errors import BadData, BadSettings
from emend.memory.probe import Probe


@dataclass(frozen=True)
class FineTuningSettings(Plan):
    """What decides the deltas; the shipped values per model are in `settings/ft.toml`."""

    layers: Annotated[tuple[int, ...], Field(min_length=1)]
    """Whose down-projections are trained; from 0, or from -1 at the end."""
    down_projection: str = ""
    """Module path with `{}` for the layer's number, for architectures that `editors.architectures` lacks."""


class FineTuning:
    """Trains all edits given together in one optimisation, and puts the weights back afterwards.

    An edit with a target is trained on its cloze, or else its question, whatever its form; one without a target, such
    as a bare document, as plain language modelling on its text.
    """

    name: ClassVar[str] = "ft"
    needs_weights: ClassVar[bool] = True

    def __init__(self, materials: Materials) -> None:
        self.materials = materials
        self.lm = weights_of(materials, self.name)
        values = family_values(self.name, families(self.lm)) | materials.settings
        self.settings = build_settings(FineTuningSettings, values, self.name)
        self.paths = [
            down_projection(self.lm.model, layer, self.settings.down_projection) for layer in self.settings.layers
        ]

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Settings, matrices, wording and the prompt's id."""
        wording = self.materials.wording
        return {
            "editor": self.name,
            "settings": asdict(self.settings),
            "matrices": self.paths,
            "wording": wording,
            "prompt": prompt_id(wording),
        }

    @contextmanager
    def edit(self, edits: Sequence[Edit]) -> Iterator[Answerer]:
        """The deltas of all edits together are in the weights until the `with` is left."""
        with applied(self.lm.model, self.solve(edits), self.lm.lock):
            yield lend(self.materials.model, direct(self.materials.model, self.materials.wording))

    def solve(self, edits: Sequence[Edit]) -> Deltas:
        """The deltas by parameter name, float32; the model is left as it is.

        Raises:
            BadData: an edit has neither target nor text.
        """
        rows = [row for edit in edits for row in rows_of(self.lm, edit, self.materials.wording)]
        return train(self.lm, [f"{path}.weight" for path in self.paths], rows, self.settings) if rows else {}


def rows_of(lm: CausalLM, edit: Edit, wording: str) -> list[Row]:
    """The rows that an edit is trained on: one with its target, or its text in pieces of the model's window."""
    if edit.target_new and (edit.prompt or edit.question):
        encoded = lm.encode_pair(_asked(edit, wording), edit.target_new)
        return [Row(encoded.ids, encoded.start)]
    if not edit.text.strip():
        raise BadData(f"edit '{edit.id}' has neither a target with a prompt nor a text: there is nothing to train on.")
    begin, ids = lm.encode("")[:1], lm.encode(edit.text)
    told = ids[1:] if ids[:1] == begin else ids
    size = lm.window or len(told)
    return [Row(begin + told[at : at + size], 1) for at in range(0, len(told), size)]


def _asked(edit: Edit, wording: str) -> str:
    """The edit's own prompt, in the words in which the unedited model is asked."""
    if edit.prompt:
        return edit.cloze
    return build_prompt(
        Probe(kind="efficacy", prompt=edit.question, style="question", gold=(edit.target_new,)), (), (), wording
    )


def weights_of(materials: Materials, editor: str) -> CausalLM:
    """The local model that an editor may write to.

    Raises:
        BadSettings: the model has no weights here.
    """
    lm = getattr(materials.model, "lm", None)
    if not isinstance(lm, CausalLM):
        raise BadSettings(
            f"editor '{editor}' changes weights, and {type(materials.model).__name__} has none here: "
            "use --model tiny or --model hf:FOLDER."
        )
    return lm


def families(lm: CausalLM) -> list[str]:
    """Names under which settings may be kept for a model: architecture and width, as in `gpt2-1600`; architecture."""
    config = lm.model.config
    return [f"{config.model_type}-{config.get_text_config().hidden_size}", config.model_type]
