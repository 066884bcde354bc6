"""Base class of ROME, MEMIT and AlphaEdit: find a value for the subject's token and write it."""

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, PositiveInt

from emend.agents.local.offload import keep_loaded
from emend.editors.base import EditCost, EditorContext
from emend.editors.cost import count_tokens
from emend.editors.numerics.apply_delta import Deltas, is_edited
from emend.editors.numerics.architectures import check_width, find_architecture, resolve_layer
from emend.editors.numerics.contexts import OPENERS, context_prefixes
from emend.editors.numerics.covariance import load_covariance
from emend.editors.numerics.low_rank import LowRankDelta
from emend.editors.numerics.oom_retry import retry_on_oom
from emend.editors.numerics.suffix_forward import PARTS, check_logits
from emend.editors.numerics.value_search import ValueResult, ValueSearchSettings, search_values
from emend.editors.parametric.weight_editor import WeightEditor, ids_of
from emend.memory.edit import Edit
from emend.memory.errors import EmendError


@dataclass(frozen=True)
class LocateThenEditSettings(ValueSearchSettings):
    """Settings of a low-rank edit, named as in the published hyper-parameter files if possible."""

    layers: Annotated[tuple[int, ...], Field(min_length=1)]
    """Layers whose down-projections are changed, in this order; from 0, or from -1 at the end."""
    context_template_length_params: tuple[tuple[PositiveInt, PositiveInt], ...]
    """Sampled prefixes as (tokens, count) pairs; the bare prompt always comes first."""
    covariance: str
    """Key covariance: `collected`, a folder, `tinyworld`, or `identity` for none.

    `emend prepare covariance` collects it.
    """
    context_openers: Annotated[tuple[str, ...], Field(min_length=1)] = OPENERS
    """Texts that sampled prefixes begin with, in turn: MEMIT's five, or [""] as in ROME's code."""
    prefixes: tuple[str, ...] = ()
    """Prefixes that replace sampled ones; a space is added unless one ends in white space."""
    architecture: dict[str, str | bool] = field(default_factory=dict)
    """Module paths by name, for architectures that `editors.numerics.architectures` lacks."""


class LocateThenEdit(WeightEditor):
    """Base class of editors that write a new value at the last token of a subject."""

    schema: ClassVar[type[LocateThenEditSettings]] = LocateThenEditSettings
    needs_subject: ClassVar[bool] = True
    value_site: ClassVar[Literal["mlp", "block"]]
    """The output at which the original value is read, see `search_values`."""
    settings: LocateThenEditSettings

    def __init__(self, context: EditorContext) -> None:
        super().__init__(context)
        self.layers = tuple(resolve_layer(self.lm.model, layer) for layer in self.settings.layers)
        self.paths = find_architecture(
            self.lm.model, self.settings.architecture, PARTS, self.layers
        )
        self.check_layers()
        check_width(self.lm.model, self.paths, self.layers)
        check_logits(self.lm, self.paths)
        keep_loaded(
            self.lm.model, (self.paths.of_layer(layer, "down_projection") for layer in self.layers)
        )
        # Loaded and factorised here, not at first use, so that a missing or damaged covariance is
        # reported before any work is done, and its cost is not counted as an edit's.
        self.covariance = load_covariance(
            self.lm, self.paths, self.layers, self.settings.covariance
        )
        retry_on_oom(self.lm, self.factorise)
        self._provenance = self.covariance.provenance(self.layers)
        self._presolved: dict[tuple[str, ...], ValueResult] = {}

    @property
    def target_modules(self) -> dict[str, Any]:
        """The edited layers and the provenance of the covariance, unless it is the identity."""
        if not self._provenance:
            return {"layers": self.layers}
        return {"layers": self.layers, "covariance": self._provenance}

    def check_layers(self) -> None:  # noqa: B027
        """Refuse layers that the method cannot write to; by default all layers are accepted.

        Raises:
            BadSettings: the method cannot write to these layers.
        """

    def factorise(self) -> None:
        """Compute the factorisation needed: by default each layer's Cholesky factor."""
        self.covariance.factorise(self.lm, self.paths, self.layers)

    def solve(self, edits: Sequence[Edit]) -> Deltas:
        """Return the low-rank deltas by parameter name; the model is not changed.

        Raises:
            BadData: an edit has no subject in its prompt, or no target.
            ModelError: the search for a value gave numbers that are not finite.
        """
        if not edits:
            return {}
        with self.lm.lock:
            return retry_on_oom(self.lm, lambda: self.deltas(edits, self.search(edits)))

    @abstractmethod
    def deltas(self, edits: Sequence[Edit], values: ValueResult) -> dict[str, LowRankDelta]:
        """Return the deltas by parameter name that write the values found for the edits."""

    def search(self, edits: Sequence[Edit]) -> ValueResult:
        """Return the value of each edit at the last of the layers, each optimised separately."""
        presolved = self._presolved.get(ids_of(edits))
        # Presolved values hold for the unedited model only, not inside a sequence.
        if presolved is not None and not is_edited(self.lm.model):
            return presolved
        layer = self.layers[-1]
        return search_values(
            self.lm, self.paths, edits, self.prefixes, layer, self.value_site, self.settings
        )

    def presolve(self, groups: Sequence[Sequence[Edit]]) -> EditCost:
        """Search for the values of all groups in one batch, before `edit` gets each group."""
        self._presolved = {}
        edits = [edit for group in groups for edit in group]
        if not edits:
            return EditCost()
        # An edit that cannot be solved raises in `edit`, so that only its own group fails.
        with count_tokens(self.lm) as counter, self.lm.lock, suppress(EmendError):
            values, start = retry_on_oom(self.lm, lambda: self.search(edits)), 0
            for group in groups:
                self._presolved[ids_of(group)] = values.part(slice(start, start + len(group)))
                start += len(group)
        return counter.cost

    @cached_property
    def prefixes(self) -> tuple[str, ...]:
        """The texts put before every prompt, the empty one first."""
        fixed = self.settings.prefixes
        if not fixed:
            settings = self.settings
            lengths, openers = settings.context_template_length_params, settings.context_openers
            return context_prefixes(self.lm, lengths, self.context.seed, openers)
        return ("", *(text if text[-1:].isspace() else f"{text} " for text in fixed if text))
