"""From topics to ELKEN's files with tendency questions, and a run on them that a judge reads."""

import json
from pathlib import Path
from typing import Any

import pytest

from emend.evals.config.build_config import BuildConfig
from emend.evals.config.run_config import RunConfig
from emend.evals.construction.build import build
from emend.evals.construction.estimate import estimate_build
from emend.evals.construction.sources.elken_tendencies import REGIONS, read_source, read_topics
from emend.evals.evaluate.resources import load_benchmark
from emend.evals.evaluate.run import run
from emend.evals.results.aggregate.rows import report
from emend.graphs.construction.tendency_drafts import sample
from emend.memory.errors import BadData
from tests.evals.judged_runs import scored
from tests.fakes import ScriptedChatModel
from tests.provider.server import Provider


def config(folder: Path, provider: Provider, **fields: Any) -> BuildConfig:
    topics = folder / "topics.toml"
    topics.write_text('[topics]\nBusiness = "test"\nLaw = "train"\n')
    models = {"model": provider.spec("chat", "author"), "judge": provider.spec("chat", "judge")}
    return BuildConfig.model_validate({"source": str(topics), **models, **fields})


def rows_of(folder: Path, split: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((folder / f"{split}.json").read_bytes())
    return rows


def test_the_shipped_topics_are_elkens_eighteen_in_ten_calls_each():
    items, notes = read_source("topics")
    topics = [item.fields["topic"] for item in items]
    assert len(topics) == 180 and len(set(topics)) == 18 and len(REGIONS) == 10
    assert list(notes.files) == ["topics.toml"]


@pytest.mark.parametrize("text", ["", "[topics]\n", '[topics]\nLaw = "dev"\n', "[topics", "topics = 3"])
def test_a_file_without_topics_is_refused_with_the_form_that_is_needed(tmp_path: Path, text: str):
    file = tmp_path / "topics.toml"
    file.write_text(text)
    with pytest.raises(BadData, match=r"\[topics\]"):
        read_topics(file)
    with pytest.raises(BadData, match="--from topics"):
        read_topics(tmp_path / "none.toml")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("tendencies")
    with Provider(lambda asked: sample(asked.prompt)) as provider:
        return folder / "out", build("tendencies", config(folder, provider, limit=4), folder / "out")


def test_events_are_divided_by_topic_and_near_duplicates_of_other_calls_are_left_out(built: tuple[Path, Any]):
    folder, card = built
    rows = {split: rows_of(folder, split) for split in ("test", "train")}
    assert {split: {row["event_type"] for row in each} for split, each in rows.items()} == {
        "test": {"Business"},
        "train": {"Law"},
    }
    events = [row["event"] for each in rows.values() for row in each]
    count = next(each for each in card.filters if each.name == "duplicate_in_topic")
    assert len(set(events)) == len(events)  # equal ones of two topics, too
    assert count.reached == 40 and count.rejected == 40 - len(events) > 0  # the stand-in repeats itself
    question = rows["test"][0]["tendency"]["qas"][0]
    assert set(question) == {"question", "candidate", "answer"} and question["candidate"].startswith("(A) ")
    assert all(each["answer"] == "C" for row in rows["test"] for each in row["tendency"]["local_qas"])


def test_the_folder_is_elken_with_choices_and_open_questions(built: tuple[Path, Any]):
    benchmark, settings = load_benchmark(str(built[0]), None, {})
    kinds = {probe.kind for case in benchmark.cases(settings[0]) for probe in case.probes}
    assert kinds == {"tendency_m", "tendency_m_local", "tendency_open", "tendency_open_local"}


@pytest.mark.slow
def test_the_calls_estimated_are_those_sent(tmp_path: Path):
    with Provider(lambda asked: sample(asked.prompt)) as provider:
        fields = config(tmp_path, provider, limit=3)
        estimate = estimate_build("tendencies", fields)
        assert provider.count == 0
        build("tendencies", fields, tmp_path / "out")
    for role in estimate.roles:
        sent = [request.body for request in provider.requests if request.body["model"] == role.role]
        assert role.calls == len(sent) > 0


@pytest.mark.slow
def test_the_tendency_judge_reads_a_run_on_the_folder(built: tuple[Path, Any], tmp_path: Path):
    options = {"editors": ("in_context",), "model": "openai:tested", "embedding": "lexical", "limit": 2}
    config = RunConfig.model_validate({"benchmark": str(built[0]), **options})
    run(config, tmp_path / "run", model=ScriptedChatModel(reply=lambda prompt: "(A) Increase"))
    scored(tmp_path / "run")
    metrics = {row.metric for row in report(tmp_path / "run").rows if row.n}
    assert metrics >= {"M Q", "M Loc", "G Q"}
