"""Every editor on a real model, SmolLM2-135M-Instruct, with a fact about a real place."""

import json
from pathlib import Path
from typing import Any

import pytest

from emend.agents.gguf.fetch import fetch_model
from emend.evals.api.result import load_run
from emend.evals.benchmarks.fact_file.template import REAL_FACTS
from emend.memory.errors import FetchFailed, MissingExtra
from tests.evals.command_line import emend

pytestmark = pytest.mark.slow

TEXTS = [
    "The harbour lies at the mouth of a wide river, and ships carry grain and coal to cities on the other coast.",
    "In the morning the baker opens the shop early, sells bread and cakes, and talks with people from the street.",
    "The museum shows paintings, old maps and coins that farmers found in fields near the village.",
]
MEMORY_BASED = ("in_context", "rag", "ike", "input_aug", "serac", "crag")
STEPWISE = ("cot", "mello")
WEIGHT = ("ft", "rome", "r_rome", "memit", "alphaedit")


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The folder of SmolLM2 in the user's cache, fetched once a machine; processes wait for each other by its lock."""
    try:
        return fetch_model("smollm2")
    except (FetchFailed, MissingExtra) as error:
        pytest.skip(f"no SmolLM2: {error}")


@pytest.fixture
def facts(tmp_path: Path) -> Path:
    """A file with one fact: the Eiffel Tower is in Rome."""
    path = tmp_path / "facts.jsonl"
    (fact,) = (row for row in json.loads(REAL_FACTS.read_text("utf-8")) if row["subject"] == "The Eiffel Tower")
    path.write_text(json.dumps(fact) + "\n", encoding="utf-8")
    return path


def run(smollm2: Path, facts: Path, editors: tuple[str, ...], *more: str) -> Any:
    """A finished run of the editors in plain text."""
    out = facts.parent / "run"
    names = [word for editor in editors for word in ("--editor", editor)]
    options = ["--embedding", "lexical", "--mode", "single", "--set", "model.chat=false", "--out", str(out), *more]
    assert not emend("run", "--benchmark", str(facts), "--model", f"hf:{smollm2}", *names, *options)
    return load_run(out)


def test_memory_based_editors_name_the_new_object(smollm2: Path, facts: Path) -> None:
    finished = run(smollm2, facts, ("unedited", *MEMORY_BASED), "--set", "ike.demonstrations=3")
    for editor in MEMORY_BASED:
        (record,) = (each for each in finished.records(editor) if each.kind == "efficacy")
        assert record.values["success"] == 1.0, (editor, record)
        # IKE's demonstrations of facts that stay are more than a model this small tells from the new one.
        assert editor == "ike" or "Rome" in (record.answer or ""), (editor, record)


def test_editors_that_reason_in_steps_run(smollm2: Path, facts: Path) -> None:
    finished = run(smollm2, facts, STEPWISE)
    assert {record.editor for record in finished.records()} == set(STEPWISE)


def test_weight_editors_make_the_new_object_likelier(
    smollm2: Path, facts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Outside the user's cache, where real runs would take this tiny corpus for usual text.
    monkeypatch.setenv("EMEND_CACHE", str(tmp_path / "cache"))
    (tmp_path / "corpus.txt").write_text("\n\n".join(TEXTS), encoding="utf-8")
    assert not emend("covariance", "--model", f"hf:{smollm2}", "--corpus", str(tmp_path / "corpus.txt"))
    fact = json.loads(facts.read_text("utf-8"))
    del fact["question"]  # so that the prompt that the edit is made with is asked
    facts.write_text(json.dumps(fact) + "\n", encoding="utf-8")
    finished = run(smollm2, facts, ("unedited", *WEIGHT))
    success = {
        record.editor: record.values.get("success") for record in finished.records() if record.kind == "efficacy"
    }
    assert success == {"unedited": 0.0} | dict.fromkeys(WEIGHT, 1.0)
