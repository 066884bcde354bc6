"""What judges said stands beside what the papers' judges said, under both judges' names."""

from pathlib import Path

import pytest

from emend.evals.judging.panel import Panel
from emend.evals.judging.score_run import score_run
from emend.evals.papers.compare_published import PublishedComparison, PublishedLine, against
from emend.memory.errors import BadSettings
from tests.evals.judged_runs import elken_run, judge_model, recoe_run

JUDGE = "openai:judge"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMEND_CACHE", str(tmp_path / "cache"))


def judge(folder: Path, judge: str = JUDGE, mark: int = 5, yes: str = "yes") -> str:
    return score_run(folder, Panel(judges=(judge,)), models={judge: judge_model(mark, yes)}).scoring.id


def ours(found: PublishedComparison) -> list[PublishedLine]:
    return [line for line in found.lines if line.editor]


def test_coherence_of_chains_stands_beside_recoes_by_scheme_and_unedited_beside_before(tmp_path: Path) -> None:
    folder = recoe_run(tmp_path / "run", ("unedited", "rag"))
    with pytest.raises(
        BadSettings, match=r"Its figures are a judge's: emend judge run \S+ --judge .* --kind coherence"
    ):
        against(folder, "recoe:5")
    judge(folder)
    found = against(folder, "recoe:5")
    assert [(line.data, line.setting, line.method, line.editor, line.mean) for line in ours(found)] == [
        ("counting", "CoT", "unedited", "unedited", 100.0),
        ("counting", "CoT", "", "rag", 100.0),
    ]
    assert ours(found)[0].published == {"Tulu 7B": 91.1, "Tulu 13B": 98.0}
    assert f"judged in the run: coherence by {JUDGE}, by scheme, not calibrated" in found.notes
    assert any("coherence: the paper's judge is Claude" in note for note in found.notes)
    with pytest.raises(BadSettings, match="corresponds to recoe:6 .* Choose another table"):
        against(folder, "recoe:6")


@pytest.mark.slow
def test_full_marks_stand_beside_elkens_by_scale_and_level(tmp_path: Path) -> None:
    folder = elken_run(tmp_path / "run")
    with pytest.raises(BadSettings, match="--kind tendency"):
        against(folder, "elken:5")
    judge(folder)
    found = against(folder, "elken:15")
    assert {line.metric: line.mean for line in ours(found) if line.editor == "rag"} == dict.fromkeys(
        ("Correctness", "Coherence", "Comprehensiveness", "Overall"), 100.0
    )
    assert {line.metric for line in ours(against(folder, "elken:5"))} == {
        "Correctness",
        "Coherence",
        "Comprehensiveness",
    }
    both = against(folder, "elken:2")
    levels = {(line.data, line.metric): line.mean for line in ours(both) if line.editor == "rag"}
    assert levels["Tendency-G", "E-Level"] == levels["Tendency-G", "Locality"] == 100.0
    assert levels["Overall", "E-Level"] == 50.0  # of the events with free answers one has a wrong fact
    assert sum(note.startswith("judged in the run: ") for note in both.notes) == 2
    assert any("the paper's judge is gpt-4-1106-preview" in note for note in both.notes)


def test_another_scoring_can_be_put_there(tmp_path: Path) -> None:
    folder = recoe_run(tmp_path / "run")
    first = judge(folder)
    judge(folder, "openai:strict", yes="no")
    means = [ours(against(folder, "recoe:5", name))[0].mean for name in (None, first)]
    assert means == [0.0, 100.0]
    with pytest.raises(BadSettings, match="--kind coherence"):
        against(folder, "recoe:5", "none")
