"""The memory of facts as a memory system."""

from pathlib import Path

import pytest

from emend.evals.streams.generator import with_injections
from emend.evals.streams.system import SystemContext
from emend.evals.streams.systems.facts import Facts
from emend.evals.streams.turn import StreamQuestion, Turn
from tests.evals.streams.streams import accuracy, generated, run_systems, stream_file
from tests.params import first_quick


@pytest.mark.slow
@pytest.mark.parametrize("users", first_quick([2, 1]))
def test_it_is_right_in_every_kind_and_its_state_is_that_of_gold(tmp_path: Path, users: int):
    items = with_injections(generated(turns=200, users=users, difficulty="hard"), 5)
    records = run_systems(tmp_path, "facts_gold", file=stream_file(tmp_path, items))
    assert len({record.kind for record in records}) == 8
    assert accuracy(records, "facts_gold") == 1
    states = [record.values for record in records if "state_recall" in record.values]
    assert {(each["state_precision"], each["state_recall"]) for each in states} == {(1.0, 1.0)}
    assert max(record.values["context_tokens"] for record in records) < 100


def test_a_search_with_the_words_of_a_question_finds_the_fact():
    system = Facts(SystemContext())
    for day, text in enumerate(("The employer of Ana is Calder.", "Update: The employer of Ana is Tarn."), 1):
        system.observe(Turn(date=f"2025-01-0{day}", text=text))
    items = system.context_for(StreamQuestion(text="Who pays Ana as employer?", kind="current"), "2025-01-03")
    assert [item.text for item in items] == ["user: The employer of Ana is Tarn."]
    system.close()


def test_what_a_document_says_is_no_fact():
    system = Facts(SystemContext())
    system.observe(Turn(date="2025-01-01", role="document", text="The employer of Ana is Calder."))
    assert system.state() == set()
    system.close()
