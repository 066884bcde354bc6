"""Selection of a run's items to judge."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from pydantic import Field, model_validator

from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings

if TYPE_CHECKING:
    from emend.agents.judging.base import Item


class ItemChoice(FrozenModel):
    """Selection of items to judge; the same command with another or no selection adds more."""

    editors: tuple[str, ...] = Field(
        default=(),
        description="Editor whose answers are judged; repeatable; default: all editors of the run.",
    )
    limit: int | None = Field(
        default=None,
        ge=1,
        description="Maximum number of items to judge per kind, taken from the first.",
    )
    sample: int | None = Field(
        default=None,
        ge=1,
        description="Number of items to judge per kind, drawn at random; a larger sample includes "
        "a smaller one.",
    )

    @model_validator(mode="after")
    def _one_count(self) -> Self:
        if self.limit and self.sample:
            raise BadSettings("--limit and --sample: give one of them.")
        return self

    def chosen(self, items: "Sequence[Item]") -> "list[Item]":
        """Return the selected items of a kind in their order; a sample has the lowest ids."""
        if self.sample is None:
            return list(items[: self.limit])
        drawn = set(sorted(item.id for item in items)[: self.sample])
        return [item for item in items if item.id in drawn]
