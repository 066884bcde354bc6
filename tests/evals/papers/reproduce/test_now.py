"""Figures that the ledger counts as `now` are planned by the command, with a small model under the papers' names."""

import random
from pathlib import Path
from typing import Any

import pytest

from emend.evals.papers.reproduce.needs import PlannedCell, plan_cells
from emend.evals.papers.reproduce.recipe import Recipe
from emend.evals.papers.tables import Cell, PaperTable, papers
from tests.evals.command_line import caller
from tests.paths import SHARED

CELLS = 30
SMOLLM2 = SHARED.parent / "models" / "smollm2"
MODEL = f"hf:{SMOLLM2}" if SMOLLM2.is_dir() else "tiny"
NOW = [
    (table, planned)
    for paper in papers()
    for table in paper.tables
    for planned in plan_cells(table, {})
    if planned.status == "now"
]


def _choice(cell: Cell) -> list[str]:
    """Options that choose this figure alone."""
    pairs = ((name, getattr(cell, name)) for name in ("model", "method", "data", "setting", "metric"))
    return [word for name, value in pairs if value for word in ("--only", f"{name}={value}")]


@pytest.mark.slow
@pytest.mark.skipif(not (SHARED / "data").is_dir(), reason="no published data")
@pytest.mark.parametrize(
    ("table", "planned"),
    random.Random(30).sample(NOW, CELLS),
    ids=range(CELLS),
)
def test_a_figure_that_can_be_run_now_is_planned_in_the_run_that_it_needs(
    table: PaperTable, planned: PlannedCell, monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Path
) -> None:
    monkeypatch.setenv("EMEND_DATA", str(SHARED / "data"))
    monkeypatch.chdir(tmp_path)
    words = (*_choice(planned.cell), "--model", f"{planned.cell.model}={MODEL}", "--limit", "1")
    words += ("--embedding", "lexical")  # MeLLo's Contriever is a download
    output = caller(monkeypatch, capsys)("reproduce", table.id, *words, "--dry-run", "--save-recipe", "plan.yaml")
    assert output.code == 0, output.err
    assert "1 run, " in output.out and ": refused" not in output.out and "cannot be run" not in output.out, output.out
    (run,) = Recipe.read(Path("plan.yaml"), {}).runs
    need = planned.need
    assert need is not None
    config = run.config
    assert (config.editors, config.settings, config.mode) == ((need.editor,), (need.setting,), need.mode)
    assert config.model == MODEL and config.limit == 1
    assert need.options.items() <= config.benchmark_options.items()
