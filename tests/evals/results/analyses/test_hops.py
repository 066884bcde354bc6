"""Hop-wise accuracy: a scripted model gets known hops wrong in a real run of MQuAKE with `mello`."""

from pathlib import Path

import pytest

from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.run import run
from emend.evals.judging.judged_run import open_run
from emend.evals.log.records import read_records
from emend.evals.results.aggregate.rows import report
from emend.evals.results.analyses.base import Analysis, Lacking
from emend.evals.results.analyses.registry import possible
from tests.evals.made import case_line, record, write_run
from tests.evals.results.analyses.computed import analysed
from tests.fakes import ScriptedScoringModel
from tests.paths import DATA

# By a part of each record's questions: what the steps and the final answer say.
# 7 is right throughout; 8 is right in the end, though its first hop is not; 9 is wrong only in the end.
SAID = {
    "Ida Holt": (["Iceland", "Reykjavík."], "Reykjavík"),
    "Bram Oake": (["Norway", "City of Kings"], "Lima"),
    "Heron": (["Una Frey", "Chile", "the Americas"], "Europe"),
}
SHORT = "Name the capital of Ida Holt's country."
AGREES = "Retrieved fact does not contradict to generated answer, so the intermediate answer is: "


def numbers_of(analysis: Analysis, panel: str) -> dict[str, tuple[float | None, int]]:
    """Mean and count of `mello` by label."""
    rows = [row for row in analysis.rows if (row.panel, row.series) == (panel, "mello")]
    return {row.label: (row.mean, row.n) for row in rows}


def reply(prompt: str) -> str:
    """The next round of MeLLo's published form; one wording of record 7 is answered in a single step."""
    question, _, steps = prompt.rpartition("Question: ")[2].partition("\n")
    answers, final = next((said for name, said in SAID.items() if name in question), ([], "?"))
    if question == SHORT:
        answers = answers[1:]
    done = steps.count("Subquestion:")
    check = f"{AGREES}{answers[done - 1]}\n" if done else ""
    if done < len(answers):
        return f"{check}Subquestion: What is step {done + 1}?\nGenerated answer: {answers[done]}.\n"
    return f"{check}Final answer: {final}\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of MQuAKE's three rows with `mello` and `rag`."""
    config = RunConfig(
        benchmark="mquake",
        data=str(DATA / "mquake"),
        editors=("mello", "rag"),
        model="tiny",
        mode="single",
        retriever="bm25",
        embedding="lexical",
    )
    path = tmp_path_factory.mktemp("hops") / "run"
    run(config, path, model=ScriptedScoringModel(reply=reply, log_prob=lambda prompt, target: -1.0))
    return path


def test_a_chain_counts_where_every_hop_is_right_whatever_the_final_answer(folder: Path):
    analysis = analysed("hops", folder)
    clean = numbers_of(analysis, "multihop")
    assert clean["all hops right"] == clean["final answer right"] == (50, 6)
    assert clean["all hops right, 3 hops"] == (100, 3) and clean["all hops right, 2 hops"] == (0, 3)
    assert clean["right, though a hop is not"] == clean["wrong, though all hops are right"] == (50, 6)
    assert clean["hops right, share"] == (75, 6)
    # One of the three wordings of record 7 skips a hop.
    assert numbers_of(analysis, "multihop_contaminated")["all hops right"] == (pytest.approx(200 / 3), 3)


def test_rows_have_intervals_and_an_editor_without_hops_is_unscored_with_the_reason(folder: Path):
    analysis = analysed("hops", folder)
    rows = [row for row in analysis.rows if (row.label, row.panel) == ("all hops right", "multihop")]
    mello, rag = rows
    assert mello.low is not None and mello.mean is not None and mello.low < mello.mean and not mello.unscored
    assert (rag.series, rag.mean, rag.n, rag.unscored) == ("rag", None, 0, 6)
    assert any("rag does not answer in hops" in note for note in analysis.notes)
    assert any("protocol exact" in note for note in analysis.notes)


def test_the_report_has_a_column_where_a_record_counts_with_its_best_wording(folder: Path):
    rows = {(row.metric, row.editor): row for row in report(folder).rows}
    hop_wise = rows["Hop-wise", "mello"]
    assert hop_wise.mean == pytest.approx(200 / 3) and hop_wise.n == 3 and hop_wise.protocol == "exact"
    assert rows["Hop-wise, clean", "mello"].mean == 50 and rows["Multi-hop", "mello"].mean == pytest.approx(200 / 3)


def test_the_golds_of_the_hops_are_in_the_folder_with_their_aliases(folder: Path):
    golds = {each.hop_golds for each in read_records(folder) if each.kind.startswith("multihop")}
    assert (("Iceland",), ("Lima", "City of Kings")) in golds
    assert any(hops[2:] == (("America", "the Americas"),) for hops in golds)
    assert not any(each.hop_golds for each in read_records(folder) if each.kind == "efficacy")


def test_an_older_run_opens_and_is_unscored_with_the_reason(tmp_path: Path):
    old = record("0", editor="mello", kind="multihop", values={"em": 1.0}, tags={"hops": 2, "n": 0})
    folder = write_run(tmp_path / "old", [old], benchmark="mquake", cases=[case_line("0")])
    analysis = analysed("hops", folder)
    row = next(row for row in analysis.rows if row.label == "all hops right")
    assert (row.mean, row.n, row.unscored) == (None, 0, 1)
    assert any("old stores no answers of the hops" in note for note in analysis.notes)


def test_a_failed_answer_leaves_the_hops_unscored_for_its_reason(tmp_path: Path):
    failed = record("0", editor="mello", kind="multihop", unscored={"em": "no step", "hops_right": "no step"})
    analysis = analysed("hops", write_run(tmp_path / "failed", [failed], cases=[case_line("0")]))
    assert any("mello: no step" in note for note in analysis.notes)


def test_a_run_without_multi_hop_questions_says_so(tmp_path: Path):
    folder = write_run(tmp_path / "plain", [record("0", values={"em": 1.0})])
    with pytest.raises(Lacking, match="multi-hop"):
        analysed("hops", folder)
    lacks = {name: reason for name, _, reason in possible(open_run(folder))}
    assert "multi-hop" in lacks["hops"]
