"""A scope classifier is fitted to the demonstrations only if both classes have enough of them."""

import pytest

from emend.agents.scope.logistic import DefaultScope
from emend.editors.base import Demonstration, EditorContext
from emend.editors.memory_based.scope import ENOUGH, load_scope_for
from tests.fakes import ScriptedChatModel


def shot(kind: str, fact: str, prompt: str) -> Demonstration:
    return Demonstration(kind=kind, fact=fact, prompt=prompt, target="yes")


def context(inside: int, outside: int) -> EditorContext:
    shots = [shot("update", f"Town {n} is blue.", f"Is town {n} blue?") for n in range(inside)]
    shots += [shot("retain", f"Town {n} is red.", f"Who wrote song {n}?") for n in range(outside)]
    return EditorContext(model=ScriptedChatModel(reply=str), demonstrations=tuple(shots))


@pytest.mark.parametrize(("inside", "outside"), [(2 * ENOUGH, 0), (0, 2 * ENOUGH), (ENOUGH - 1, ENOUGH)])
def test_too_few_demonstrations_of_a_class_give_the_default(inside, outside):
    assert isinstance(load_scope_for(context(inside, outside)), DefaultScope)


@pytest.mark.slow
def test_enough_of_both_are_learned_from():
    assert not isinstance(load_scope_for(context(ENOUGH, ENOUGH)), DefaultScope)
