"""`emend prepare encoder`: training pairs, and hit@1 before and after."""

import json

import pytest
from typer.testing import CliRunner

pytest.importorskip("sentence_transformers", reason="pip install 'emend-eval[minilm]'")
pytest.importorskip("peft", reason="pip install 'emend-eval[lora]'")

from emend.evals.cli.main import app
from emend.memory.embeddings.embed import load_embedding
from tests.memory.tiny import tiny_bert

RUN = CliRunner()


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return tiny_bert(tmp_path_factory.mktemp("encoder") / "plain")


def told(encoder, out, *more):
    base = ["prepare", "encoder", "--benchmark", "tinyworld", "--limit", "4", "--embedding", str(encoder)]
    return RUN.invoke(app, [*base, "--out", str(out), *more], catch_exceptions=False, env={"COLUMNS": "100"})


@pytest.mark.slow
def test_the_command_shows_hits_before_and_after_and_how_to_use_the_adapter(encoder, tmp_path):
    shown = told(encoder, tmp_path / "learned").stdout
    assert "hit@1" in shown and "before" in shown and "after" in shown
    assert f"--embedding {encoder}+{tmp_path / 'learned'}" in shown
    assert load_embedding(f"{encoder}+{tmp_path / 'learned'}").identity.startswith("plain/")


@pytest.mark.slow
def test_rows_name_split_and_encoder_and_count_questions_in_scope_only(encoder, tmp_path):
    out = told(
        encoder, tmp_path / "learned", "--benchmark-option", "split=seen", "--also-check", "split=unseen", "--json"
    ).stdout
    rows = json.loads(out)["rows"]
    assert [(row["split"], row["encoder"]) for row in rows] == [
        (split, encoder) for encoder in ("before", "after") for split in ("train", "check")
    ]
    for row in rows:
        assert row["texts"] == 4 and row["n"] > 4 and 0 <= row["low"] <= row["hit"] <= row["high"] <= 1


def test_an_embedding_that_is_not_an_encoder_is_refused(tmp_path):
    done = RUN.invoke(
        app, ["prepare", "encoder", "--benchmark", "tinyworld", "--embedding", "lexical", "--out", str(tmp_path / "x")]
    )
    assert done.exit_code != 0 and "cannot be trained" in str(done.exception or done.output)
    assert not (tmp_path / "x").exists()
