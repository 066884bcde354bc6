"""Of how a benchmark is scored a report says what bears on the columns that it shows."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from emend.evals.aggregate.rows import report
from emend.evals.benchmarks.elken.cases import M_FOR_G
from emend.evals.judges.panel import Panel
from emend.evals.judges.score_run import score_run
from emend.evals.log.config import RunConfig
from emend.evals.runner.run import run
from tests.evals.judged_runs import judge_model, speak
from tests.fakes import ScriptedChatModel
from tests.paths import DATA

PANEL = Panel(judges=("openai:judge",))


def elken(folder: Path, blocks: str) -> Path:
    config = RunConfig(
        benchmark="elken",
        data=str(DATA / "elken"),
        benchmark_options={"blocks": blocks},
        editors=("rag",),
        model="openai:tested",
        embedding="lexical",
    )
    run(config, folder, model=ScriptedChatModel(reply=speak))
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with both readings of the tendency questions."""
    return elken(tmp_path_factory.mktemp("runs") / "whole", "fact,tendency_m,tendency_g")


def says(folder: Path) -> bool:
    return M_FOR_G in report(folder).choices


@pytest.mark.parametrize(("blocks", "said"), [("fact,tendency_m", True), ("fact,tendency_g", False), ("fact", False)])
def test_what_stands_for_free_answers_is_told_where_that_column_is(tmp_path: Path, blocks: str, said: bool) -> None:
    folder = elken(tmp_path / "run", blocks)
    assert says(folder) == ("E (M for G)" in {row.metric for row in report(folder).rows}) == said


@pytest.mark.parametrize(("reply", "said"), [(None, False), (lambda prompt: "Perhaps.", True)])
def test_it_is_told_until_a_judge_has_read_the_free_answers(
    whole: Path, tmp_path: Path, reply: Callable[[str], str] | None, said: bool
) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "run"))
    assert says(folder)
    model = judge_model() if reply is None else ScriptedChatModel(reply=reply)
    score_run(folder, PANEL, ["tendency"], models={PANEL.judges[0]: model})
    assert {"E (M for G)", "E"} <= {row.metric for row in report(folder).rows}
    assert says(folder) == said
