"""The steps of the papers beside the graphs of recipe `paper`: none is left out."""

import pytest

from emend.evals.construction.paper_steps import compared_steps, paper_recipes
from emend.evals.construction.registry import CONSTRUCTIONS


@pytest.mark.parametrize("kind", list(paper_recipes()))
def test_every_node_of_the_recipe_of_the_paper_is_a_step_or_said_to_be_our_own(kind: str):
    recipe = paper_recipes()[kind]
    named = [*(node for step in recipe.steps for node in step.nodes), *recipe.other_nodes]
    nodes = {*CONSTRUCTIONS.load(kind).build("paper").get_graph().nodes} - {"__start__", "__end__"}
    assert sorted(named) == sorted(nodes)


def test_all_kinds_after_a_paper_have_steps_and_others_none():
    kinds = {*CONSTRUCTIONS.builtin}
    assert {*paper_recipes()} == kinds - {"questions", "facts", "chains"}
    assert compared_steps("chains") == ()
    assert "4.2: leads of the pages of subject and object: as in the paper" in compared_steps("wikiupdate")
