"""What the unedited model says is asked once, before the weights change, and kept for every editor and resumed run."""

from pathlib import Path
from typing import Any

import pytest

from emend.editors.base import Materials
from emend.editors.unedited import Unedited
from emend.evals.baseline import Baseline, needs_baseline
from emend.evals.metrics.scorers import SCORERS, score
from emend.evals.records import BASELINE, RunFiles, mend
from emend.memory.errors import ContextOverflow, ModelReplyError
from emend.memory.probe import Answer, Probe
from tests.fakes import ScriptedChatModel

SHARED = Probe(kind="out_of_scope", prompt="The sky is", gold=("blue",), scorers=("agreement",))
FREE = Probe(kind="efficacy", prompt="The sea is", gold=("wide",))


def baseline(model: Any, files: RunFiles, wording: str = "new_fact", name: str = "m") -> Baseline:
    return Baseline(Unedited(Materials(model=model, wording=wording)), files, {"name": name})


def test_a_probe_that_two_cases_share_keeps_the_answer_from_before_the_edit(tmp_path: Path):
    weights = {"sky": "blue"}
    model = ScriptedChatModel(reply=lambda prompt: weights["sky"])
    with RunFiles(tmp_path) as files:
        asked = baseline(model, files)
        asked.prepare([SHARED, FREE, SHARED])
        weights["sky"] = "green"
        assert [asked.take(SHARED).text for _ in range(2)] == ["blue", "blue"]
    assert len(model.calls) == 1 and asked.spent.calls == 1


def test_a_later_process_finds_the_answers_and_asks_nothing(tmp_path: Path):
    model = ScriptedChatModel(reply=lambda prompt: "blue")
    with RunFiles(tmp_path) as files:
        first = baseline(model, files).kept(SHARED)
    with RunFiles(tmp_path) as files:
        later = baseline(model, files)
        assert later.kept(SHARED) == first
    assert len(model.calls) == 1 and later.spent.calls == 0


@pytest.mark.parametrize("other", [{"wording": "plain"}, {"name": "n"}, {"repeat": 1}])
def test_another_wording_model_or_repeat_is_another_question(tmp_path: Path, other: dict[str, Any]):
    from emend.agents.answer import WORDINGS

    model = ScriptedChatModel(reply=lambda prompt: "blue")
    repeat = other.pop("repeat", 0)
    if "wording" in other:
        other["wording"] = next(name for name in WORDINGS if name != "new_fact")
    with RunFiles(tmp_path) as files:
        baseline(model, files).take(SHARED)
        baseline(model, files, **other).take(SHARED, repeat)
    assert len(model.calls) == 2


def test_a_torn_answer_is_cut_and_asked_again(tmp_path: Path):
    model = ScriptedChatModel(reply=lambda prompt: "blue")
    second = SHARED.model_copy(update={"id": "other", "prompt": "The grass is"})
    with RunFiles(tmp_path) as files:
        baseline(model, files).prepare([SHARED, second])
    path = tmp_path / BASELINE
    path.write_bytes(path.read_bytes()[:-7])
    assert [told["file"] for told in mend(tmp_path)[1]] == [BASELINE]
    with RunFiles(tmp_path) as files:
        asked = baseline(model, files)
        assert [asked.take(probe).text for probe in (SHARED, second)] == ["blue", "blue"]
    assert model.calls == ["The sky is", "The grass is", "The grass is"]


@pytest.mark.parametrize("error", [ModelReplyError("expected a colour", reply="mmh"), ContextOverflow("too long")])
def test_a_reply_that_is_no_use_is_kept_as_such(tmp_path: Path, error: Exception):
    def refuse(prompt: str) -> str:
        raise error

    model = ScriptedChatModel(reply=refuse)
    for _ in range(2):
        with RunFiles(tmp_path) as files, pytest.raises(type(error), match=str(error)) as raised:
            baseline(model, files).take(SHARED)
        assert getattr(raised.value, "reply", "") == getattr(error, "reply", "")
        assert [step.node for step in raised.value.steps] == ["respond"]  # type: ignore[attr-defined]
    assert len(model.calls) == 1


def test_only_what_is_no_answer_at_all_is_asked_again(tmp_path: Path):
    model = ScriptedChatModel(reply=lambda prompt: str(1 / 0))
    for _ in range(2):
        with RunFiles(tmp_path) as files, pytest.raises(ZeroDivisionError):
            baseline(model, files).take(SHARED)
    assert len(model.calls) == 2


@pytest.mark.parametrize("name", sorted(SCORERS.keys() - {"judged_same"}))  # that one's judge reads both later
def test_scorers_that_miss_the_unedited_answer_are_those_that_get_it(name):
    asked = SHARED.model_copy(update={"scorers": (name,), "rival": "red", "choices": ("blue", "red")})
    alone = score(asked, Answer(text="blue", log_probs=(-1.0, -2.0))).unscored.values()
    assert needs_baseline(asked) == any("unedited" in reason for reason in alone)
