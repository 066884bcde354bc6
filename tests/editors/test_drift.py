"""Drift of hidden states and growth of weights under edits."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from rich.console import Console

import emend
from emend.agents.llm import load_model
from emend.editors.drift import drift_between, model_state
from emend.editors.numerics.apply_delta import Deltas, applied
from emend.editors.parametric.finetune import FineTuning
from emend.evals.show.report.secondary import perplexity_tables
from emend.memory.edit import Edit
from tests.params import first_quick

TEXTS = ("The river flows to the sea.", "A second text.")


def test_an_unchanged_model_has_none_and_a_scaled_matrix_has_its_factor() -> None:
    model: Any = load_model("tiny")
    before = model_state(model, TEXTS)
    assert before is not None and [len(states) for states in before.hidden] == [
        len(model.lm.encode(text)) for text in TEXTS
    ]
    now = model_state(model, TEXTS)
    assert now is not None and drift_between(before, now) == (pytest.approx(0, abs=1e-6), 1.0)
    name, matrix = next(
        each for each in model.lm.model.named_parameters() if "down_proj" in each[0] or "c_proj" in each[0]
    )
    with applied(model.lm.model, {name: matrix.detach().float() * 2}):
        edited = model_state(model, TEXTS)
    assert edited is not None
    drift = drift_between(before, edited)
    assert drift.growth == pytest.approx(3, rel=1e-4) and 0 < drift.drift < 2


class Breaking(FineTuning):
    """Makes a matrix infinite, as a training that runs away does."""

    name: ClassVar[str] = "breaking"

    @classmethod
    def settings_for(cls, lm: Any, overrides: Any) -> Any:
        """Those of fine-tuning."""
        return FineTuning.settings_for(lm, overrides)

    def solve(self, edits: Sequence[Edit]) -> Deltas:
        name = f"{self.paths[0]}.weight"
        return {name: torch.full_like(self.lm.model.get_parameter(name), float("inf"))}


@pytest.mark.slow
def test_a_broken_model_leaves_a_run_that_can_be_read_with_reasons(tmp_path: Path) -> None:
    plan: dict[str, Any] = {"mode": "all", "limit": 2, "progress": False, "fail_on_error": "false"}
    emend.run("tinyworld", [Breaking], "tiny", out=tmp_path / "run", ability="built_in", **plan)
    report = emend.load_run(tmp_path / "run").report
    (row,), (ability,) = report.perplexity, report.ability
    assert (row.mean, row.drift) == (None, None) and "not finite" in row.reason
    assert (ability.mean, ability.unscored, ability.change.difference) == (None, 1, None)
    assert ability.before.mean is not None and "not finite" in ability.reason


def test_a_model_without_weights_or_no_texts_has_no_state() -> None:
    assert model_state(object(), TEXTS) is None
    assert model_state(load_model("tiny"), ()) is None


@pytest.mark.slow
@pytest.mark.parametrize("mode, standings", first_quick([("sequential:2", [2, 4]), ("all", [0]), ("single", [0])]))
def test_it_is_measured_at_checkpoints_and_in_mode_all(tmp_path: Path, mode: str, standings: list[int]) -> None:
    sequence = {"reevaluate_at": "2,end"} if mode.startswith("sequential") else {}
    settings = {"overrides": {"ft": {"num_steps": 3}}}
    plan: dict[str, Any] = {"mode": mode, "limit": 4, "progress": False} | sequence | settings
    result = emend.run("tinyworld", ["ft"], "tiny", out=tmp_path / "run", **plan)
    rows = result.report.perplexity
    assert [row.standing for row in rows] == standings
    assert all((row.drift is None) == (mode == "single") for row in rows)
    assert all(row.growth is None or row.growth > 0 for row in rows)
    ((_, table),) = perplexity_tables(rows)
    with (console := Console(width=120)).capture() as screen:
        console.print(table)
    assert ("drift" in screen.get()) == (mode != "single")
    assert torch.isfinite(torch.tensor([row.drift or 0.0 for row in rows])).all()
