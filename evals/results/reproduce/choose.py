"""Choice of a table's figures and models by the arguments of the command line."""

from collections.abc import Mapping, Sequence

from emend.evals.results.papers.table_rules import paper_models
from emend.evals.results.papers.tables import DIMENSIONS, Cell, PaperTable, table
from emend.evals.results.reproduce.needs import PlannedCell, plan_cells
from emend.evals.results.reproduce.recipe import Recipe
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest


def plan_recipe(recipe: Recipe) -> tuple[PaperTable, list[PlannedCell]]:
    """The table of a recipe and its figures, those that the recipe's `only` names.

    Raises:
        BadSettings: there is no such table, dimension or value.
    """
    published = table(recipe.table)
    return published, plan_cells(published, recipe.models, _choose_cells(published, recipe.only))


def choose_models(published: PaperTable, arguments: Sequence[str]) -> dict[str, str]:
    """The model for each of the table's: `NAME=MODEL` for one, `MODEL` for all that are not named.

    Raises:
        BadSettings: no paper has a model of that name.
    """
    models, default = dict[str, str](), ""
    for argument in arguments:
        name, equals, spec = argument.partition("=")
        if equals and name in paper_models():
            models[name] = spec
        elif equals and not any(sign in name for sign in ":/"):
            raise BadSettings(f"--model '{argument}': {nearest(name, list(paper_models()))}")
        else:
            default = argument
    names = dict.fromkeys(cell.model for cell in published.cells) if default else ()
    return dict.fromkeys(names, default) | models


def _choose_cells(published: PaperTable, only: Mapping[str, str]) -> list[Cell]:
    """The figures that are all of `only`; upper and lower case are alike.

    Raises:
        BadSettings: there is no such dimension, or no figure with such a value.
    """
    chosen = list(published.cells)
    for key, text in only.items():
        if key not in DIMENSIONS:
            raise BadSettings(f"--only {key}: {nearest(key, list(DIMENSIONS))}")
        values = text.split(",")
        names = list(dict.fromkeys(getattr(cell, key) for cell in published.cells))
        if unknown := [value for value in values if not any(_names(value, name) for name in names)]:
            raise BadSettings(f"--only {key}={unknown[0]}: {published.id} has {', '.join(names)}.")
        chosen = [cell for cell in chosen if any(_names(value, getattr(cell, key)) for value in values)]
    if not chosen:
        raise BadSettings(f"no figure of {published.id} is all of --only at once: name less.")
    return chosen


def _names(value: str, name: str) -> bool:
    """Return whether a word is a name, or what stands before its bracket."""
    return value.strip().lower() in (name.lower(), name.lower().partition(" (")[0])
