"""Rules of `table_rules.toml`: needs of the runs of the papers' tables, and figures that cannot be run."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from emend.evals.results.papers.tables import Cell
from emend.memory.edit import FrozenModel


class CellRule(FrozenModel):
    """Needs of the figures that `cells` names, or why they cannot be run; see the head of `table_rules.toml`."""

    cells: dict[str, str | tuple[str, ...]]
    options: dict[str, str] = {}
    overrides: dict[str, dict[str, Any]] = {}
    run: dict[str, Any] = {}
    blocked: str = ""
    model: str = ""
    requirement: str = ""
    file: str = ""
    make: dict[str, Any] = {}

    def applies(self, cell: Cell, is_other: bool = False) -> bool:
        """Return whether the figure is one of `cells`; `is_other` where another model has its model's place."""
        values = ((str(getattr(cell, name)), of) for name, of in self.cells.items())
        is_one = all(value == of if isinstance(of, str) else value in of for value, of in values)
        return is_one and not (is_other and "model" in self.cells)


class PaperRules(FrozenModel):
    """The rules of a paper; see the head of `table_rules.toml`."""

    joined: tuple[str, ...] = ()
    by_data: str = ""
    average: str = ""
    rules: tuple[CellRule, ...] = ()


class PaperModel(FrozenModel):
    """A paper's model: billions of parameters and name on the Hugging Face hub, where its weights are public.

    `card` says what the page of its weights says of access, licence, kind of weights and chat format.
    """

    parameters: float | None = None
    hub: str = ""
    card: str = ""


@cache
def _fields() -> dict[str, Any]:
    return tomllib.loads((files("emend.evals.results.papers") / "table_rules.toml").read_text(encoding="utf-8"))


@cache
def table_rules(paper: str) -> PaperRules:
    """The rules of a paper."""
    return PaperRules.model_validate(_fields().get(paper, {}))


@cache
def paper_models() -> dict[str, PaperModel]:
    """The papers' models by name."""
    return {name: PaperModel.model_validate(fields) for name, fields in _fields()["models"].items()}


def gpu_gigabytes() -> float:
    """Memory of the GPU that is assumed."""
    return float(_fields()["gpu"]["gigabytes"])


def gigabytes_needed(billions: float, editor: str, settings: Mapping[str, Any]) -> float:
    """Memory that an editor with these settings takes on a model of so many parameters; a gigabyte is 10^9 bytes."""
    per_parameter = memory_factor(editor, settings) * _fields()["memory"]["default"]
    return float(billions * per_parameter + _fields()["gpu"]["beside"])


def memory_factor(editor: str, settings: Mapping[str, Any]) -> float:
    """Memory that an editor with these settings takes, the model's weights included, in memory of the weights."""
    memory = _fields()["memory"]
    named = (f"{editor}.{name}={value}" for name, value in settings.items())
    key = next((name for name in (*named, editor) if name in memory), "default")
    return float(memory[key] / memory["default"])
