"""Comparison of the papers' steps with recipe `paper`, for cards and documentation."""

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter

from emend.memory.edit import FrozenModel

FILE = Path(__file__).with_name("paper_steps.toml")
PAPERS = {
    "akew": "AKEW",
    "wikiupdate": "AKEW",
    "docter": "DocTER",
    "elken": "ELKEN",
    "tendencies": "ELKEN",
    "recoe": "ReCoE",
}


class PaperStep(FrozenModel):
    """Step of a paper.

    Attributes:
        step: section and description.
        nodes: graph nodes of recipe `paper` that implement the step; empty if it is implemented
            outside the graph.
        differs: how Emend differs from the paper; empty if it does not.
    """

    step: str
    nodes: tuple[str, ...]
    differs: str


class PaperRecipe(FrozenModel):
    """Steps of a kind's paper, and the purpose of the other nodes of its graph."""

    steps: tuple[PaperStep, ...]
    other_nodes: Mapping[str, str]


@cache
def paper_recipes() -> Mapping[str, PaperRecipe]:
    """Return the steps of the papers, by kind of benchmark."""
    adapter = TypeAdapter(dict[str, PaperRecipe])
    return adapter.validate_python(tomllib.loads(FILE.read_text(encoding="utf-8")))


def compared_steps(kind: str) -> tuple[str, ...]:
    """Return a line for each step of a kind's paper that says how Emend differs, if at all."""
    recipe = paper_recipes().get(kind)
    steps = recipe.steps if recipe else ()
    return tuple(f"{each.step}: {each.differs or 'as in the paper'}" for each in steps)


def steps_table() -> Iterator[str]:
    """Yield the lines of a Markdown table of all kinds: paper step, nodes, differences."""
    yield "| kind | the paper's step | nodes of `paper` | differs |"
    yield "| --- | --- | --- | --- |"
    for kind, recipe in paper_recipes().items():
        for each in recipe.steps:
            nodes = ", ".join(f"`{node}`" for node in each.nodes) or "-"
            step = f"{PAPERS[kind]} {each.step}"
            yield f"| {kind} | {step} | {nodes} | {each.differs or 'no'} |"
