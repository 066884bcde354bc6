"""From a table of facts to a benchmark of chains that a run scores, without a model and with an author on loopback."""

import json
from pathlib import Path
from typing import Any

import pytest

from emend.evals.config.build_config import BuildConfig
from emend.evals.config.run_config import RunConfig
from emend.evals.construction.build import build
from emend.evals.construction.estimate import estimate_build
from emend.evals.construction.sources.chain_faults import count_faults
from emend.evals.construction.sources.chains import FILE
from emend.evals.data.benchmarks.mquake import ChainRow
from emend.evals.evaluate.resources import load_benchmark
from emend.evals.evaluate.run import run
from emend.evals.results.aggregate.rows import report
from emend.graphs.construction.chains import sample
from emend.memory.errors import BadData, BadSettings, RunRefused
from tests.evals import command_line
from tests.evals.construction.sources.tables import write_table
from tests.provider.protocols import Asked
from tests.provider.server import Provider


def config(folder: Path, **fields: Any) -> BuildConfig:
    return BuildConfig.model_validate({"source": str(write_table(folder)), "cases": 12, **fields})


def rows_of(folder: Path) -> list[ChainRow]:
    return [ChainRow.model_validate(row) for row in json.loads((folder / FILE).read_bytes())]


@pytest.mark.slow
def test_without_a_model_the_folder_is_a_benchmark_with_mquakes_scores(tmp_path: Path):
    card = build("chains", config(tmp_path), tmp_path / "out")
    assert card.items == 12 and card.models == {} and card.cost.calls == 0
    assert all(faults.passed.mean == 1 for faults in card.filters)
    assert "No model was used" in (tmp_path / "out" / "card.md").read_text()
    run(RunConfig(benchmark=str(tmp_path / "out"), editors=("mello",), embedding="lexical", model="tiny", limit=4),
        tmp_path / "run")  # fmt: skip
    counts = {row.metric: row.n + row.unscored for row in report(tmp_path / "run").rows}
    assert counts["Multi-hop"] == 4 and counts["Edit-wise"] >= 4 and counts["Per-hop"] >= 8


def test_the_rows_have_no_fault_and_the_benchmark_reports_no_contamination(tmp_path: Path):
    build("chains", config(tmp_path), tmp_path / "out")
    assert all(not faulty for _, faulty in count_faults(rows_of(tmp_path / "out")))
    benchmark, _ = load_benchmark(str(tmp_path / "out"), None, {})
    assert not any(benchmark.provenance["tagged"].values())


def test_aliases_and_questions_of_the_table_reach_the_rows(tmp_path: Path):
    build("chains", config(tmp_path, cases=40), tmp_path / "out")
    rows = rows_of(tmp_path / "out")
    hops = [hop for row in rows for hop in (*row.single_hops, *row.new_single_hops)]
    assert {hop.answer_alias for hop in hops if hop.answer == "Vaduria"} == {("Land of Vadur",)}
    assert any(hop.question == "Where was Ana Rojo born?" for hop in hops)


def test_the_same_call_again_writes_the_same_rows_and_other_options_are_refused(tmp_path: Path):
    build("chains", config(tmp_path), tmp_path / "out")
    before = (tmp_path / "out" / FILE).read_bytes()
    build("chains", config(tmp_path), tmp_path / "out")
    assert (tmp_path / "out" / FILE).read_bytes() == before
    with pytest.raises(RunRefused, match="--out"):
        build("chains", config(tmp_path, seed=5), tmp_path / "out")


def word_most(asked: Asked) -> str:
    """An author that declines to word questions about a country."""
    return "I cannot do that." if "country" in asked.prompt.rpartition("Question: ")[2] else sample(asked.prompt)


def test_an_author_words_each_question_three_times(tmp_path: Path):
    with Provider(word_most) as provider:
        fields = config(tmp_path, model=provider.spec("chat", "author"), hops="2", cases=6)
        card = build("chains", fields, tmp_path / "out")
        asked = provider.count
        build("chains", fields, tmp_path / "out")
        assert provider.count == asked
    words = ("judge", "annotate", str(tmp_path / "out" / "run"), "--study", "build", "--annotators", "1")
    assert command_line.emend(*words, "--out", str(tmp_path / "sheets")) == 0
    assert "In short: " in (tmp_path / "sheets" / "annotator-1.csv").read_text()
    rows = rows_of(tmp_path / "out")
    assert card.dropped.keys() == {"three_questions"} and 0 < len(rows) == 6 - card.dropped["three_questions"]
    assert all(len(row.questions) == 3 for row in rows)
    assert not any("country" in question for row in rows for question in row.questions)


@pytest.mark.slow
def test_the_calls_estimated_are_those_sent(tmp_path: Path):
    with Provider(lambda asked: sample(asked.prompt)) as provider:
        models = {"model": provider.spec("chat", "author"), "judge": provider.spec("chat", "judge")}
        fields = config(tmp_path, **models)
        estimate = estimate_build("chains", fields)
        assert provider.count == 0
        build("chains", fields, tmp_path / "out")
    for role in estimate.roles:
        sent = [request.body for request in provider.requests if request.body["model"] == role.role]
        messages = [message["content"] for body in sent for message in body["messages"]]
        assert role.calls == len(sent) == (12 if role.role == "author" else 36)
        assert role.input_tokens == pytest.approx(sum(map(len, messages)) / 4 + 4 * len(messages), rel=0.1)


def test_the_command_line_composes_and_estimates_without_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    words = ("build", "chains", "--from", str(write_table(tmp_path)), "--hops", "2", "--edits", "1,2", "--cases", "4")
    assert command_line.emend(*words, "--out", str(tmp_path / "out"), "--dry-run") == 0
    assert "4 items" in capsys.readouterr().out and not (tmp_path / "out").exists()
    assert command_line.emend(*words, "--out", str(tmp_path / "out")) == 0
    assert {row.hops for row in rows_of(tmp_path / "out")} == {2}


@pytest.mark.parametrize(
    ("fields", "error", "named"),
    [
        ({"hops": "two"}, BadSettings, "--hops"),
        ({"hops": "1"}, BadSettings, "--hops"),
        ({"hops": "2", "edits": "3"}, BadSettings, "--edits"),
        ({"source": "mquake"}, BadSettings, "--from"),
        ({"hops": "9", "edits": "1"}, BadData, "no chain"),
    ],
)
def test_wrong_options_and_sources_are_refused_with_their_name(tmp_path: Path, fields: Any, error: Any, named: str):
    with pytest.raises(error, match=named):
        build("chains", config(tmp_path, **fields), tmp_path / "out")


def test_a_table_without_facts_is_refused(tmp_path: Path):
    file = tmp_path / "documents.jsonl"
    file.write_text(json.dumps({"document": "A text.", "question": "What?", "answer": "This."}) + "\n")
    with pytest.raises(BadData, match="subject, relation and object"):
        build("chains", config(tmp_path, source=str(file)), tmp_path / "out")
