"""What ROME, MEMIT and AlphaEdit have in common: values searched for at the subject, keys, statistics, low rank."""

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, PositiveInt

from emend.editors.base import EditCost, Grow, Materials
from emend.editors.costing import counted
from emend.editors.numerics.apply_delta import Deltas
from emend.editors.numerics.architectures import architecture_of, check_width, layer_of
from emend.editors.numerics.contexts import prefixes_of
from emend.editors.numerics.covariance import moments_of
from emend.editors.numerics.key_sums import key_size
from emend.editors.numerics.low_rank import Factors, dense
from emend.editors.numerics.oom_retry import halving
from emend.editors.numerics.suffix_forward import check_logits
from emend.editors.numerics.value_search import Found, Search, search_values
from emend.editors.parametric.weight_editor import Solving
from emend.memory.edit import Edit
from emend.memory.errors import EmendError

PARTS = ("block", "down_projection", "norm", "head")
"""Module paths that these editors use."""


@dataclass(frozen=True)
class WritingSettings(Search):
    """What decides a low-rank edit; the shipped values per model are in the method's TOML file in `settings/`."""

    layers: Annotated[tuple[int, ...], Field(min_length=1)]
    """Whose down-projections are written to, in this order; from 0, or from -1 at the end."""
    contexts: tuple[tuple[PositiveInt, PositiveInt], ...]
    """Sampled prefixes as (tokens, how many) pairs; the bare prompt always comes first."""
    statistics: str
    """`collected` (see `emend covariance`), a folder of statistics, `tinyworld`, or `identity` for none."""
    prefixes: tuple[str, ...] = ()
    """Prefixes of one's own, in place of sampled ones; a space is put behind one that ends in none."""
    architecture: dict[str, str | bool] = field(default_factory=dict)
    """Module paths by name, for architectures that `editors.architectures` lacks."""


class SubjectLast(Solving):
    """An editor that makes the last token of a subject carry a new value."""

    schema: ClassVar[type[WritingSettings]] = WritingSettings
    needs_subject: ClassVar[bool] = True
    at: ClassVar[Literal["mlp", "block"]]
    """Where the original value is read, see `search_values`."""
    settings: WritingSettings

    def __init__(self, materials: Materials) -> None:
        super().__init__(materials)
        self.layers = tuple(layer_of(self.lm.model, layer) for layer in self.settings.layers)
        self.paths = architecture_of(self.lm.model, self.settings.architecture, PARTS, self.layers)
        self.check_layers()
        check_width(self.lm.model, self.paths, self.layers)
        check_logits(self.lm, self.paths)
        # Not when first used: statistics that lack or are damaged are told of before the work, and neither collecting
        # nor decomposing them is an edit's cost.
        self.moments = moments_of(self.lm, self.paths, self.layers, self.settings.statistics)
        halving(self.lm, self.prepare)
        self._told = self.moments.told(self.layers)
        self._foreseen: dict[tuple[str, ...], Found] = {}

    @property
    def where(self) -> dict[str, Any]:
        """The layers that are written to, and the statistics that decide how, where there are any."""
        return {"layers": self.layers} | ({"moments": self._told} if self._told else {})

    def check_layers(self) -> None:  # noqa: B027
        """Refuses layers that the method cannot write to; there are none here.

        Raises:
            BadSettings: as a method says.
        """

    def prepare(self) -> None:
        """Decomposes the statistics as the method uses them."""
        if self.moments.folder is not None:
            for layer in self.layers:
                self.moments.factor(layer, key_size(self.lm, self.paths, layer))

    def solve(self, edits: Sequence[Edit]) -> Deltas:
        """The deltas by parameter name, float64; the model is left as it is.

        Raises:
            BadData: an edit has no subject in its prompt, or no target.
            ModelError: the search for a value gave numbers that are none.
        """
        return dense(self.lm.model, self.factored(edits))

    def factored(self, edits: Sequence[Edit]) -> dict[str, Factors]:
        """What `solve` gives as thin matrices, by module path."""
        if not edits:
            return {}
        with self.lm.lock:
            return halving(self.lm, lambda: self.factors(edits, self.search(edits)))

    def solve_each(self, edits: Sequence[Edit]) -> list[Deltas]:
        """As `solve` of each edit alone, with the values of all searched for together."""
        self.foresee([[edit] for edit in edits])
        try:
            return [self.solve([edit]) for edit in edits]
        finally:
            self._foreseen = {}

    def search(self, edits: Sequence[Edit]) -> Found:
        """The value that each edit wants at the last of the layers, each found on its own."""
        foreseen = self._foreseen.get(_key(edits))
        if foreseen is not None:
            return foreseen
        layer = self.layers[-1]
        return search_values(self.lm, self.paths, edits, self.prefixes, layer, self.at, self.settings)

    def foresee(self, sets: Sequence[Sequence[Edit]]) -> EditCost:
        """Searches for the values of all these edits together, since a value is of the unedited model alone."""
        self._foreseen = {}
        every = [edit for edits in sets for edit in edits]
        if not every:
            return EditCost()
        with counted(self.lm) as counter, self.lm.lock, suppress(EmendError):
            found, at = halving(self.lm, lambda: self.search(every)), 0
            for edits in sets:
                self._foreseen[_key(edits)] = found.part(slice(at, at + len(edits)))
                at += len(edits)
        return counter.cost

    def sequence(self) -> AbstractContextManager[Grow]:
        """As any editor that solves for deltas; what was foreseen is of another model than the next."""
        self._foreseen = {}
        return super().sequence()

    @abstractmethod
    def factors(self, edits: Sequence[Edit], found: Found) -> dict[str, Factors]:
        """What to write, by module path, so that the edits get the values that were found for them."""

    @cached_property
    def prefixes(self) -> tuple[str, ...]:
        """The texts put before every prompt, the empty one first."""
        own = self.settings.prefixes
        apart = (text if text[-1:].isspace() else f"{text} " for text in own if text)
        return ("", *apart) if own else prefixes_of(self.lm, self.settings.contexts, self.materials.seed)


def _key(edits: Sequence[Edit]) -> tuple[str, ...]:
    return tuple(edit.id for edit in edits)
