"""Of a walk over several hops a trace shows for each step what that step found, also where the others are hidden."""

import io

import pytest
from rich.console import Console

from emend.evals.log.config import RunConfig
from emend.evals.report.tracing import log_probs, markdown, show_trace, steps_lines
from emend.evals.runner.run import run
from emend.evals.trace.case_trace import new_hits, rows, trace
from emend.evals.trace.filters import RecordFilter, StepFilter
from tests.evals.toys import BENCHMARK
from tests.fakes import ScriptedChatModel

FIRST, SECOND = "The capital of Land0 is New-0.", "The capital of Land1 is New-1."
AGREES = "Retrieved fact does not contradict to generated answer, so the intermediate answer is: Blue.\n"


def two_hops(prompt: str) -> str:
    """Asks for one land after the other, whatever the question."""
    walked = prompt.rpartition("\n\n")[2].count("Retrieved fact: ")
    asked = f"Subquestion: What is the capital of Land{walked}?\nGenerated answer: Blue.\n"
    return (AGREES if walked else "") + ("Final answer: New-0\n" if walked == 2 else asked)


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "walked"
    config = RunConfig(
        benchmark=BENCHMARK, editors=("mello",), model="scripted", embedding="lexical", mode="all",
        retriever="bm25", benchmark_options={"cases": "2"},
    )  # fmt: skip
    run(config, folder, model=ScriptedChatModel(reply=two_hops))
    return folder


def found(walked, **wanted):
    return trace(walked, "1", records=RecordFilter(kind="efficacy"), steps=StepFilter(**wanted))


def shown(walked, **wanted):
    file = io.StringIO()
    show_trace(found(walked, **wanted), Console(file=file, width=400))
    return file.getvalue()


def hits(text):
    return [line.strip() for line in text.splitlines() if line.strip().startswith(("hit ", "- hit "))]


def test_each_retrieval_shows_its_own_hit(walked):
    first, second = hits(shown(walked, node="retrieve"))
    assert first.startswith("hit 1") and first.endswith(FIRST)
    assert second.startswith("hit 1") and second.endswith(SECOND)


def test_the_steps_that_are_hidden_count_as_well(walked):
    text = shown(walked, node="retrieve", grep="Land1 is New-1")
    (only,) = hits(text)
    assert only.startswith("hit 1") and only.endswith(SECOND)
    assert f"transcript +  Retrieved fact: {SECOND}" in text and FIRST not in text.split("retrieve", 1)[1]


def test_markdown_tells_what_grew_once(walked):
    told = markdown(found(walked, node="retrieve"))
    first, second = hits(told)
    assert first.startswith("- hit 1, ") and "Land0" in first
    assert second.startswith("- hit 1, ") and "Land1" in second
    assert told.count(f"Retrieved fact: {FIRST}") == 1 and "\ntranscript +:\n" in told and "\nhops +:\n" in told


def test_json_has_the_state_as_it_was(walked):
    (row,) = rows(found(walked, node="retrieve"))
    assert [len(step["update"]["hits"]) for step in row["steps"]] == [1, 2]


def test_hits_that_took_the_place_of_others_are_shown_and_those_that_stayed_are_said_to():
    one, two = {"text": "one", "score": 2.0}, {"text": "two", "score": 1.0}
    assert new_hits([two], [one, two]) == [two] and new_hits([one], []) == [one]
    assert new_hits([one, one], [one]) == [one] and new_hits([one], [one]) == []

    def step(place, *kept):
        made = {"hits": list(kept), "tried": place}
        return {"node": f"n{place}", "place": place, "ms": 1.0, "update": made, "calls": [], "error": None}

    lines = [line.text.plain for line in steps_lines([step(1, one, two), step(2, one, two), step(3, two), step(4)])]
    told = [line for line in lines if line.startswith("hit")]
    assert told == ["hit 1  score 2.0000   one", "hit 2  score 1.0000   two", "hits  as before",
                    "hit 1  score 1.0000   two", "hits  none"]  # fmt: skip


def test_every_target_has_a_name_beside_its_log_probability(walked):
    record = found(walked).probes[0].record
    assert record.gold == ("New-0",) and record.rival == "Old-0"
    assert log_probs(record.model_copy(update={"log_probs": (-1.0, -2.0)})) == "New-0 -1.000, Old-0 -2.000"
    many = {"gold": ("A is c.", "B " * 50), "rival": None, "log_probs": (-118.8, -9.0, -148.7, -1.5)}
    first, second, *rest = log_probs(record.model_copy(update=many)).split(", ")
    assert first == "A is c. -118.800" and len(second) < 80 and second.endswith("… -9.000")
    assert rest == ["choice 1 -148.700", "choice 2 -1.500"]
