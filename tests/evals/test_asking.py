"""What the unedited model says is asked before the weights change, and serves every case that shares the probe."""

import pytest

from emend.editors.base import Materials
from emend.editors.unedited import Unedited
from emend.evals.asking import Baseline, needs_baseline
from emend.evals.case import Case
from emend.evals.metrics.scorers import SCORERS, score
from emend.memory.edit import Edit
from emend.memory.probe import Answer, Probe
from tests.fakes import ScriptedChatModel

SHARED = Probe(kind="out_of_scope", prompt="The sky is", gold=("blue",), scorers=("agreement",))


def case(text: str) -> Case:
    return Case(edits=(Edit(form="event", text=text),), probes=(SHARED,))


def test_a_probe_that_two_cases_share_keeps_the_answer_from_before_the_edit():
    weights = {"sky": "blue"}
    model = ScriptedChatModel(reply=lambda prompt: weights["sky"])
    baseline = Baseline(Unedited(Materials(model=model)), eager=True)
    baseline.prepare([case("One."), case("Two.")])
    weights["sky"] = "green"
    assert [baseline.take(SHARED).text for _ in range(2)] == ["blue", "blue"]


@pytest.mark.parametrize("name", sorted(SCORERS))
def test_scorers_that_miss_the_unedited_answer_are_those_that_get_it(name):
    asked = SHARED.model_copy(update={"scorers": (name,), "rival": "red", "choices": ("blue", "red")})
    alone = score(asked, Answer(text="blue", log_probs=(-1.0, -2.0))).unscored.values()
    assert needs_baseline(asked) == any("unedited" in reason for reason in alone)
