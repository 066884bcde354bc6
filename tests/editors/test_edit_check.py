"""Weight edits are checked while they are applied: did they take, and did neighbours turn to the new object."""

from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from emend.agents.local.causal_lm import ScoredTarget
from emend.editors.edit_check import MAX_EDITS, NEIGHBOURS, EditCheck
from emend.memory.edit import Edit, Triplet


def edit(subject: str, target: str = "Rome", old: str = "") -> Edit:
    return Edit.from_triplet(Triplet(subject=subject, relation="in", object=target), "{} is in", target_true=old)


class Believer:
    """Says one object after every prompt with a subject that it was taught, or after all."""

    def __init__(self) -> None:
        self.beliefs: dict[str, str] = {}
        self.everywhere = ""
        self.asked: list[tuple[str, str]] = []

    def log_probs(self, pairs: Sequence[tuple[str, str]]) -> list[ScoredTarget]:
        self.asked += pairs
        return [self._score(prompt, target) for prompt, target in pairs]

    def _score(self, prompt: str, target: str) -> ScoredTarget:
        belief = self.everywhere or self.beliefs.get(prompt.removesuffix(" is in"), "nowhere")
        is_belief = belief == target
        return ScoredTarget(-0.1 if is_belief else -5.0, 3, 1, 0, (-0.1,), int(is_belief))


@pytest.fixture
def model() -> SimpleNamespace:
    return SimpleNamespace(lm=Believer())


def test_an_edit_that_takes_and_stays_local_warns_of_nothing(
    model: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    check = EditCheck(model)
    check.prepare([edit("Lyon")], [edit("Lyon"), edit("Turin"), edit("Bonn")])
    assert {prompt for prompt, _ in model.lm.asked} >= {"Turin is in", "Bonn is in"}
    model.lm.beliefs["Lyon"] = "Rome"
    outcome = check.measure("rome", [edit("Lyon")])
    assert outcome is not None and (outcome.checked, outcome.took, outcome.turned) == (1, 1, 0)
    assert outcome.neighbours == NEIGHBOURS and not caplog.records


def test_neighbours_that_turned_are_counted_and_warned_of_once(
    model: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    model.lm.beliefs["Turin"] = "Rome"  # this one said so before
    check = EditCheck(model)
    check.prepare([edit("Lyon")], [edit("Turin"), edit("Bonn")])
    model.lm.everywhere = "Rome"
    for _ in range(2):
        outcome = check.measure("rome", [edit("Lyon")])
    assert outcome is not None and outcome.turned == outcome.neighbours == NEIGHBOURS - 1
    assert [record.getMessage().split(":")[0] for record in caplog.records] == ["rome"]


def test_an_edit_takes_if_its_new_object_is_more_probable_than_the_old_one(model: SimpleNamespace) -> None:
    check = EditCheck(model)
    edits = [edit("Lyon", old="Paris"), edit("Nice", old="Paris")]
    check.prepare(edits, [])
    model.lm.beliefs |= {"Lyon": "Rome", "Nice": "Paris"}
    outcome = check.measure("rome", edits)
    assert outcome is not None and (outcome.checked, outcome.took) == (2, 1)


def test_of_many_edits_some_are_checked_and_edited_subjects_are_no_neighbours(model: SimpleNamespace) -> None:
    check = EditCheck(model)
    edits = [edit(f"Town {n}") for n in range(200)]
    check.prepare(edits, edits)
    assert not any(prompt.startswith("Town") for prompt, _ in model.lm.asked)
    outcome = check.measure("memit", edits)
    assert outcome is not None and 0 < outcome.checked <= MAX_EDITS


def test_without_local_weights_or_a_prompt_nothing_is_measured(model: SimpleNamespace) -> None:
    remote, check, text = EditCheck(object()), EditCheck(model), Edit(form="document", text="Lyon is in Rome.")
    remote.prepare([edit("Lyon")], [])
    check.prepare([text], [])
    assert remote.measure("lora", [edit("Lyon")]) is None
    assert check.measure("ft", [text]) is None
