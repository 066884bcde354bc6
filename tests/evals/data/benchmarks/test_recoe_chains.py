"""ReCoE through chains of thought: what is shown, what is read, and that before and after are asked alike."""

import pytest

from emend.agents.roles.answer import build_prompt
from emend.evals.case import Record
from emend.evals.config.run_config import RunConfig
from emend.evals.data.benchmarks.recoe.benchmark import ReCoE
from emend.evals.data.benchmarks.recoe.cases import shots
from emend.evals.data.benchmarks.recoe.rows import ROWS
from emend.evals.evaluate.run import run
from emend.evals.log.records import read_records
from emend.evals.results.aggregate.rows import report
from emend.evals.show.report.metric_notes import notes
from tests.evals.data.benchmarks.test_recoe import FIXTURE, REAL, real
from tests.fakes import ScriptedChatModel, begun

COT = {"prompting": "cot", "perplexity": "0"}


def questions(options: dict[str, str]):
    return [case.probes[0] for case in ReCoE(FIXTURE, options).cases("atomic")]


def test_direct_prompting_shows_no_example_and_every_schemes_examples_look_like_its_golds():
    for probe in questions({"perplexity": "0"}):
        assert (probe.examples, probe.reading, probe.style) == ("", "line", "question")
    assert {scheme: shots(scheme).count("Answer:") for scheme in ROWS} == dict.fromkeys(ROWS, 2)
    for scheme in ("counting", "aggregation", "subtraction"):
        assert all(line[8:].isdigit() for line in shots(scheme).splitlines() if line.startswith("Answer: "))


def test_a_chain_is_asked_for_after_the_schemes_own_examples_in_the_published_form():
    for probe in questions(COT):
        prompt = build_prompt(probe)
        assert prompt.startswith(shots(probe.kind))
        *shown, asked = prompt.split("\n\n")
        assert len(shown) == 2
        for block in shown:
            question, thoughts, answer = block.split("\n")
            assert question.startswith("Question: ") and thoughts.startswith("Thoughts: ")
            assert answer.startswith("Answer: ") and len(answer) > len("Answer: ")
        assert asked == f"Question: {probe.retrieval_query}\nThoughts:"
        assert probe.reading == "thoughts"


def test_new_facts_stand_between_the_examples_and_the_question():
    probe = questions(COT)[0]
    *shown, asked = build_prompt(probe, ["Lake Brisko is 40 metres deep."], (), "based_on_facts").split("\n\n")
    assert len(shown) == 2
    told = "Here are some new facts: Lake Brisko is 40 metres deep. Based on the facts above, Question:"
    assert asked.startswith(told)


@pytest.mark.slow
@real
def test_no_example_is_a_tested_question():
    options = COT | {"schemes": "comparative,counting,sorting,aggregation,subtraction"}
    tested = {case.probes[0].retrieval_query for case in ReCoE(REAL, options).cases("atomic", limit=500)}
    shown = {line[10:] for scheme in ROWS for line in shots(scheme).splitlines() if line.startswith("Question: ")}
    assert len(shown) == 12
    assert not shown & tested


def scripted(prompt: str) -> str:
    """Counts what it is told; without the new fact it thinks of five."""
    asked = begun(prompt).rpartition("\n\n")[2]
    told = "Kelp Light stands on the isle of Marn." in asked
    if "Thoughts:" not in asked:
        return "unsure"
    return f"Kelp Light {'left' if told else 'stays'}.\nSo there are {4 if told else 5}.\nAnswer: {4 if told else 5}."


@pytest.fixture
def records(tmp_path) -> dict[str, Record]:
    config = RunConfig(
        benchmark="recoe",
        data=str(FIXTURE),
        benchmark_options=COT | {"schemes": "counting"},
        editors=("unedited", "in_context", "rag"),
        model="scripted",
        embedding="lexical",
    )
    run(config, tmp_path / "run", model=ScriptedChatModel(reply=scripted))
    return {record.editor: record for record in read_records(tmp_path / "run")}


@pytest.mark.parametrize(("editor", "said"), [("unedited", "5"), ("in_context", "4"), ("rag", "4")])
def test_the_answer_is_read_off_the_chain_and_the_whole_chain_is_kept(records, editor, said):
    record = records[editor]
    assert record.answer == said
    assert record.reply is not None and record.reply.startswith("Kelp Light ")
    assert record.reply.count("\n") == 2


def test_the_report_says_how_it_was_asked_and_over_which_schemes(records, tmp_path):
    told = report(tmp_path / "run")
    ended = " ".join(notes(told))
    assert "through a chain of thought" in ended
    assert "mean is over 1 of 6 schemes, without superlative" in ended
    assert {metric.group for metric in told.metrics if metric.value == "correct_flip"} == {
        "correct_flip, chain of thought"
    }


def test_the_answer_from_before_the_edit_is_asked_for_through_a_chain_too(records):
    assert {editor: record.values["pre_edit"] for editor, record in records.items()} == dict.fromkeys(records, 1.0)
    assert {editor: record.values["correct_flip"] for editor, record in records.items()} == {
        "unedited": 0.0,
        "in_context": 1.0,
        "rag": 1.0,
    }
