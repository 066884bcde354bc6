"""ELKEN whole: factual and tendency questions about the same events, beside events of topics alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from emend.evals.config.build_config import BuildConfig
from emend.evals.config.run_config import RunConfig
from emend.evals.construction.build import build
from emend.evals.construction.sources.elken_tendencies import read_source
from emend.evals.evaluate.run import run
from emend.evals.results.aggregate.rows import report
from emend.graphs.construction.tendency_drafts import sample
from emend.memory.errors import BadData
from tests.evals.construction.sources.tables import PEOPLE
from tests.fakes import ScriptedChatModel
from tests.provider.server import Provider

TYPES = """[move]
split = "test"
template = "{A} has moved to {B}."
roles.A = { subject_of = "place of birth" }
roles.B = { object_of = "place of birth" }
impacts = [
    { subject = "A", relation = "residence", object = "B", question = "In which town does {} live?" },
    { subject = "A", relation = "telephone number", object = "unknown", question = "What is the number of {}?" },
]
"""


@pytest.fixture
def factual(tmp_path: Path) -> Path:
    """A folder of two factual events."""
    (tmp_path / "types.toml").write_text(TYPES)
    rows = [f"{name},place of birth,Town {n}" for n, name in enumerate(PEOPLE)]
    (tmp_path / "facts.csv").write_text("\n".join(("subject,relation,object", *rows)) + "\n")
    fields = {"source": str(tmp_path / "facts.csv"), "relations": str(tmp_path / "types.toml"), "cases": 2}
    build("elken", BuildConfig.model_validate(fields), tmp_path / "factual")
    return tmp_path / "factual"


def rows_of(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((folder / "test.json").read_bytes())
    return rows


def test_a_folder_of_events_and_topics_are_read_one_after_the_other(factual: Path):
    items, notes = read_source(f"{factual},topics")
    events = [item.fields.get("event", "") for item in items]
    assert [bool(event) for event in events] == [True] * 2 + [False] * 180
    assert {*notes.files} == {"test.json", "topics.toml"}


def test_a_folder_without_events_is_refused(tmp_path: Path):
    with pytest.raises(BadData, match="emend build elken"):
        read_source(str(tmp_path))


@pytest.mark.slow
def test_both_kinds_of_questions_about_the_same_events_fill_the_papers_columns(factual: Path, tmp_path: Path):
    with Provider(lambda asked: sample(asked.prompt)) as provider:
        model = provider.spec("chat")
        config = BuildConfig.model_validate({"source": str(factual), "model": model, "recipe": "paper"})
        card = build("tendencies", config, tmp_path / "out", needs_review=False)
    assert card.content.options["blocks"] == "fact,tendency_m,tendency_g"
    assert [row["fact"] for row in rows_of(tmp_path / "out")] == [row["fact"] for row in rows_of(factual)]
    assert all(len(row["tendency"]["qas"]) == 6 for row in rows_of(tmp_path / "out"))
    options = {"editors": ("in_context",), "model": "openai:tested", "embedding": "lexical"}
    fields = {"benchmark": str(tmp_path / "out"), **options}
    run(
        RunConfig.model_validate(fields),
        tmp_path / "run",
        model=ScriptedChatModel(reply=lambda prompt: "(A) Increase"),
    )
    filled = {row.metric for row in report(tmp_path / "run").rows if row.n}
    assert {"Fact E", "Fact Q", "Fact Loc", "M E", "M Q", "M Loc", "E (M for G)"} <= filled
