"""The commands `analyse` and `compare`: tables, reproducible plots, and errors in one line."""

import json
from pathlib import Path
from typing import Any

import pytest

from emend.evals.judging.judged_run import open_run
from emend.evals.judging.panel import Panel
from emend.evals.judging.score_run import score_run
from emend.evals.results.analyses.base import AnalysisRequest
from emend.evals.results.analyses.registry import analyse_runs
from emend.evals.show.report.plots import plot_analysis
from tests.evals.judged_runs import elken_run as judged_elken
from tests.evals.judged_runs import judge_model
from tests.evals.results.analyses.test_analyses import docter_run, elken_run, recoe_run


def test_analyse_lists_shows_and_explains(tmp_path: Path, emend: Any) -> None:
    run = str(docter_run(tmp_path / "a"))
    code, out, _ = emend("analyse", run)
    assert code == 0 and "frequency" in out and "Not possible for this run:" in out and "ELKEN" not in out
    assert f"Compute one: emend analyse {run} " in " ".join(out.split())
    code, out, _ = emend("analyse", run, "position")
    assert code == 0 and "Front" in out and "33.3" in out and "bootstrap" in out
    code, out, _ = emend("analyse", run, "position", "--json")
    assert json.loads(out)["rows"][0]["n"] == 3
    code, out, err = emend("analyse", run, "positon")
    assert (code, out) == (2, "") and "did you mean 'position'" in err
    code, _, err = emend("analyse", run, "crosslingual")
    assert code == 2 and "--setting doc_en_zh" in err
    code, _, err = emend("analyse", run, "position", "--plot", "x.pdf")
    assert code == 2 and ".png or .svg" in err


def test_compare_shows_two_editors(tmp_path: Path, emend: Any) -> None:
    run = str(recoe_run(tmp_path / "a"))
    other = str(recoe_run(tmp_path / "b"))
    code, out, _ = emend("compare", run, other)
    assert code == 0 and "flip" in out and "paired" in out
    code, out, _ = emend("compare", run, other, "--json")
    rows = json.loads(out)["rows"]
    assert rows[0]["difference"] == 0.0 and rows[-1]["paired"] == 7
    code, _, err = emend("compare", run)
    assert code == 2 and "the run has one editor, rag: give a second run" in err


@pytest.mark.slow
def test_every_form_is_drawn_and_drawn_the_same_again(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pip install 'emend-eval[plot]'")
    runs = {"frequency": docter_run, "perplexity": recoe_run, "recall-coherence": recoe_run, "event-type": elken_run}
    for kind, make in {**runs, "scheme": recoe_run}.items():
        result = analyse_runs(kind, [open_run(make(tmp_path / kind))])
        files = [tmp_path / f"{kind}-{n}.{'png' if kind == 'scheme' else 'svg'}" for n in range(2)]
        for file in files:
            plot_analysis(result, file)
        assert files[0].read_bytes() == files[1].read_bytes(), kind
        assert 2_000 < files[0].stat().st_size < 200_000


def test_a_judged_run_from_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Free answers of a real run, marked by a scripted judge, and analysed by scale."""
    monkeypatch.setenv("EMEND_CACHE", str(tmp_path / "cache"))
    folder = judged_elken(tmp_path / "run")
    score_run(folder, Panel(judges=("openai:judge",)), models={"openai:judge": judge_model(mark=5)})
    result = analyse_runs("tendency", [open_run(folder)], AnalysisRequest())
    assert {row.label for row in result.rows} == {"correctness", "coherence", "comprehensiveness", "overall"}
    assert {row.mean for row in result.rows} == {100.0} and all(row.n for row in result.rows)
    assert any("openai:judge" in note and "not calibrated" in note for note in result.notes)
    assert analyse_runs("event-type", [open_run(folder)]).rows
