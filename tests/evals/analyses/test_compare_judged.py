"""What judges said of two runs is compared where the same judges said it in the same way, and else left out."""

import io
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from emend.evals.analyses.compare import Comparison, compare
from emend.evals.judges.panel import Panel
from emend.evals.judges.score_run import score_run
from emend.evals.report.tables.comparison import render_comparison
from emend.memory.errors import BadSettings
from tests.evals.judged_runs import elken_run, judge_model, verdict
from tests.fakes import ScriptedChatModel


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return elken_run(tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMEND_CACHE", str(tmp_path / "cache"))


def copied(run: Path, folder: Path) -> Path:
    return Path(shutil.copytree(run, folder))


def scored(folder: Path, judge: str = "openai:judge", mark: int = 5, **panel: Any) -> str:
    model = judge_model(mark)
    return score_run(folder, Panel(judges=(judge,), **panel), ["tendency"], models={judge: model}).scoring.id


def judged(found: Comparison) -> dict[str, float | None]:
    return {row.metric: row.paired.difference for row in found.rows if row.judge}


def test_two_editors_of_a_judged_run(run: Path, tmp_path: Path) -> None:
    def reply(prompt: str) -> str:
        return verdict(prompt, 5 if "because the clinic" in prompt else 2)

    folder = copied(run, tmp_path / "a")
    assert judged(compare(folder)) == {}
    score_run(folder, Panel(judges=("x:y",), batch=False), models={"x:y": ScriptedChatModel(reply=reply)})
    found = compare(folder, editor_a="unedited", editor_b="rag")
    (level,) = [row for row in found.rows if row.metric == "G Q"]
    assert (level.paired.n, level.paired.difference, level.judge) == (3, 0.0, "tendency by x:y, not calibrated")
    assert level.paired.mean_a == level.paired.mean_b == pytest.approx(1 / 3)
    assert {row.judge for row in found.rows if row.metric.startswith("Fact")} == {""}


def test_two_runs_by_the_newest_scoring_that_both_have(run: Path, tmp_path: Path) -> None:
    a, b = copied(run, tmp_path / "a"), copied(run, tmp_path / "b")
    first = scored(a)
    scored(b, mark=4)
    scored(b, judge="openai:other")
    found = compare(a, b)
    assert judged(found)["overall"] == -1.0 and judged(found)["G Q"] == -1.0
    assert judged(compare(a, b, scoring=first[:-2])) == judged(found)
    assert judged(compare(a, b, scoring="none")) == {}


def test_other_judges_or_other_ways_of_asking_are_not_compared(run: Path, tmp_path: Path) -> None:
    a, b = copied(run, tmp_path / "a"), copied(run, tmp_path / "b")
    name = scored(a)
    assert any("the second by nobody" in note for note in compare(a, b).notes)
    scored(b, repeats=2)
    found = compare(a, b)
    assert judged(found) == {} and any("judged numbers are left out" in note for note in found.notes)
    assert any(row.metric == "Fact Q" for row in found.rows)
    with pytest.raises(BadSettings, match=f"has no scoring '{name}'.* emend judge run .*b --judge openai:judge"):
        compare(a, b, scoring=name)
    with pytest.raises(BadSettings, match="has no scoring 'nobody'"):
        compare(a, b, scoring="nobody")


def test_the_table_names_the_judge_and_fits_eighty_columns(run: Path, tmp_path: Path) -> None:
    a = copied(run, tmp_path / "a")
    scored(a)
    file = io.StringIO()
    Console(file=file, width=80).print(render_comparison(compare(a)))
    lines = file.getvalue().splitlines()
    assert "tendency by openai:judge, not calibrated" in lines and max(map(len, lines)) <= 80
    facts, marks = file.getvalue().split("tendency by openai:judge, not calibrated")
    assert " background " in facts and " unscored " in facts and " unscored " not in marks
    assert "comprehensiveness 5" in marks
