"""The bench of graphs works: on a few questions it counts what it should, and its tables show all figures."""

import io

import pytest
from rich.console import Console

from emend.agents.llm import load_model
from tests.benchmarks.bench_graphs import batching, bound_of, hops, latency, steps, tables


def test_the_bound_is_the_schedule_in_which_only_latency_takes_time():
    assert bound_of([3, 4, 5], 0.2, 64) == pytest.approx(1.0)
    assert bound_of([3, 4, 5], 0.2, 1) == pytest.approx(2.4)
    assert bound_of([3, 4, 5, 3], 0.2, 2) == pytest.approx(1.6)  # 3 and 5; 4 and 3, one call earlier


@pytest.mark.slow
def test_questions_through_a_provider_are_all_asked_and_take_no_less_than_the_bound(tmp_path):
    late = latency(tmp_path / "run", 12, 6, 0.05)
    assert late.served.requests == sum(3 + n % 3 for n in range(12)) == 48
    assert 2 <= late.served.at_once <= 6
    assert late.elapsed > late.bound > late.even and late.cpu > 0 and late.peak_mb > 1
    assert "times the bound" in shown(late, None, None)


def test_steps_are_those_of_the_graph_and_retrieval_is_told_apart(tmp_path):
    cost = steps(tmp_path / "run", 30)
    assert cost.steps == sum(2 * (2 + n % 3) + 3 for n in range(30))
    assert 0 < cost.least <= cost.middle and cost.retrieval > 0
    assert f"{cost.middle:.2f}" in shown(None, cost, None)


@pytest.mark.slow
def test_answers_are_the_same_one_after_another_and_all_at_once(tmp_path):
    model = load_model("tiny")
    probes, edits = hops(2)
    found = batching(model, probes, edits, tmp_path)
    assert found.questions == 2 and found.calls >= 2 * 5 and found.same
    text = shown(None, None, found)
    assert "same answers: yes" in text and f"{found.alone[1] / found.together[1]:.2f}" in text


def shown(*found):
    file = io.StringIO()
    console = Console(file=file, width=160)
    for table in tables(*found):
        console.print(table)
    return file.getvalue()
