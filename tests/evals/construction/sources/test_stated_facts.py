"""From a folder of documents to a file of facts, and to questions that are reasoned out over it."""

import json
from pathlib import Path

import pytest

from emend.evals.config.build_config import BuildConfig
from emend.evals.construction.build import build
from emend.evals.construction.card import card_text
from emend.evals.construction.estimate import estimate_build
from emend.evals.evaluate.resources import load_benchmark
from tests.evals.construction.authors import TASKS
from tests.provider.protocols import Asked
from tests.provider.server import Provider

LENGTHS = {"Brisko": "6,400 km", "Halmen": "4,880 km", "Torvay": "3,100 km", "Skerry": "2,250 km"}


def write_lines(asked: Asked) -> str:
    """An author who gives each river's length and one that the document does not state; and a judge who agrees."""
    if TASKS["fact_lines"] not in asked.prompt:
        return "True"
    name = asked.prompt.rpartition("Document: The river ")[2].split()[0]
    return f"{name} | length | {LENGTHS[name]}\n{name} | source | Lake Orsa"


@pytest.fixture
def rivers(tmp_path: Path) -> Path:
    folder = tmp_path / "rivers"
    folder.mkdir()
    for name, length in LENGTHS.items():
        text = f"The river {name} is known for its ferries. From its spring to the sea it measures {length} in all."
        (folder / f"{name}.txt").write_text(text + "\n")
    return folder


def test_questions_are_reasoned_out_over_facts_that_documents_state(rivers: Path, tmp_path: Path):
    with Provider(write_lines) as provider:
        config = BuildConfig(source=str(rivers), model=provider.spec("chat", "author"))
        card = build("facts", config, tmp_path / "table")
    rows = [json.loads(line) for line in (tmp_path / "table" / "facts.jsonl").read_text().splitlines()]
    assert {row["subject"]: row["object"] for row in rows} == LENGTHS
    assert rows[0]["tags"]["document"] == "Brisko.txt" and "6,400 km" in rows[0]["tags"]["proof"]
    assert next(each for each in card.filters if each.name == "object").rejected == 4
    assert next(each for each in card.filters if each.name == "any_fact").rejected is None
    shown = card_text(card).splitlines()
    assert [line.split(" | ")[3] for line in shown if line.startswith("| any_fact |")] == [""]
    source = str(tmp_path / "table" / "facts.jsonl")
    build("recoe", BuildConfig(source=source, schemes="superlative", cases=1), tmp_path / "reasoned")
    (question,) = json.loads((tmp_path / "reasoned" / "superlative.json").read_text())
    assert question["answer"] == "Brisko" and "greatest length" in question["question"]


def test_the_table_is_a_benchmark_itself(rivers: Path, tmp_path: Path):
    with Provider(write_lines) as provider:
        build("facts", BuildConfig(source=str(rivers), model=provider.spec("chat")), tmp_path / "table")
    benchmark, settings = load_benchmark(str(tmp_path / "table"), None, {})
    cases = list(benchmark.cases(settings[0]))
    assert cases[0].probes[0].prompt == "The length of Brisko is" and len(cases) == 4


def test_the_calls_estimated_are_those_of_an_author_whose_facts_pass(rivers: Path):
    with Provider(write_lines) as provider:
        estimate = estimate_build("facts", BuildConfig(source=str(rivers), model=provider.spec("chat", "author")))
        assert provider.count == 0
    assert estimate.items == 4 and {role.role for role in estimate.roles} == {"author", "judge"}
