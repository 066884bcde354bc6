"""Mode `single`: an editor works ahead for several cases at a time, and no record depends on it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from emend.agents.llm import load_model
from emend.editors.base import Answerer, EditCost
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate import edit_groups as foreseeing
from emend.evals.evaluate import evaluate
from emend.evals.evaluate.run import run
from emend.evals.log.lines import COSTS, ERRORS
from emend.evals.log.records import read_lines
from emend.memory.edit import Edit
from tests.evals import toy_runs
from tests.evals.toy_runs import untimed_records
from tests.evals.toys import ToyEditor

EDITOR = "tests.evals.evaluate.test_batch_ahead:Prophet"


class Prophet(ToyEditor):
    """Keeps what it was told to presolve; its edits cost nothing, its foresight 12 tokens an edit."""

    name: ClassVar[str] = "prophet"
    needs_weights: ClassVar[bool] = True
    foreseen: ClassVar[list[list[str]]] = []
    stopping: ClassVar[list[str]] = []

    def presolve(self, sets: Sequence[Sequence[Edit]]) -> EditCost:
        self.foreseen.append([edit.subject for edits in sets for edit in edits])
        return EditCost(tokens=12 * len(self.foreseen[-1]))

    @contextmanager
    def edit(self, edits: Sequence[Edit]) -> Iterator[Answerer]:
        if self.stopping and edits and edits[0].subject == self.stopping[0]:
            raise KeyboardInterrupt
        with super().edit(edits) as answerer:
            yield answerer


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(foreseeing, "CHUNK", 3)
    yield
    Prophet.foreseen.clear()
    Prophet.stopping.clear()


def go(folder: Path, **changed: Any) -> None:
    toy_runs.go(folder, **{"editors": (EDITOR,), "benchmark_options": {"cases": "8"}} | changed)


def subjects(folder: Path) -> list[str]:
    go(folder)
    items = [name for portion in Prophet.foreseen for name in portion]
    Prophet.foreseen.clear()
    return items


def test_cases_are_foreseen_in_portions_and_the_cost_is_theirs(tmp_path: Path) -> None:
    go(tmp_path, benchmark_options={"cases": "7"})
    assert [len(portion) for portion in Prophet.foreseen] == [3, 3, 1]
    costs = [line for line in read_lines(tmp_path, COSTS) if line["act"] == "edit"]
    assert [line["tokens"] for line in costs] == [12] * 7


def test_cases_of_many_edits_are_foreseen_in_smaller_portions(tmp_path: Path) -> None:
    go(tmp_path, benchmark_options={"cases": "4", "edits": "2"})
    assert [len(portion) for portion in Prophet.foreseen] == [4, 2, 2]
    assert sum(line["tokens"] for line in read_lines(tmp_path, COSTS) if line["act"] == "edit") == 12 * 8


def test_a_cpu_solves_one_edit_at_a_time_so_that_each_is_kept_as_soon_as_it_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert foreseeing.piece_size(SimpleNamespace(device=SimpleNamespace(type="cuda"))) == foreseeing.CHUNK
    assert foreseeing.piece_size(None) == foreseeing.CHUNK
    cpu = SimpleNamespace(device=SimpleNamespace(type="cpu"))
    monkeypatch.setattr(evaluate, "piece_size", lambda lm: foreseeing.piece_size(cpu))
    presolve = Prophet.presolve

    def interrupted(self: Prophet, sets: Sequence[Sequence[Edit]]) -> EditCost:
        if len(Prophet.foreseen) == 5:
            raise KeyboardInterrupt
        return presolve(self, sets)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Prophet, "presolve", interrupted)
        go(tmp_path)
    assert [len(piece) for piece in Prophet.foreseen] == [1] * 5
    assert len({record.case for record in toy_runs.records(tmp_path)}) == 5
    Prophet.foreseen.clear()
    go(tmp_path)
    assert [len(piece) for piece in Prophet.foreseen] == [1] * 3


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["batch:2", "all", "sequential"])
def test_other_modes_foresee_nothing(tmp_path: Path, mode: str) -> None:
    go(tmp_path, mode=mode)
    assert not Prophet.foreseen


@pytest.mark.slow
def test_a_resumed_run_foresees_the_same_portions_but_no_finished_one(tmp_path: Path) -> None:
    names = subjects(tmp_path / "whole")
    Prophet.stopping.append(names[4])
    with pytest.raises(KeyboardInterrupt):
        go(tmp_path / "halted")
    assert [len(portion) for portion in Prophet.foreseen] == [3, 3]
    Prophet.foreseen.clear()
    Prophet.stopping.clear()
    go(tmp_path / "halted")
    assert Prophet.foreseen == [names[3:6], names[6:8]]
    assert untimed_records(tmp_path / "halted") == untimed_records(tmp_path / "whole")
    go(tmp_path / "halted")
    assert len(Prophet.foreseen) == 2


@pytest.mark.slow
def test_records_of_an_interrupted_run_of_weights_are_those_of_an_undisturbed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from emend.editors.parametric.locate_then_edit import LocateThenEdit

    settings = {"v_num_grad_steps": 3, "covariance": "identity", "prefixes": ["So. "]}
    plan = {"benchmark": "tinyworld", "editors": ("rome",), "limit": 3, "mode": "single", "embedding": "lexical"}
    config = RunConfig.model_validate(plan | {"overrides": {"rome": settings}, "perplexity_text": "none"})
    model: Any = load_model("tiny")
    run(config, tmp_path / "whole", model=model)
    solve, left = LocateThenEdit.solve, [1]

    def interrupted(self: Any, edits: Sequence[Edit]) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return solve(self, edits)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(LocateThenEdit, "solve", interrupted)
        run(config, tmp_path / "halted", model=model)
    assert 0 < len(untimed_records(tmp_path / "halted")) < len(untimed_records(tmp_path / "whole"))
    run(config, tmp_path / "halted", model=model)
    assert untimed_records(tmp_path / "halted") == untimed_records(tmp_path / "whole")
    model.close()


@pytest.mark.slow
def test_edits_whose_numbers_overflow_fail_with_step_and_loss_and_the_run_goes_on(tmp_path: Path) -> None:
    """In half precision, where they overflow soonest."""
    from emend.agents.tiny import model_folder
    from emend.editors.base import EditorContext
    from emend.editors.conformance import check_same, state_of

    model: Any = load_model(f"hf:{model_folder()}", device="cpu", dtype="float16")
    broken = {
        "v_lr": 1e6,
        "clamp_norm_factor": 1e9,
        "v_num_grad_steps": 4,
        "covariance": "identity",
        "prefixes": ["So. "],
    }
    plan = {"benchmark": "tinyworld", "editors": ("rome", "unedited"), "limit": 2, "mode": "single"}
    more = {"overrides": {"rome": broken}, "fail_on_error": "false", "perplexity_text": "none", "embedding": "lexical"}
    before = state_of(EditorContext(model))
    summary = run(RunConfig.model_validate(plan | more), tmp_path, model=model)
    assert (summary.failed, summary.finished) == (2, 2)
    errors = [str(line["message"]) for line in read_lines(tmp_path, ERRORS)]
    assert len(errors) == 2 and all("failed at step 1, got losses [nan" in error for error in errors)
    check_same(before, state_of(EditorContext(model)), "after the run")
    model.close()
