"""Rules of `recipes.toml`: needs of the runs of the papers' tables, and figures that cannot be run."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from emend.evals.papers.tables import Cell
from emend.memory.edit import FrozenModel

Overrides = dict[str, dict[str, Any]]


class CellRule(FrozenModel):
    """Needs of figures: options of the benchmark, settings of editors, fields of a run; or why they cannot be run."""

    cells: dict[str, str | tuple[str, ...]]
    options: dict[str, str] = {}
    overrides: Overrides = {}
    run: dict[str, Any] = {}
    blocked: str = ""
    """Reason for which the figures cannot be run."""
    model: str = ""
    """Reason for which another model must take the place of the paper's."""
    helper: str = ""
    """Reason for which another model must judge or extract."""
    file: str = ""
    """Name of the file of triplets that is needed."""
    make: str = ""
    """Options of `emend extract` that make it."""

    def applies(self, cell: Cell) -> bool:
        """Return whether the figure is one of `cells`."""
        values = ((str(getattr(cell, name)), of) for name, of in self.cells.items())
        return all(value == of if isinstance(of, str) else value in of for value, of in values)

    @property
    def is_about_models(self) -> bool:
        """True if the rule says nothing of another model in the place of the paper's."""
        return "model" in self.cells


class PaperRecipes(FrozenModel):
    """The rules of a paper; see the head of `recipes.toml`."""

    joined: tuple[str, ...] = ()
    by_data: str = ""
    average: str = ""
    rules: tuple[CellRule, ...] = ()


class PaperModel(FrozenModel):
    """A paper's model: billions of parameters and name on the Hugging Face hub, where its weights are public."""

    parameters: float | None = None
    hub: str = ""


@cache
def _fields() -> dict[str, Any]:
    return tomllib.loads((files("emend.evals.papers") / "recipes.toml").read_text(encoding="utf-8"))


@cache
def recipes(paper: str) -> PaperRecipes:
    """The rules of a paper."""
    return PaperRecipes.model_validate(_fields().get(paper, {}))


@cache
def paper_models() -> dict[str, PaperModel]:
    """The papers' models by name."""
    return {name: PaperModel.model_validate(fields) for name, fields in _fields()["models"].items()}


def gpu_gigabytes() -> float:
    """Memory of the GPU that is assumed."""
    return float(_fields()["gpu"]["gigabytes"])


def gigabytes_needed(billions: float, editor: str, overrides: Mapping[str, Mapping[str, Any]]) -> float:
    """Memory of the GPU that an editor takes on a model of so many parameters; a gigabyte is 10^9 bytes."""
    memory, settings = _fields()["memory"], overrides.get(editor, {})
    named = (f"{editor}.{name}={value}" for name, value in settings.items())
    key = next((name for name in (*named, editor) if name in memory), "default")
    return float(billions * memory[key] + _fields()["gpu"]["beside"])
